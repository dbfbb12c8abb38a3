#include "plan/kernels.h"

#include <iterator>

#include "common/error.h"
#include "plan/block_sizes.h"
#include "plan/gpu_limits.h"

namespace nvrar::cuda {
namespace {

enum class Types : uint8_t { kNone, kAll, kInTeams };
enum class Blocks : uint8_t { kSteps, kCrossing, kTransfer, kRows, kTopK, kTeams, kPairsForTwo, kFusedPairsForTwo };

// A row of the table of kernels. `source` and `name` are beginnings, which the type and the number of ranks follow.
struct Family {
  const char* source;  // null: the type's sum_source; of kCrossingSum this stands before it
  const char* name;
  Types types;
  Blocks blocks;
  bool in_teams;         // and so in order, with a form for programmatic launch, and by number of ranks
  uint32_t least_world;  // of a family in teams
  bool own_for_two;      // a kernel of its own not only for 4 and 8 ranks, but also for 2
};

// Indexed by KernelFamily.
constexpr Family kFamilies[] = {
    {"move", "nvrar_move", Types::kNone, Blocks::kSteps, false, 0, false},
    {"transfer", "nvrar_transfer", Types::kNone, Blocks::kTransfer, false, 0, false},
    {"team_move", "nvrar_team_move_", Types::kNone, Blocks::kTeams, true, 2, true},
    {nullptr, "nvrar_sum_", Types::kAll, Blocks::kSteps, false, 0, false},
    {nullptr, "nvrar_sum_nodes_", Types::kAll, Blocks::kSteps, false, 0, false},
    {"team_", "nvrar_one_shot_", Types::kInTeams, Blocks::kPairsForTwo, true, 2, true},
    {"team_", "nvrar_two_shot_", Types::kInTeams, Blocks::kTeams, true, 2, true},
    {"team_", "nvrar_reduce_scatter_", Types::kInTeams, Blocks::kPairsForTwo, true, 2, true},
    {"fused_", "nvrar_fused_one_shot_", Types::kInTeams, Blocks::kFusedPairsForTwo, true, 1, true},
    {"fused_", "nvrar_fused_two_shot_", Types::kInTeams, Blocks::kTeams, true, 1, false},
    {"fused_", "nvrar_fused_norm_one_shot_", Types::kInTeams, Blocks::kFusedPairsForTwo, true, 1, true},
    {"fused_", "nvrar_fused_norm_two_shot_", Types::kInTeams, Blocks::kTeams, true, 1, false},
    {"crossing_move", "nvrar_crossing_move", Types::kNone, Blocks::kCrossing, false, 0, false},
    {"crossing_", "nvrar_crossing_sum_", Types::kAll, Blocks::kCrossing, false, 0, false},
    {"crossing_transfer", "nvrar_crossing_transfer", Types::kNone, Blocks::kTransfer, false, 0, false},
    {"finish_rows_", "nvrar_finish_rows_", Types::kInTeams, Blocks::kRows, false, 0, false},
    {"finish_rows_", "nvrar_finish_rows_norm_", Types::kInTeams, Blocks::kRows, false, 0, false},
    {"top_k_", "nvrar_find_keys_", Types::kInTeams, Blocks::kTopK, false, 0, false},
    {"top_k_", "nvrar_choose_", Types::kInTeams, Blocks::kTopK, false, 0, false},
};
static_assert(std::size(kFamilies) == kKernelFamilies);

constexpr const Family& row_of(KernelFamily family) noexcept { return kFamilies[static_cast<size_t>(family)]; }

constexpr KernelShape shape_of_blocks(Blocks blocks, uint32_t world) noexcept {
  switch (blocks) {
    case Blocks::kSteps:
      return {kWarpThreads, kWorkerWarps, 0, kTilesOfSmallBlocks};
    case Blocks::kCrossing:
      return {kWarpThreads, kWorkerWarps, kHeaderBlocks, kTilesOfSmallBlocks};
    case Blocks::kTransfer:
      return {kTransferThreads};
    case Blocks::kRows:
      return {kRowThreads};
    case Blocks::kTopK:
      return {kTopKThreads};
    case Blocks::kPairsForTwo:
      if (world == 2) return {kWarpThreads, kPairWarps, kHeaderBlocks, kTilesOfSmallPairBlocks};
      break;
    case Blocks::kFusedPairsForTwo:
      if (world == 2) return {kWarpThreads, kTeamWarps, kHeaderBlocks, {}};
      break;
    case Blocks::kTeams:
      break;
  }
  return {world * kWarpThreads, kTeamWarps / world, kHeaderBlocks, kTilesOfSmallTeamBlocks};
}

// The numbers of ranks that the family has kernels of their own for; the kernel of the others takes any.
constexpr bool has_own(const Family& row, uint32_t world) noexcept {
  return world == 4 || world == 8 || (world == 2 && row.own_for_two);
}

KernelImage image_of(KernelFamily family, uint32_t type, uint32_t world) {
  const Family& row = row_of(family);
  const char* const type_name = row.types == Types::kNone ? "" : kElementTypes[type].name;
  KernelImage image;
  image.id = {family, static_cast<uint8_t>(type), static_cast<uint8_t>(world)};
  const bool crosses = family == KernelFamily::kCrossingSum;
  image.source = row.source == nullptr ? kElementTypes[type].sum_source
                                       : row.source + std::string(crosses ? kElementTypes[type].sum_source : type_name);
  image.name = std::string(row.name) + type_name;
  image.shape = shape_of_blocks(row.blocks, world);
  image.in_teams = row.in_teams;
  if (!image.in_teams) return image;
  image.has_single = has_own(row, world);
  if (row.types != Types::kNone) image.name += '_';
  image.name += std::to_string(image.has_single ? world : 0);
  return image;
}

// A fused all-reduce's kernels.
KernelFamily fused_family(const KernelChoice& choice) noexcept {
  const bool norm = choice.fusion == NVRAR_FUSION_RMS_NORM;
  if (choice.algorithm == Algorithm::kTwoShot) {
    return norm ? KernelFamily::kFusedNormTwoShot : KernelFamily::kFusedTwoShot;
  }
  return norm ? KernelFamily::kFusedNormOneShot : KernelFamily::kFusedOneShot;
}

KernelFamily family_of(const KernelChoice& choice) {
  if (choice.fusion != 0 && !choice.crosses) return fused_family(choice);
  if (choice.crosses && choice.algorithm != Algorithm::kCopy) {
    if (!sums(choice.algorithm)) return KernelFamily::kCrossingMove;
    if (choice.algorithm != Algorithm::kTwoShot && choice.algorithm != Algorithm::kHierarchicalTwoShot) {
      return KernelFamily::kCrossingSum;
    }
  }
  const bool nodes = choice.topology.nodes() > 1;
  const KernelFamily steps = nodes ? KernelFamily::kNodeSum : KernelFamily::kSum;
  const auto in_teams = [&](KernelFamily family) {
    const bool has = choice.op == NVRAR_SUM && !nodes && choice.aligned && choice.topology.world > 1 &&
                     element_type(choice.data_type).in_teams;
    return has ? family : steps;
  };
  switch (choice.algorithm) {
    case Algorithm::kOneShot:
      return in_teams(KernelFamily::kOneShot);
    case Algorithm::kTwoShot:
      return in_teams(KernelFamily::kTwoShot);
    case Algorithm::kReduceScatter:
      return in_teams(KernelFamily::kReduceScatter);
    case Algorithm::kHierarchical:
      if (nodes) return steps;
      break;
    case Algorithm::kReduce:
      return steps;
    case Algorithm::kAllGather:
    case Algorithm::kAllToAll:
    case Algorithm::kBroadcast:
    case Algorithm::kBarrier:
      return choice.aligned ? KernelFamily::kTeamMove : KernelFamily::kMove;
    case Algorithm::kCopy:
      return KernelFamily::kMove;
    case Algorithm::kHierarchicalTwoShot:
      break;
  }
  throw Error(NVRAR_INTERNAL, "no kernel has the steps of algorithm " +
                                  std::to_string(static_cast<uint32_t>(choice.algorithm)) + " in nodes of " +
                                  std::to_string(choice.topology.largest) + " ranks");
}

}  // namespace

std::vector<KernelImage> kernel_images() {
  std::vector<KernelImage> images;
  for (size_t index = 0; index < kKernelFamilies; ++index) {
    const auto family = static_cast<KernelFamily>(index);
    const Family& row = row_of(family);
    const uint32_t last_world = row.in_teams ? protocol::kMaxRanks : 0;
    for (uint32_t type = 0; type < kElementTypes.size(); ++type) {
      const bool has = row.types == Types::kNone  ? type == 0
                       : row.types == Types::kAll ? kElementTypes[type].name != nullptr
                                                  : kElementTypes[type].in_teams;
      for (uint32_t world = row.least_world; has && world <= last_world; ++world) {
        images.push_back(image_of(family, type, world));
      }
    }
  }
  return images;
}

KernelId kernel_of(const KernelChoice& choice) {
  const KernelFamily family = family_of(choice);
  const Family& row = row_of(family);
  return {family, static_cast<uint8_t>(row.types == Types::kNone ? 0 : choice.data_type),
          static_cast<uint8_t>(row.in_teams ? choice.topology.world : 0)};
}

KernelId rows_kernel_of(int32_t fusion, int32_t data_type) noexcept {
  const bool norm = fusion == NVRAR_FUSION_RMS_NORM;
  return {norm ? KernelFamily::kFinishNormRows : KernelFamily::kFinishRows, static_cast<uint8_t>(data_type), 0};
}

KernelShape kernel_shape(KernelId id, const GpuFacts& gpu) noexcept {
  KernelShape shape = shape_of_blocks(row_of(id.family).blocks, id.world);
  if (id.family == KernelFamily::kSum) shape.max_tiles = gpu.tiles_of_sums[id.data_type];
  if (id.family == KernelFamily::kNodeSum) shape.max_tiles = gpu.tiles_of_node_sums[id.data_type];
  if (id.family == KernelFamily::kCrossingSum) shape.max_tiles = gpu.tiles_of_crossing_sums[id.data_type];
  if (id.family == KernelFamily::kCrossingMove) shape.max_tiles = gpu.tiles_of_crossing_moves;
  return shape;
}

bool is_in_order(KernelId id) noexcept { return row_of(id.family).in_teams; }

}  // namespace nvrar::cuda
