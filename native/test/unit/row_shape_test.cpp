// How the blocks of a GPU share the rows of a fused all-reduce, over what kernels, rings and GPUs there may be.
#include "plan/row_shape.h"

#include <gtest/gtest.h>

#include <string>

namespace nvrar {
namespace {

constexpr uint32_t kRunBytes = protocol::SentinelPacket::kRunBytes;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kWarpsOfABlock = 8;
constexpr BlockLimits kDefault{264, 264};
constexpr BlockLimits kExclusive{528, 8192};

// As the kernels of so many ranks have it.
KernelShape kernel_of(uint32_t world, bool two_shot) {
  const uint32_t warps = world == 2 && !two_shot ? 1 : world;
  return {warps * kWarp, kWarpsOfABlock / warps, 1, {}};
}

struct Given {
  Fusion fusion;
  uint32_t element_bytes;
  uint32_t world;
  bool two_shot;
  BlockLimits most;
  RowLimits limits;
  uint64_t ring_bytes = 16 << 20;

  uint32_t tile_bytes() const { return two_shot ? world * kRunBytes : kRunBytes; }
  protocol::RingLayout layout() const { return {ring_bytes, {world, world}}; }
  RowShape shape() const {
    return row_shape_of(fusion, element_bytes, tile_bytes(), layout(), kernel_of(world, two_shot), most, limits);
  }
  std::string text() const {
    return "form " + std::to_string(fusion.form) + ", " + std::to_string(fusion.rows) + " x " +
           std::to_string(fusion.hidden) + " of " + std::to_string(element_bytes) + " bytes, " + std::to_string(world) +
           " ranks" + (two_shot ? ", two-shot" : "") + ", clusters of " + std::to_string(limits.most_in_cluster) +
           (limits.any_order ? ", any order" : "");
  }
};

void expect_sound(const Given& given) {
  SCOPED_TRACE(given.text());
  const RowShape shape = given.shape();
  const KernelShape kernel = kernel_of(given.world, given.two_shot);
  const uint64_t bytes = uint64_t{given.fusion.rows} * given.fusion.hidden * given.element_bytes;
  ASSERT_EQ(uint64_t{shape.rows - 1} * shape.row_bytes < bytes && uint64_t{shape.rows} * shape.row_bytes >= bytes,
            true);
  ASSERT_GE(shape.tiles_per_row * given.tile_bytes(), shape.row_bytes);
  ASSERT_LT((shape.tiles_per_row - 1) * given.tile_bytes(), shape.row_bytes);
  const LaunchShape& block = shape.block;
  ASSERT_LE(block.tiles_per_block, kernel.max_tiles);
  ASSERT_EQ(block.threads, block.tiles_per_block * kernel.threads_per_tile);
  ASSERT_EQ(block.single, shape.blocks_per_row * block.tiles_per_block >= shape.tiles_per_row);
  ASSERT_LE((shape.blocks_per_row - 1) * block.tiles_per_block, shape.tiles_per_row - 1) << "a block without a tile";
  const bool norm = given.fusion.form == NVRAR_FUSION_RMS_NORM;
  ASSERT_EQ(shape.meet, norm && shape.blocks_per_row > 1);
  if (shape.meet) {
    ASSERT_LE(shape.blocks_per_row, given.limits.most_in_cluster);
    ASSERT_EQ(shape.header_blocks, shape.blocks_per_row) << "a grid is whole clusters";
  } else {
    ASSERT_EQ(shape.header_blocks, 1U);
  }
  ASSERT_GE(shape.rows_per_launch, 1U);
  ASSERT_LE(shape.rows_per_launch, shape.rows);
  const uint32_t blocks = shape.header_blocks + shape.rows_per_launch * shape.blocks_per_row;
  if (given.limits.any_order) {
    const uint32_t lost = shape.meet ? (shape.blocks_per_row - 1) * given.limits.cluster_parts : 0;
    ASSERT_LE(blocks + lost, given.most.resident);
  } else {
    ASSERT_LE(blocks, given.most.single);
  }
  if (given.world == 1) return;
  ASSERT_LE(uint64_t{shape.rows_per_launch} * shape.tiles_per_row * given.world,
            given.layout().area_runs(protocol::PacketKind::kSentinel));
}

TEST(RowShapes, CoverEveryRowAndFitTheGpuAndTheRings) {
  uint32_t number = 0;
  for (uint32_t hidden = 8; hidden <= NVRAR_MAX_HIDDEN; hidden += hidden < 1024 ? 8 : 504) {
    for (const uint32_t rows : {1u, 2u, 3u, 7u, 16u, 33u, 128u, 256u, 5000u}) {
      for (uint32_t world = 1; world <= NVRAR_MAX_RANKS_PER_NODE; ++world) {
        for (const bool two_shot : {false, true}) {
          const int32_t form = NVRAR_FUSION_RESIDUAL + static_cast<int32_t>(number++ % 4);
          Given given{{form, rows, hidden, 0}, number % 3 == 0 ? 4u : 2u, world, two_shot, kDefault, {}};
          for (const uint32_t cluster : {1u, 8u, 16u}) {
            for (const bool any_order : {false, true}) {
              given.limits = {cluster, 12, any_order};
              given.most = any_order ? kDefault : kExclusive;
              expect_sound(given);
              if (::testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(RowShapes, AreThoseThatWereMeasured) {
  Given given{{NVRAR_FUSION_RMS_NORM, 1, 8192, 0}, 2, 2, false, kExclusive, {16, 12, false}};
  EXPECT_EQ(given.shape().blocks_per_row, 16U);
  EXPECT_EQ(given.shape().block.threads, 64U);
  given.fusion.rows = 32;
  EXPECT_EQ(given.shape().blocks_per_row, 4U);
  given.fusion.hidden = 5120;  // 20 tiles
  given.fusion.rows = 1;
  EXPECT_EQ(given.shape().blocks_per_row, 10U);
  EXPECT_TRUE(given.shape().block.single);
  given.world = 8;
  EXPECT_FALSE(given.shape().block.single);
}

TEST(RowShapes, OfTeamsTakeLargerBlocksFromTheRowsFromWhichTheseAreFaster) {
  Given given{{NVRAR_FUSION_RMS_NORM, 2, 4096, 0}, 2, 4, false, kExclusive, {16, 12, false}};
  EXPECT_EQ(given.shape().blocks_per_row, 16U);
  given.fusion.rows = 4;
  EXPECT_EQ(given.shape().blocks_per_row, 8U);
  EXPECT_TRUE(given.shape().block.single);
  given.fusion.hidden = 8192;  // would repeat in clusters of 8
  EXPECT_EQ(given.shape().blocks_per_row, 16U);
  given.two_shot = true;
  given.fusion.rows = 16;
  EXPECT_EQ(given.shape().blocks_per_row, 8U);
  given.fusion.rows = 17;
  EXPECT_EQ(given.shape().blocks_per_row, 4U);
}

// A launch takes 5 us in a default group, and one turn more of its blocks less than 1.
TEST(RowShapes, HaveSmallerClustersRatherThanMoreLaunches) {
  for (const uint32_t world : {3u, 4u}) {
    for (const uint32_t rows : {8u, 16u, 32u}) {
      const Given given{{NVRAR_FUSION_RMS_NORM, rows, 8192, 0}, 2, world, true, {198, 198}, {16, 12, true}};
      expect_sound(given);
      EXPECT_EQ(given.shape().launches(), 1U) << given.text();
    }
  }
  Given four{{NVRAR_FUSION_RMS_NORM, 16, 8192, 0}, 2, 4, true, {198, 198}, {16, 12, true}};
  EXPECT_EQ(four.shape().blocks_per_row, 4U);
  EXPECT_TRUE(four.shape().block.single);
  four.fusion.rows = 13;
  EXPECT_EQ(four.shape().blocks_per_row, 8U) << "all rows find room in the larger ones";
  // Of 5, 2 and 1 blocks a row, 2 save no launch yet.
  const Given many{{NVRAR_FUSION_RESIDUAL, 128, 8192, 0}, 2, 3, true, {198, 198}, {16, 12, true}};
  EXPECT_EQ(many.shape().launches(), 1U);
}

// Where the rings and not the GPU limit the rows of a launch, smaller clusters hardly save launches.
TEST(RowShapes, DoNotRepeatManyTimesForOneLaunchOfMany) {
  const Given given{{NVRAR_FUSION_RMS_NORM, 2048, 12288, 0}, 4, 8, true, kDefault, {16, 12, true}, 4 << 20};
  expect_sound(given);
  EXPECT_EQ(given.shape().launches(), 26U);
  EXPECT_EQ(given.shape().turns(), 4U) << "25 launches would have 12 turns";
}

TEST(RowShapes, CountTheTurnsOfABlockAndTheLaunches) {
  Given given{{NVRAR_FUSION_RMS_NORM, 1, 8192, 0}, 4, 4, false, kExclusive, {16, 12, false}};
  EXPECT_EQ(given.shape().turns(), 2U);
  EXPECT_EQ(given.shape().launches(), 1U);
  given.two_shot = true;
  EXPECT_EQ(given.shape().turns(), 1U);
  given.most = {66, 66};
  given.limits.any_order = true;
  given.fusion.rows = 100;
  const RowShape shape = given.shape();
  EXPECT_EQ(shape.turns(), shape.tiles_per_row / (shape.blocks_per_row * shape.block.tiles_per_block));
  EXPECT_EQ(shape.launches(), (100 + shape.rows_per_launch - 1) / shape.rows_per_launch);
  given.ring_bytes = 8192;
  EXPECT_EQ(given.shape().launches(), ~uint64_t{0}) << "no number of launches is as bad";
  given.fusion.rows = 0;
  EXPECT_EQ(given.shape().launches(), 0U);
  EXPECT_EQ(given.shape().turns(), 0U);
}

// Where little of the GPU is left for a group, clusters are smaller, down to a block a row.
TEST(RowShapes, FitSmallSharesOfAGpu) {
  for (uint32_t blocks = 2; blocks < 300; ++blocks) {
    Given given{{NVRAR_FUSION_RMS_NORM, 9, 8192, 0}, 2, 4, false, {blocks, blocks}, {16, 12, true}};
    expect_sound(given);
    if (HasFatalFailure()) return;
  }
}

TEST(RowShapes, OfNoRowsAreEmpty) {
  for (const int32_t form : {NVRAR_FUSION_RESIDUAL, NVRAR_FUSION_BIAS, NVRAR_FUSION_RMS_NORM, NVRAR_FUSION_RMS_FOLD}) {
    const Given given{{form, 0, 8192, 0}, 2, 2, false, kDefault, {16, 12, true}};
    EXPECT_EQ(given.shape().rows, 0U);
  }
}

TEST(RowShapes, CountMoreRowsThan32BitsHold) {
  const Given given{{NVRAR_FUSION_RESIDUAL, ~0U, 16384, 0}, 4, 2, false, kExclusive, {16, 12, false}};
  EXPECT_EQ(given.shape().rows * given.shape().row_bytes, uint64_t{~0U} * 16384 * 4);
}

TEST(RowShapes, OfARankThatIsAloneDoNotDependOnTheRings) {
  const Given given{{NVRAR_FUSION_RMS_NORM, 3, 16384, 0}, 4, 1, false, kDefault, {16, 12, true}, 8192};
  EXPECT_GE(given.shape().rows_per_launch, 1U);
}

TEST(RowShapes, HaveNoRowWhereTheRingsHoldNone) {
  Given given{{NVRAR_FUSION_RMS_NORM, 2, 8192, 0}, 4, 4, false, kDefault, {16, 12, true}, 8192};
  EXPECT_EQ(given.shape().rows_per_launch, 0U);
  given.ring_bytes = 4 * 32768;
  EXPECT_EQ(given.shape().rows_per_launch, 1U);
}

// Which have no rows of their own.
TEST(RowShapes, OfResidualsFitTheSmallestRings) {
  for (uint32_t world = 1; world <= NVRAR_MAX_RANKS_PER_NODE; ++world) {
    for (const bool two_shot : {false, true}) {
      expect_sound({{NVRAR_FUSION_RESIDUAL, 3, 16384, 0}, 4, world, two_shot, kDefault, {16, 12, true}, 8192});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RowShapes, OfResidualsDoNotDependOnTheCallersRows) {
  Given many{{NVRAR_FUSION_RESIDUAL, 8192, 8, 0}, 2, 2, false, kExclusive, {16, 12, false}};
  Given few{{NVRAR_FUSION_RESIDUAL, 4, 16384, 0}, 2, 2, false, kExclusive, {16, 12, false}};
  EXPECT_EQ(many.shape().rows, few.shape().rows);
  EXPECT_EQ(many.shape().row_bytes, few.shape().row_bytes);
}

}  // namespace
}  // namespace nvrar
