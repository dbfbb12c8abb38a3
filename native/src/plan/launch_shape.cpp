#include "plan/launch_shape.h"

#include <algorithm>

namespace nvrar {

namespace {

// 0: the rule does not say.
uint32_t tuned_tiles(const KernelShape& kernel, const TunedShape& tuned) noexcept {
  const uint32_t tiles =
      tuned.threads == 0 ? tuned.tiles : std::max<uint32_t>(tuned.threads / kernel.threads_per_tile, 1);
  return std::min(tiles, kernel.max_tiles);
}

LaunchShape shape_within(uint32_t most_blocks, uint64_t tiles, const KernelShape& kernel,
                         const TunedShape& tuned) noexcept {
  most_blocks -= kernel.more_blocks;
  if (tuned.blocks != 0) most_blocks = std::min(most_blocks, tuned.blocks);
  LaunchShape shape;
  for (const uint32_t of_small_blocks : kernel.tiles_of_small_blocks) {
    if (tiles > of_small_blocks) shape.tiles_per_block = std::min(2 * shape.tiles_per_block, kernel.max_tiles);
  }
  if (tiles > uint64_t{shape.tiles_per_block} * most_blocks) shape.tiles_per_block = kernel.max_tiles;
  if (const uint32_t wanted = tuned_tiles(kernel, tuned); wanted != 0) shape.tiles_per_block = wanted;
  const uint64_t needed = (tiles + shape.tiles_per_block - 1) / shape.tiles_per_block;
  shape.single = needed <= most_blocks;
  shape.blocks = static_cast<uint32_t>(std::min<uint64_t>(needed, most_blocks)) + kernel.more_blocks;
  shape.threads = shape.tiles_per_block * kernel.threads_per_tile;
  return shape;
}

}  // namespace

LaunchShape shape_of(uint64_t tiles, const KernelShape& kernel, const BlockLimits& most,
                     const TunedShape& tuned) noexcept {
  tiles = std::max<uint64_t>(tiles, 1);
  const LaunchShape shape = shape_within(most.single, tiles, kernel, tuned);
  return shape.single ? shape : shape_within(most.resident, tiles, kernel, tuned);
}

}  // namespace nvrar
