// How the blocks of a GPU share the rows of a fused all-reduce.
#ifndef NVRAR_PLAN_ROW_SHAPE_H
#define NVRAR_PLAN_ROW_SHAPE_H

#include <cstdint>

#include "call/fusion.h"
#include "plan/launch_shape.h"
#include "protocol/ring_layout.h"

namespace nvrar {

// What a GPU allows.
struct RowLimits {
  uint32_t most_in_cluster = 1;
  uint32_t cluster_parts = 1;  // of a GPU, each of which has whole clusters
  bool any_order = false;      // blocks need room at once (BlockLimits::resident); else they start in order
};

// Of rows whose blocks do not meet.
constexpr uint32_t kMostBlocksPerRow = 16;

struct RowShape {
  uint64_t rows = 0;  // of the message, as the kernel takes it; the last one may be shorter
  uint32_t row_bytes = 0;
  uint32_t tiles_per_row = 0;
  uint32_t blocks_per_row = 0;  // a cluster, if `meet`
  uint32_t header_blocks = 0;
  uint32_t rows_per_launch = 0;  // 0: the rings are too small for a row
  bool meet = false;             // whether the blocks of a row have numbers for each other
  LaunchShape block{};           // of a launch of no rows

  // 0 for no rows; more than any number if the rings are too small for one.
  uint64_t launches() const noexcept {
    if (rows == 0) return 0;
    return rows_per_launch == 0 ? ~uint64_t{0} : (rows + rows_per_launch - 1) / rows_per_launch;
  }
  // The shape of a launch of `count` rows.
  LaunchShape launch_of(uint64_t count) const noexcept {
    LaunchShape shape = block;
    shape.blocks += static_cast<uint32_t>(count) * blocks_per_row;
    return shape;
  }
  // How often a block repeats what it does.
  uint32_t turns() const noexcept {
    const uint32_t at_once = blocks_per_row * block.tiles_per_block;
    return at_once == 0 ? 0 : (tiles_per_row + at_once - 1) / at_once;
  }
};

// tile_bytes: of a tile of the kernel.
RowShape row_shape_of(const Fusion& fusion, uint32_t element_bytes, uint32_t tile_bytes,
                      const protocol::RingLayout& layout, const KernelShape& kernel, const BlockLimits& most,
                      const RowLimits& limits) noexcept;

}  // namespace nvrar

#endif  // NVRAR_PLAN_ROW_SHAPE_H
