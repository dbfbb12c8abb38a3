#include "cuda/launch/occupancy.h"

#include <algorithm>

namespace nvrar::cuda {
namespace {

// A warp is on one of a multiprocessor's quarters, each of which has a quarter of the registers, and registers are
// allocated in units. If a block shares the multiprocessor with blocks of other kernels, the quarter that gets one warp
// more than the others may be the same one for all blocks.
uint32_t blocks_beside_others(const Kernel& kernel, uint32_t registers) {
  constexpr uint32_t kQuarters = 4;
  constexpr uint32_t kUnit = 8;  // registers of a thread
  const uint32_t warps = (kernel.max_threads() / kWarpThreads + kQuarters - 1) / kQuarters;
  const uint32_t of_a_warp = (std::max(kernel.registers, 1u) + kUnit - 1) / kUnit * kUnit * kWarpThreads;
  return registers / kQuarters / (warps * of_a_warp);
}

}  // namespace

uint32_t share_out(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible,
                   const Multiprocessor& multiprocessor, const Occupancy& occupancy) {
  const auto fit = [&](const Kernel& kernel) { return std::min(occupancy(kernel), kPlaces); };
  const auto held = [&](const Kernel& kernel) {
    return std::min(fit(kernel), blocks_beside_others(kernel, multiprocessor.registers));
  };
  uint32_t places = ~0u;
  for (Kernel* const kernel : whole) {
    kernel->blocks_per_multiprocessor = held(*kernel);
    places = std::min(places, kernel->blocks_per_multiprocessor);
  }
  for (Kernel* const kernel : divisible) {
    kernel->blocks_per_multiprocessor = held(*kernel);
    while (kernel->blocks_per_multiprocessor < places && kernel->max_tiles > 1) {
      --kernel->max_tiles;
      kernel->blocks_per_multiprocessor = held(*kernel);
    }
  }
  for (const Kernel* const kernel : divisible) places = std::min(places, kernel->blocks_per_multiprocessor);
  for (const std::vector<Kernel*>* const kernels : {&whole, &divisible}) {
    for (Kernel* const kernel : *kernels) {
      const uint32_t bytes = shared_bytes_of_a_block(multiprocessor.shared_bytes, multiprocessor.reserved_shared_bytes,
                                                     std::max(fit(*kernel), 1u));
      kernel->added_shared_bytes = bytes - kernel->own_shared_bytes;
    }
  }
  return places;
}

}  // namespace nvrar::cuda
