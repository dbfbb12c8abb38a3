// An allocation of device memory, and the check that all ranks' devices can access each other's memory.
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

// The device with that UUID, if this process sees it. Ordinals differ between processes with different
// CUDA_VISIBLE_DEVICES.
std::optional<DeviceHandle> visible_device(const Uuid& uuid);

// Throws NVRAR_UNAVAILABLE unless kernels on each rank's device can access the memory of every other rank's device, in
// packets that arrive whole. Only devices that this process sees can be checked; the driver gives no information about
// others. Called before anything is mapped, so that all members that see the same pair report the same.
void require_links(const std::vector<MemoryBlob>& blobs);

class DeviceMemory {
 public:
  // Allocates whole pages, so that a peer that maps the block sees nothing else. The block's id is stored behind its
  // last byte.
  DeviceMemory(std::shared_ptr<const PrimaryContext> context, uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DeviceAddress get() const noexcept { return address_; }
  uint64_t bytes() const noexcept { return bytes_; }
  uint64_t id() const noexcept { return id_; }
  const PrimaryContext& context() const noexcept { return *context_; }
  IpcMemoryHandle ipc_handle() const;

  // Reads the id behind the last byte of a block that a peer has mapped.
  static uint64_t id_behind(DeviceAddress base, uint64_t bytes);

 private:
  std::shared_ptr<const PrimaryContext> context_;
  uint64_t bytes_;
  uint64_t id_ = 0;
  DeviceAddress address_ = 0;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_DEVICE_MEMORY_H
