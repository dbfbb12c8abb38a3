// How large a launch is: its blocks, and how many tiles each of them works on.
#ifndef NVRAR_CALL_LAUNCH_SHAPE_H
#define NVRAR_CALL_LAUNCH_SHAPE_H

#include <cstdint>

namespace nvrar {

// What the kernel of a call can be launched with. On the CPU the calling thread is the one block of one tile.
struct KernelShape {
  uint32_t threads_per_tile = 1;
  uint32_t more_threads = 0;  // of a block, whatever its tiles
  uint32_t max_tiles = 1;     // that a block can work on at once
  uint32_t most_blocks = 1;   // of a launch
};

struct LaunchShape {
  uint32_t blocks = 1;
  uint32_t threads = 1;          // of a block
  uint32_t tiles_per_block = 1;  // that a block works on at once; it takes as many in turn as the launch needs
  bool single = true;            // no block has a second turn
};

// Of a backend, measured.
struct ShapeLimits {
  uint32_t blocks_of_one_tile;     // up to so many tiles each has a block of its own
  uint32_t tiles_of_small_blocks;  // small blocks begin and end sooner: larger ones only where the blocks run out
};

// The shape of a launch of so many tiles.
LaunchShape shape_of(uint64_t tiles, const KernelShape& kernel, const ShapeLimits& limits) noexcept;

}  // namespace nvrar

#endif  // NVRAR_CALL_LAUNCH_SHAPE_H
