// The kernels of the library: which there are, which one runs a call, and which sizes its launches may have.
#ifndef NVRAR_PLAN_KERNELS_H
#define NVRAR_PLAN_KERNELS_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "call/algorithm.h"
#include "call/element_type.h"
#include "plan/launch_shape.h"
#include "protocol/topology.h"

namespace nvrar::cuda {

// Kernels that differ in type and number of ranks only.
enum class KernelFamily : uint8_t {
  kMove,      // moves data by the steps of protocol/
  kTransfer,  // sends and receives
  kTeamMove,
  kSum,  // reduces by the steps of protocol/, in one node
  kNodeSum,
  kOneShot,
  kTwoShot,
  kReduceScatter,
  kFusedOneShot,
  kFusedTwoShot,
  kFusedNormOneShot,  // whose blocks may meet
  kFusedNormTwoShot,
  kCrossingMove,  // of groups that span hosts
  kCrossingSum,
  kCrossingTransfer,
  kFinishRows,  // of a fused all-reduce, behind kCrossingSum
  kFinishNormRows,
  kFindKeys,  // of a top-k
  kChoose,
};
constexpr size_t kKernelFamilies = static_cast<size_t>(KernelFamily::kChoose) + 1;

struct KernelId {
  KernelFamily family = KernelFamily::kMove;
  uint8_t data_type = 0;  // 0 of a family for all types
  uint8_t world = 0;      // 0 of a family for all numbers of ranks
};

// Where a kernel stands in an array of all of them.
constexpr size_t kKernelPlaces = kKernelFamilies * kElementCodes * (protocol::kMaxRanks + 1);
constexpr size_t index_of(KernelId id) noexcept {
  return (static_cast<size_t>(id.family) * kElementCodes + id.data_type) * (protocol::kMaxRanks + 1) + id.world;
}

// A kernel as the library's images hold it.
struct KernelImage {
  KernelId id;
  std::string source;  // in cuda/kernels/, without the folder and ".cu"
  std::string name;
  KernelShape shape;        // those of GpuFacts may get fewer tiles
  bool in_teams = false;    // has a form for programmatic launch; see is_in_order
  bool has_single = false;  // has a form for blocks that do not repeat
};

// All of them.
std::vector<KernelImage> kernel_images();

// What is known of a GPU, and of what a call of this group may use of it. Members compare all of it but the tiles when
// they connect, so only the shape of a launch may follow from the tiles.
struct GpuFacts {
  uint32_t compute_capability = 0;    // 10 * major + minor
  uint32_t most_in_cluster = 1;       // blocks of any kernel whose blocks may meet; 1: there are no clusters
  uint32_t most_blocks = 1;           // of a launch whose blocks must be resident together
  uint32_t most_blocks_in_order = 1;  // and of others (BlockLimits)
  // The most tiles of a block of these kernels, which have to fit into the places that the others leave.
  std::array<uint8_t, kElementCodes> tiles_of_sums{};
  std::array<uint8_t, kElementCodes> tiles_of_node_sums{};
  std::array<uint8_t, kElementCodes> tiles_of_crossing_sums{};
  uint8_t tiles_of_crossing_moves = 0;
};

// What determines the kernel of a call.
struct KernelChoice {
  Algorithm algorithm;
  int32_t data_type;
  int32_t op;
  protocol::Topology topology;
  int32_t fusion;        // of a fused all-reduce, whose messages are always aligned; else 0
  bool aligned;          // whether the message is whole packets, at multiples of a packet's size
  bool crosses = false;  // whether the group spans hosts
};

// Throws Error if no kernel has the steps of the algorithm; such a call must not be made.
KernelId kernel_of(const KernelChoice& choice);
// Of the launch behind each one of a fused all-reduce that crosses.
KernelId rows_kernel_of(int32_t fusion, int32_t data_type) noexcept;
// The sizes that its launches may have.
KernelShape kernel_shape(KernelId id, const GpuFacts& gpu) noexcept;
// Whether a block waits only for blocks of its index, and sends before it waits.
bool is_in_order(KernelId id) noexcept;

}  // namespace nvrar::cuda

#endif  // NVRAR_PLAN_KERNELS_H
