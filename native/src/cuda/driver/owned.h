// RAII owners of driver resources. Each keeps its context alive. In a broken context nothing can be freed.
#ifndef NVRAR_CUDA_DRIVER_OWNED_H
#define NVRAR_CUDA_DRIVER_OWNED_H

#include <cstring>
#include <memory>
#include <utility>

#include "cuda/driver/context.h"

namespace nvrar::cuda {

class OwnedStream {
 public:
  explicit OwnedStream(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {
    const CurrentContext current(context_->get());
    check(driver().cuStreamCreate(&stream_, kStreamNonBlocking), "creating a stream");
  }
  ~OwnedStream() {
    if (const ContextScope scope(context_->get()); scope) (void)driver().cuStreamDestroy_v2(stream_);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const noexcept { return stream_; }

 private:
  std::shared_ptr<const PrimaryContext> context_;
  Stream stream_ = nullptr;
};

// Device memory, uninitialised: cuMemAlloc does not zero it.
class OwnedMemory {
 public:
  OwnedMemory(std::shared_ptr<const PrimaryContext> context, uint64_t bytes) : context_(std::move(context)) {
    const CurrentContext current(context_->get());
    check(driver().cuMemAlloc_v2(&address_, bytes), "allocating GPU memory");
  }
  ~OwnedMemory() {
    if (const ContextScope scope(context_->get()); scope) (void)driver().cuMemFree_v2(address_);
  }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  DeviceAddress get() const noexcept { return address_; }

 private:
  std::shared_ptr<const PrimaryContext> context_;
  DeviceAddress address_ = 0;
};

// Pinned host memory that the device can access, initialised to zero.
class OwnedPage {
 public:
  OwnedPage(std::shared_ptr<const PrimaryContext> context, uint64_t bytes) : context_(std::move(context)) {
    const CurrentContext current(context_->get());
    check(driver().cuMemHostAlloc(&host_, bytes, kHostPortable | kHostMapped), "allocating pinned memory");
    std::memset(host_, 0, bytes);
    if (const Result result = driver().cuMemHostGetDevicePointer_v2(&on_device_, host_, 0); result != kSuccess) {
      (void)driver().cuMemFreeHost(host_);
      check(result, "mapping pinned memory to the GPU");
    }
  }
  ~OwnedPage() {
    if (const ContextScope scope(context_->get()); scope) (void)driver().cuMemFreeHost(host_);
  }
  OwnedPage(const OwnedPage&) = delete;
  OwnedPage& operator=(const OwnedPage&) = delete;
  void* host() const noexcept { return host_; }
  DeviceAddress on_device() const noexcept { return on_device_; }

 private:
  std::shared_ptr<const PrimaryContext> context_;
  void* host_ = nullptr;
  DeviceAddress on_device_ = 0;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_DRIVER_OWNED_H
