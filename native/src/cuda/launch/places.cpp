#include "cuda/launch/grid.h"

#include <algorithm>

#include "cuda/kernels/kernel_args.h"
#include "protocol/packet.h"

namespace nvrar::cuda {
namespace {

// Up to so many tiles each has a block of its own.
constexpr uint64_t kBlocksOfOneTile = 64;

// A warp lies in one of a multiprocessor's quarters, each with a quarter of the registers, and takes them in units.
// Among blocks of other kernels, the quarter that has one warp more than the others may be the same one for all.
uint32_t blocks_beside_others(const Kernel& kernel, uint32_t registers) {
  constexpr uint32_t kQuarters = 4;
  constexpr uint32_t kUnit = 8;  // of a thread
  const uint32_t warps = (kernel.max_threads() / kWarpThreads + kQuarters - 1) / kQuarters;
  const uint32_t of_a_warp = (std::max(kernel.registers, 1u) + kUnit - 1) / kUnit * kUnit * kWarpThreads;
  return registers / kQuarters / (warps * of_a_warp);
}

}  // namespace

uint32_t share_out(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible, uint32_t registers,
                   const Occupancy& occupancy) {
  const auto held = [&](const Kernel& kernel) {
    return std::min(occupancy(kernel), blocks_beside_others(kernel, registers));
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
  return places;
}

Grid grid_of(const Kernel& kernel, const Plan& plan, const protocol::Topology& topology, uint64_t bytes,
             uint32_t most_blocks) noexcept {
  const uint64_t run_bytes = plan.packet_kind == protocol::PacketKind::kSentinel ? protocol::SentinelPacket::kRunBytes
                                                                                 : protocol::EpochPacket::kRunBytes;
  const uint64_t together = plan.algorithm == Algorithm::kTwoShot        ? topology.world
                            : plan.algorithm == Algorithm::kHierarchical ? topology.ranks_per_node
                                                                         : 1;
  const uint64_t tiles = std::max<uint64_t>((bytes + run_bytes * together - 1) / (run_bytes * together), 1);
  // Small blocks begin and end sooner.
  const uint32_t most_tiles = std::min(kernel.max_tiles, kWorkerWarps);
  uint32_t tiles_per_block = 1;
  while (tiles_per_block < most_tiles && tiles > tiles_per_block * kBlocksOfOneTile) {
    tiles_per_block = std::min(2 * tiles_per_block, most_tiles);
  }
  if (tiles > uint64_t{tiles_per_block} * most_blocks) tiles_per_block = kernel.max_tiles;
  const uint64_t needed = (tiles + tiles_per_block - 1) / tiles_per_block;
  const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(needed, most_blocks));
  return {blocks, tiles_per_block * kernel.threads_per_tile + kernel.more_threads, blocks == needed};
}

}  // namespace nvrar::cuda
