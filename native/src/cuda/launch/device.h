// One GPU in this process: its primary context and this library's kernels in it. Shared by all groups on the GPU.
#ifndef NVRAR_CUDA_LAUNCH_DEVICE_H
#define NVRAR_CUDA_LAUNCH_DEVICE_H

#include <nvrar.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver/context.h"
#include "cuda/launch/occupancy.h"
#include "plan/kernels.h"

namespace nvrar::cuda {

class Device {
 public:
  // Throws NVRAR_UNAVAILABLE if there is no such GPU, it is too old, or it cannot run this library's kernels.
  static std::shared_ptr<Device> open(int32_t ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::shared_ptr<const PrimaryContext>& primary() const noexcept { return primary_; }
  int32_t ordinal() const noexcept { return primary_->ordinal(); }
  DeviceHandle handle() const noexcept { return primary_->device(); }
  Context context() const noexcept { return primary_->get(); }
  const Uuid& uuid() const noexcept { return primary_->uuid(); }
  uint32_t compute_capability() const noexcept { return facts_.compute_capability; }
  uint32_t multiprocessors() const noexcept { return multiprocessors_; }
  // How many blocks are resident at once whatever the mix of kernels (occupancy.h): on a multiprocessor, and on the
  // GPU.
  uint32_t places_per_multiprocessor() const noexcept { return places_; }
  uint32_t places() const noexcept { return places_ * multiprocessors_; }
  uint32_t most_in_cluster() const noexcept { return facts_.most_in_cluster; }
  // Of the GPU; what a group's calls may have of it is 1.
  const GpuFacts& facts() const noexcept { return facts_; }
  const Kernel& kernel(KernelId id) const noexcept { return kernels_[index_of(id)]; }
  const Kernel& transfer_kernel() const noexcept { return kernel({KernelFamily::kTransfer, 0, 0}); }
  // Throws NVRAR_INVALID_ARGUMENT if the GPU, or the library's kernels for it, have no programmatic dependent launch.
  void require_programmatic_launch() const;

 private:
  // By source, so that a kernel is looked up in its own module.
  using Modules = std::map<std::string, Module>;

  explicit Device(int32_t ordinal);
  void load_modules();
  void load_kernels();
  void share_out_places(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible);
  uint32_t find_most_in_cluster(const Kernel& kernel) const;
  Kernel find(const KernelImage& image) const;
  uint32_t blocks_that_fit(const Kernel& kernel) const;
  void unload_kernels() noexcept;

  std::shared_ptr<const PrimaryContext> primary_;
  Modules modules_;
  GpuFacts facts_;
  uint32_t multiprocessors_ = 0;
  Multiprocessor multiprocessor_;
  uint32_t places_ = 0;
  bool has_programmatic_ = true;  // whether all kernels that may start early can
  std::vector<Kernel> kernels_;   // by index_of(); without functions where there is none
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_DEVICE_H
