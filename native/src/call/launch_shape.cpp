#include "call/launch_shape.h"

#include <algorithm>

namespace nvrar {

namespace {

LaunchShape shape_within(uint32_t most_blocks, uint64_t tiles, const KernelShape& kernel,
                         const ShapeLimits& limits) noexcept {
  const uint32_t most_tiles = std::min(kernel.max_tiles, limits.tiles_of_small_blocks);
  LaunchShape shape;
  while (shape.tiles_per_block < most_tiles && tiles > uint64_t{shape.tiles_per_block} * limits.blocks_of_one_tile) {
    shape.tiles_per_block = std::min(2 * shape.tiles_per_block, most_tiles);
  }
  if (tiles > uint64_t{shape.tiles_per_block} * most_blocks) shape.tiles_per_block = kernel.max_tiles;
  const uint64_t needed = (tiles + shape.tiles_per_block - 1) / shape.tiles_per_block;
  shape.blocks = static_cast<uint32_t>(std::min<uint64_t>(needed, most_blocks));
  shape.threads = shape.tiles_per_block * kernel.threads_per_tile + kernel.more_threads;
  shape.single = shape.blocks == needed;
  return shape;
}

}  // namespace

LaunchShape shape_of(uint64_t tiles, const KernelShape& kernel, const BlockLimits& most,
                     const ShapeLimits& limits) noexcept {
  tiles = std::max<uint64_t>(tiles, 1);
  const LaunchShape shape = shape_within(most.single, tiles, kernel, limits);
  return shape.single ? shape : shape_within(most.resident, tiles, kernel, limits);
}

}  // namespace nvrar
