// One GPU as this process uses it: this library's kernels, in its primary context. Shared by all groups that are on it.
#ifndef NVRAR_CUDA_LAUNCH_DEVICE_H
#define NVRAR_CUDA_LAUNCH_DEVICE_H

#include <nvrar.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "call/algorithm.h"
#include "call/element_type.h"
#include "cuda/driver/context.h"
#include "cuda/launch/places.h"
#include "protocol/topology.h"

namespace nvrar::cuda {

// What a call needs of a kernel.
struct KernelChoice {
  Algorithm algorithm;
  int32_t data_type;
  int32_t op;
  protocol::Topology topology;
  bool aligned;  // whole packets at multiples of their size
};

class Device {
 public:
  // Throws Error: NVRAR_UNAVAILABLE where there is no such GPU, or it is too old, or the library holds no kernels.
  static std::shared_ptr<Device> open(int32_t ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::shared_ptr<const PrimaryContext>& primary() const noexcept { return primary_; }
  int32_t ordinal() const noexcept { return primary_->ordinal(); }
  DeviceHandle handle() const noexcept { return primary_->device(); }
  Context context() const noexcept { return primary_->get(); }
  const Uuid& uuid() const noexcept { return primary_->uuid(); }
  uint32_t compute_capability() const noexcept { return compute_capability_; }  // 10 * major + minor
  uint32_t multiprocessors() const noexcept { return multiprocessors_; }
  // Of any mix of kernels, that each multiprocessor holds at once (places.h), and so all of them together.
  uint32_t places_per_multiprocessor() const noexcept { return places_; }
  uint32_t places() const noexcept { return places_ * multiprocessors_; }
  // Throws Error where no kernel has the steps of that algorithm: such a call may not be made.
  const Kernel& kernel(const KernelChoice& choice) const;
  const Kernel& transfer_kernel() const noexcept { return transfer_; }

 private:
  // By source, so that a kernel is looked for where it is.
  using Modules = std::map<std::string, Module>;

  explicit Device(int32_t ordinal);
  void load_kernels();
  Kernel find(const std::string& source, const std::string& name, uint32_t threads_per_tile, uint32_t max_tiles,
              uint32_t more_threads = 0, bool has_single = false) const;
  void unload_kernels() noexcept;

  std::shared_ptr<const PrimaryContext> primary_;
  Modules modules_;
  uint32_t compute_capability_ = 0;
  uint32_t multiprocessors_ = 0;
  uint32_t places_ = 0;
  Kernel move_;
  Kernel transfer_;
  Kernel sums_[kElementCodes];                               // by type, in one node
  Kernel node_sums_[kElementCodes];                          // by type, over several
  Kernel teams_[kElementCodes][2][protocol::kMaxRanks + 1];  // by type, one-shot or two-shot, world
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_DEVICE_H
