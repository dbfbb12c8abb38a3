// A block of device memory, and which devices can reach whose.
#ifndef NVRAR_CUDA_MEMORY_DEVICE_MEMORY_H
#define NVRAR_CUDA_MEMORY_DEVICE_MEMORY_H

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/context.h"

namespace nvrar::cuda {

struct MemoryBlob;

// The device of that UUID if this process sees it; ordinals differ between processes with other CUDA_VISIBLE_DEVICES.
std::optional<DeviceHandle> visible_device(const Uuid& uuid);

// Throws NVRAR_UNAVAILABLE unless kernels on each rank's device can access the memory of every other rank's, in packets
// that arrive whole: as far as this process sees their devices, for of others the driver says nothing. Asked before
// anything is mapped, so that all members that see the pair say the same.
void require_links(const std::vector<MemoryBlob>& blobs);

class DeviceMemory {
 public:
  // Whole pages of its own, so that a peer that maps the block sees nothing else. Its id stands behind the last byte.
  DeviceMemory(std::shared_ptr<const PrimaryContext> context, uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DeviceAddress get() const noexcept { return address_; }
  uint64_t bytes() const noexcept { return bytes_; }
  uint64_t id() const noexcept { return id_; }
  const PrimaryContext& context() const noexcept { return *context_; }
  IpcMemoryHandle ipc_handle() const;

  // What stands behind a block's last byte, read by a peer that mapped it.
  static uint64_t id_behind(DeviceAddress base, uint64_t bytes);

 private:
  std::shared_ptr<const PrimaryContext> context_;
  uint64_t bytes_;
  uint64_t id_ = 0;
  DeviceAddress address_ = 0;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_DEVICE_MEMORY_H
