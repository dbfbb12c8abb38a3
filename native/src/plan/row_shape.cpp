#include "plan/row_shape.h"

#include <algorithm>

namespace nvrar {
namespace {

// With more blocks than this, a row takes fewer and larger ones: small blocks end sooner, but many take long to start.
constexpr uint32_t kManyBlocks = 128;
// Of one-shots by teams. Larger blocks leave room for the clusters of the next launch, which starts early.
constexpr uint32_t kManyTeamBlocks = 32;
// In a default group a launch takes about 5 us, and a turn of its blocks about 1.
constexpr uint64_t kTurnsOfALaunch = 5;

constexpr uint32_t kResidualRowBytes = 16 << 10;

constexpr uint32_t divide_up(uint32_t a, uint32_t b) noexcept { return (a + b - 1) / b; }

// Wherever other blocks are, so many find room in whole clusters of this size.
uint32_t room_for_clusters(uint32_t blocks, uint32_t cluster, uint32_t parts) noexcept {
  const uint32_t lost = (cluster - 1) * parts;
  return blocks > lost ? blocks - lost : 0;
}

// Of all launches; more than any number if the rings are too small for a row.
uint64_t turns_of_all(const RowShape& shape) noexcept {
  return shape.rows_per_launch == 0 ? ~uint64_t{0} : shape.launches() * (kTurnsOfALaunch + shape.turns());
}

}  // namespace

RowShape row_shape_of(const Fusion& fusion, uint32_t element_bytes, uint32_t tile_bytes,
                      const protocol::RingLayout& layout, const KernelShape& kernel, const BlockLimits& most,
                      const RowLimits& limits) noexcept {
  RowShape shape;
  if (fusion.rows == 0) return shape;
  shape.rows = fusion.rows;
  shape.row_bytes = fusion.hidden * element_bytes;
  if (fusion.form == NVRAR_FUSION_RESIDUAL) {  // has no use for the caller's rows, which may be many short ones
    const uint64_t bytes = uint64_t{fusion.rows} * shape.row_bytes;
    const uint64_t in_rings =
        layout.area_runs(protocol::PacketKind::kSentinel) / layout.topology.world * uint64_t{tile_bytes};
    shape.row_bytes = static_cast<uint32_t>(std::min<uint64_t>({bytes, kResidualRowBytes, in_rings}));
    shape.rows = (bytes + shape.row_bytes - 1) / shape.row_bytes;
  }
  shape.tiles_per_row = divide_up(shape.row_bytes, tile_bytes);
  const bool meets = fusion.form == NVRAR_FUSION_RMS_NORM;
  const uint32_t blocks = limits.any_order ? most.resident : most.single;

  const bool one_shot_by_teams = layout.topology.world > 2 && tile_bytes == protocol::SentinelPacket::kRunBytes;
  const uint32_t many_blocks = one_shot_by_teams ? kManyTeamBlocks : kManyBlocks;
  uint32_t cluster = std::min(meets ? limits.most_in_cluster : kMostBlocksPerRow, shape.tiles_per_row);
  const auto room = [&](uint32_t of_cluster) {
    return meets && limits.any_order ? room_for_clusters(blocks, of_cluster, limits.cluster_parts) : blocks;
  };
  while (cluster > 1 && shape.rows * cluster > many_blocks &&
         divide_up(shape.tiles_per_row, cluster / 2) <= kernel.max_tiles) {
    cluster /= 2;
  }
  while (cluster > 1 && room(cluster) < 2 * cluster) cluster /= 2;

  const auto shape_with = [&](uint32_t most_blocks) {
    RowShape of = shape;
    LaunchShape& block = of.block;
    block.tiles_per_block = std::min(kernel.max_tiles, divide_up(of.tiles_per_row, most_blocks));
    const uint32_t turns = divide_up(of.tiles_per_row, most_blocks * block.tiles_per_block);
    of.blocks_per_row = divide_up(of.tiles_per_row, turns * block.tiles_per_block);
    of.meet = meets && of.blocks_per_row > 1;
    of.header_blocks = of.meet ? of.blocks_per_row : kernel.more_blocks;
    block.threads = block.tiles_per_block * kernel.threads_per_tile;
    block.blocks = of.header_blocks;
    block.single = turns == 1;

    // A rank that is alone has nothing in its rings.
    const uint64_t row_runs = uint64_t{of.tiles_per_row} * layout.topology.world;
    const uint64_t in_rings =
        layout.topology.world == 1 ? of.rows : layout.area_runs(protocol::PacketKind::kSentinel) / row_runs;
    const uint32_t places = room(most_blocks);
    const uint32_t on_gpu = places < of.header_blocks ? 0 : (places - of.header_blocks) / of.blocks_per_row;
    of.rows_per_launch = static_cast<uint32_t>(std::min<uint64_t>({in_rings, on_gpu, of.rows}));
    return of;
  };
  RowShape best = shape_with(cluster);
  // Smaller clusters save launches, whose blocks repeat more often.
  while (cluster > 1 && best.launches() > 1) {
    cluster /= 2;
    const RowShape smaller = shape_with(cluster);
    if (turns_of_all(smaller) < turns_of_all(best)) best = smaller;
  }
  return best;
}

}  // namespace nvrar
