// What was measured of GPUs, by architecture.
#ifndef NVRAR_CUDA_LAUNCH_ARCHITECTURE_H
#define NVRAR_CUDA_LAUNCH_ARCHITECTURE_H

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "call/plan.h"

namespace nvrar::cuda {

struct Architecture {
  uint32_t compute_capability;  // 10 * major + minor: of GPUs from this one on, up to the next row
  PlanLimits limits;
};

// docs/benchmarks.md has what the numbers follow from; one-shot and two-shot cross later the fewer ranks send. They
// were measured on compute capability 9.0, and stand for the others until somebody measures those.
constexpr Architecture kArchitectures[] = {
    {80,
     {.epoch_reduction_bytes = 0,
      .one_shot_bytes = {0, 0, 8 << 20, 96 << 10, 96 << 10, 64 << 10, 64 << 10, 40 << 10, 40 << 10},
      .two_phase_area_bytes = ~uint64_t{0},
      .shape = {.blocks_of_one_tile = 64, .tiles_of_small_blocks = 8}}},
};

static_assert(std::is_sorted(std::begin(kArchitectures), std::end(kArchitectures),
                             [](const Architecture& a, const Architecture& b) {
                               return a.compute_capability < b.compute_capability;
                             }));

// Of a GPU that is older than the first row: that row's.
constexpr const PlanLimits& limits_of(uint32_t compute_capability) noexcept {
  const Architecture* row = kArchitectures;
  for (const Architecture& next : kArchitectures) {
    if (next.compute_capability <= compute_capability) row = &next;
  }
  return row->limits;
}

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_ARCHITECTURE_H
