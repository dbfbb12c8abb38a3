// Owners of what the driver lends. Each keeps the device, and so its context.
#ifndef NVRAR_CUDA_LAUNCH_OWNED_H
#define NVRAR_CUDA_LAUNCH_OWNED_H

#include <cstring>
#include <memory>

#include "cuda/launch/device.h"

namespace nvrar::cuda {

class OwnedStream {
 public:
  explicit OwnedStream(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const CurrentContext current(device_->context());
    check(driver().cuStreamCreate(&stream_, kStreamNonBlocking), "creating a stream");
  }
  ~OwnedStream() {
    if (driver().cuCtxPushCurrent_v2(device_->context()) != kSuccess) return;
    (void)driver().cuStreamDestroy_v2(stream_);
    Context popped;
    (void)driver().cuCtxPopCurrent_v2(&popped);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const noexcept { return stream_; }

 private:
  std::shared_ptr<Device> device_;
  Stream stream_ = nullptr;
};

// Device memory; nobody knows what is in it at first.
class OwnedMemory {
 public:
  OwnedMemory(std::shared_ptr<Device> device, uint64_t bytes) : device_(std::move(device)) {
    const CurrentContext current(device_->context());
    check(driver().cuMemAlloc_v2(&address_, bytes), "allocating GPU memory");
  }
  ~OwnedMemory() {
    if (driver().cuCtxPushCurrent_v2(device_->context()) != kSuccess) return;
    (void)driver().cuMemFree_v2(address_);
    Context popped;
    (void)driver().cuCtxPopCurrent_v2(&popped);
  }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  DeviceAddress get() const noexcept { return address_; }

 private:
  std::shared_ptr<Device> device_;
  DeviceAddress address_ = 0;
};

// Host memory that the device can access; zero at first.
class OwnedPage {
 public:
  OwnedPage(std::shared_ptr<Device> device, uint64_t bytes) : device_(std::move(device)) {
    const CurrentContext current(device_->context());
    check(driver().cuMemHostAlloc(&host_, bytes, kHostPortable | kHostMapped), "allocating pinned memory");
    std::memset(host_, 0, bytes);
    if (const Result result = driver().cuMemHostGetDevicePointer_v2(&on_device_, host_, 0); result != kSuccess) {
      (void)driver().cuMemFreeHost(host_);
      check(result, "mapping pinned memory to the GPU");
    }
  }
  ~OwnedPage() {
    if (driver().cuCtxPushCurrent_v2(device_->context()) != kSuccess) return;
    (void)driver().cuMemFreeHost(host_);
    Context popped;
    (void)driver().cuCtxPopCurrent_v2(&popped);
  }
  OwnedPage(const OwnedPage&) = delete;
  OwnedPage& operator=(const OwnedPage&) = delete;
  void* host() const noexcept { return host_; }
  DeviceAddress on_device() const noexcept { return on_device_; }

 private:
  std::shared_ptr<Device> device_;
  void* host_ = nullptr;
  DeviceAddress on_device_ = 0;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_OWNED_H
