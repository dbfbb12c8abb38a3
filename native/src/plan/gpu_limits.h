// Limits that were measured on GPUs, by architecture.
#ifndef NVRAR_PLAN_GPU_LIMITS_H
#define NVRAR_PLAN_GPU_LIMITS_H

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "plan/plan.h"

namespace nvrar::cuda {

struct Architecture {
  uint32_t compute_capability;  // 10 * major + minor; the row holds for GPUs from this one up to the next row
  PlanLimits limits;
};

// "9.0" for 90.
inline std::string capability_text(uint32_t compute_capability) {
  return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

// From here on kernels have programmatic dependent launch.
constexpr uint32_t kMinProgrammaticCapability = 90;
// And clusters.
constexpr uint32_t kMinClusterCapability = 90;
constexpr uint32_t kMostInCluster = 16;
// The parts of a GPU each of which has whole clusters, at most.
constexpr uint32_t kMostClusterParts = 12;

// The fewer ranks there are, the larger is the message from which two-shot is faster than one-shot
// (docs/notebook/gpu-notes.md); of fused ones it is smaller for 3 ranks than for 4. All were measured on compute
// capability 9.0, and are used for other architectures until those are measured, too.
constexpr Architecture kArchitectures[] = {
    {80,
     {.epoch_reduction_bytes = 0,
      .one_shot_bytes = {0, 0, 8 << 20, 160 << 10, 96 << 10, 64 << 10, 64 << 10, 40 << 10, 40 << 10},
      .fused_one_shot_bytes = {0, 0, 8 << 20, 96 << 10, 128 << 10, 64 << 10, 64 << 10, 40 << 10, 40 << 10},
      .one_shot_in_nodes = true,
      .two_phase_area_bytes = ~uint64_t{0},
      .hierarchical_one_shot_bytes = ~uint64_t{0},
      .one_hop_areas = 1,
      .move_packets = protocol::PacketKind::kMarked}},
};

// For ranks on several hosts. Only one hop crosses: a node's sums, or the messages of ranks that are alone in theirs.
constexpr PlanLimits kCrossingLimits = [] {
  PlanLimits limits = kArchitectures[0].limits;
  for (uint64_t& bytes : limits.one_shot_bytes) bytes = ~uint64_t{0};
  for (uint64_t& bytes : limits.fused_one_shot_bytes) bytes = ~uint64_t{0};
  limits.one_shot_in_nodes = false;
  return limits;
}();

// Of the kernels for two ranks, of those that work in teams, and of the others.
constexpr TilesOfSmallBlocks kTilesOfSmallPairBlocks = {8, 128, 1024};
constexpr TilesOfSmallBlocks kTilesOfSmallTeamBlocks = {512, 1024, 2048};
constexpr TilesOfSmallBlocks kTilesOfSmallBlocks = {64, 128, 256};

static_assert(std::is_sorted(std::begin(kArchitectures), std::end(kArchitectures),
                             [](const Architecture& a, const Architecture& b) {
                               return a.compute_capability < b.compute_capability;
                             }));

// A GPU older than the first row uses the first row.
constexpr const PlanLimits& limits_of(uint32_t compute_capability) noexcept {
  const Architecture* row = kArchitectures;
  for (const Architecture& next : kArchitectures) {
    if (next.compute_capability <= compute_capability) row = &next;
  }
  return row->limits;
}

}  // namespace nvrar::cuda

#endif  // NVRAR_PLAN_GPU_LIMITS_H
