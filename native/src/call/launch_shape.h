// The size of a launch: the number of its blocks, and how many tiles each of them processes at once.
#ifndef NVRAR_CALL_LAUNCH_SHAPE_H
#define NVRAR_CALL_LAUNCH_SHAPE_H

#include <cstdint>

namespace nvrar {

// The sizes that a block of a kernel can have.
struct KernelShape {
  uint32_t threads_per_tile = 1;
  uint32_t more_threads = 0;  // of a block, independent of the number of its tiles
  uint32_t max_tiles = 1;     // the most tiles that a block can process at once
};

// On the CPU, the calling thread is the one block, with one tile.
struct LaunchShape {
  uint32_t blocks = 1;
  uint32_t threads = 1;          // per block
  uint32_t tiles_per_block = 1;  // how many tiles a block processes at once; it repeats this until the launch is done
  bool single = true;            // no block repeats
};

// Limits of a backend, measured.
struct ShapeLimits {
  uint32_t blocks_of_one_tile = 1;     // with at most this many tiles, each tile has a block of its own
  uint32_t tiles_of_small_blocks = 1;  // small blocks start and end sooner, so larger ones are used only if there are
                                       // not enough blocks
};

// How many blocks a launch may have.
struct BlockLimits {
  uint32_t resident = 1;  // all of them run at once
  // If no block repeats, and blocks start in the order of their indices. A block that repeats may wait for a tile that
  // another rank processes after tiles of blocks that have not started yet.
  uint32_t single = 1;
};

// The shape of a launch with this many tiles.
LaunchShape shape_of(uint64_t tiles, const KernelShape& kernel, const BlockLimits& most,
                     const ShapeLimits& limits) noexcept;

}  // namespace nvrar

#endif  // NVRAR_CALL_LAUNCH_SHAPE_H
