// The size of a launch: the number of its blocks, and how many tiles each of them processes at once.
#ifndef NVRAR_PLAN_LAUNCH_SHAPE_H
#define NVRAR_PLAN_LAUNCH_SHAPE_H

#include <array>
#include <cstdint>

namespace nvrar {

// Measured: the largest launches, in tiles, in which a block processes 1, 2 and 4 tiles at once. Small blocks start and
// end sooner, but many blocks take long to start.
using TilesOfSmallBlocks = std::array<uint32_t, 3>;

// The sizes that a launch of a kernel can have.
struct KernelShape {
  uint32_t threads_per_tile = 1;
  uint32_t max_tiles = 1;    // the most tiles that a block can process at once
  uint32_t more_blocks = 0;  // of a launch, that process no tiles
  TilesOfSmallBlocks tiles_of_small_blocks{};
};

// On the CPU, the calling thread is the one block, with one tile.
struct LaunchShape {
  uint32_t blocks = 1;
  uint32_t threads = 1;          // per block
  uint32_t tiles_per_block = 1;  // how many tiles a block processes at once; it repeats this until the launch is done
  bool single = true;            // no block repeats
};

// How many blocks a launch may have, more than the kernel's more_blocks.
struct BlockLimits {
  uint32_t resident = 1;  // all of them run at once
  // If no block repeats, and blocks start in the order of their indices. A block that repeats may wait for a tile that
  // another rank processes after tiles of blocks that have not started yet.
  uint32_t single = 1;
};

// What a tuning rule says of the shape; 0: nothing.
struct TunedShape {
  uint32_t blocks = 0;   // the most that process tiles
  uint32_t threads = 0;  // the most of a block
  uint32_t tiles = 0;    // per block
};

// The shape of a launch with this many tiles.
LaunchShape shape_of(uint64_t tiles, const KernelShape& kernel, const BlockLimits& most,
                     const TunedShape& tuned) noexcept;

}  // namespace nvrar

#endif  // NVRAR_PLAN_LAUNCH_SHAPE_H
