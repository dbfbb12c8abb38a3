// One GPU in this process: its primary context and this library's kernels in it. Shared by all groups on the GPU.
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
#include "plan/gpu_limits.h"
#include "protocol/topology.h"

namespace nvrar::cuda {

// What determines the kernel of a call.
struct KernelChoice {
  Algorithm algorithm;
  int32_t data_type;
  int32_t op;
  protocol::Topology topology;
  int32_t fusion;  // of a fused all-reduce, whose messages are always aligned; else 0
  bool aligned;    // whether the message is whole packets, at multiples of a packet's size
};

// "9.0" for 90.
std::string capability_text(uint32_t compute_capability);

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
  uint32_t compute_capability() const noexcept { return compute_capability_; }  // 10 * major + minor
  uint32_t multiprocessors() const noexcept { return multiprocessors_; }
  // How many blocks are resident at once whatever the mix of kernels (places.h): on a multiprocessor, and on the GPU.
  uint32_t places_per_multiprocessor() const noexcept { return places_; }
  uint32_t places() const noexcept { return places_ * multiprocessors_; }
  // Blocks of a cluster of any kernel whose blocks may meet; 1: there are no clusters.
  uint32_t most_in_cluster() const noexcept { return most_in_cluster_; }
  // Throws Error if no kernel has the steps of the algorithm; such a call must not be made.
  const Kernel& kernel(const KernelChoice& choice) const;
  const Kernel& transfer_kernel() const noexcept { return transfer_; }
  // Throws NVRAR_INVALID_ARGUMENT if the GPU, or the library's kernels for it, have no programmatic dependent launch.
  void require_programmatic_launch() const;

 private:
  // By source, so that a kernel is looked up in its own module.
  using Modules = std::map<std::string, Module>;

  explicit Device(int32_t ordinal);
  void load_kernels();
  void load_fused(const ElementType& type, size_t code, std::vector<Kernel*>* loaded);
  void share_out_places(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible);
  uint32_t find_most_in_cluster(const Kernel& kernel) const;
  Kernel find(const std::string& source, const std::string& name, const KernelShape& shape, bool in_teams = false,
              bool has_single = false) const;
  uint32_t blocks_that_fit(const Kernel& kernel) const;
  void unload_kernels() noexcept;

  std::shared_ptr<const PrimaryContext> primary_;
  Modules modules_;
  uint32_t compute_capability_ = 0;
  uint32_t multiprocessors_ = 0;
  Multiprocessor multiprocessor_;
  uint32_t places_ = 0;
  uint32_t most_in_cluster_ = kMostInCluster;
  bool has_programmatic_ = true;  // whether all kernels have the forms for it
  Kernel move_;
  Kernel team_moves_[protocol::kMaxRanks + 1];  // by world size
  Kernel transfer_;
  Kernel sums_[kElementCodes];       // by type, for groups in one node
  Kernel node_sums_[kElementCodes];  // by type, for groups in several nodes
  // By type, one-shot, two-shot or reduce-scatter, and world size.
  Kernel teams_[kElementCodes][3][protocol::kMaxRanks + 1];
  // By type; for RMS_NORM or the other forms; one-shot or two-shot; and world size.
  Kernel fused_[kElementCodes][2][2][protocol::kMaxRanks + 1];
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_DEVICE_H
