// How the blocks of a GPU share the rows of a fused all-reduce.
#ifndef NVRAR_CALL_ROW_SHAPE_H
#define NVRAR_CALL_ROW_SHAPE_H

#include <cstdint>

#include "call/fusion.h"
#include "call/launch_shape.h"
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
};

// tile_bytes: of a tile of the kernel.
RowShape row_shape_of(const Fusion& fusion, uint32_t element_bytes, uint32_t tile_bytes,
                      const protocol::RingLayout& layout, const KernelShape& kernel, const BlockLimits& most,
                      const RowLimits& limits) noexcept;

}  // namespace nvrar

#endif  // NVRAR_CALL_ROW_SHAPE_H
