// Tests of GPU launches without a GPU: that the blocks of concurrent launches can always be resident together
// (docs/decisions/0012), and the log that finds a launch by its tag.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/kernels/launch/kernel_args.h"
#include "cuda/kernels/move/transfer_args.h"
#include "cuda/launch/launch_log.h"
#include "cuda/launch/occupancy.h"
#include "plan/gpu_limits.h"

namespace nvrar::test {
namespace {

using cuda::Kernel;

// A multiprocessor, and what of it blocks take. Registers: of the quarter that has the most of their warps, which may
// be the same one for all.
struct Resources {
  uint32_t registers = 0;
  uint32_t warps = 0;
  uint32_t blocks = 0;
  uint32_t shared_bytes = 0;
  uint32_t barriers = 0;

  Resources plus(const Resources& other, uint32_t times = 1) const {
    return {registers + times * other.registers, warps + times * other.warps, blocks + times * other.blocks,
            shared_bytes + times * other.shared_bytes, barriers + times * other.barriers};
  }
  bool holds(const Resources& used) const {
    return used.registers <= registers && used.warps <= warps && used.blocks <= blocks &&
           used.shared_bytes <= shared_bytes && used.barriers <= barriers;
  }
};

struct Gpu {
  const char* name;
  uint32_t multiprocessors;
  Resources each;
};

constexpr uint32_t kReserved = 1024;  // bytes of shared memory, the driver's own, of every block

struct Compiled {
  std::string name;
  bool divisible;
  uint32_t registers;  // of a thread
  uint32_t barriers;
  Kernel kernel;
  bool fills_place = true;  // its blocks take a place's part of the shared memory

  uint32_t registers_of_a_warp() const { return (registers + 7) / 8 * 8 * cuda::kWarpThreads; }
  uint32_t warps() const { return kernel.max_threads() / cuda::kWarpThreads; }
  // The driver's occupancy, for one kernel alone, but for shared memory.
  uint32_t fit(const Gpu& gpu) const {
    const uint32_t by_registers = gpu.each.registers / registers_of_a_warp() * 4 / warps();
    return std::min({by_registers, gpu.each.warps / warps(), gpu.each.blocks, gpu.each.barriers / barriers});
  }
  Resources of_a_block() const {
    constexpr uint32_t kUnit = 128;
    const uint32_t shared = (fills_place ? kernel.own_shared_bytes + kernel.added_shared_bytes : 6 << 10) + kReserved;
    return {registers_of_a_warp() * ((warps() + 3) / 4), warps(), 1, (shared + kUnit - 1) / kUnit * kUnit, barriers};
  }
};

Compiled compiled(const char* name, bool divisible, uint32_t registers, uint32_t barriers, uint32_t threads_per_tile,
                  uint32_t tiles, uint32_t more_blocks = 0) {
  Kernel kernel;
  kernel.threads_per_tile = threads_per_tile;
  kernel.max_tiles = tiles;
  kernel.more_blocks = more_blocks;
  kernel.tiles_of_small_blocks = cuda::kTilesOfSmallBlocks;
  kernel.registers = registers;
  return {name, divisible, registers, barriers, kernel, true};
}

// The driver's occupancy, for one kernel alone.
uint32_t held(const Gpu& gpu, const Compiled& compiled) {
  return std::min(compiled.fit(gpu), gpu.each.shared_bytes / compiled.of_a_block().shared_bytes);
}

struct Library {
  Gpu gpu;
  std::vector<Compiled> kernels;

  // As Device does it.
  uint32_t share_out() {
    std::vector<Kernel*> whole;
    std::vector<Kernel*> divisible;
    for (Compiled& one : kernels) (one.divisible ? divisible : whole).push_back(&one.kernel);
    const cuda::Multiprocessor each{4 * gpu.each.registers, gpu.each.shared_bytes, kReserved};
    return cuda::share_out(whole, divisible, each, [&](const Kernel& kernel) {
      const auto of =
          std::find_if(kernels.begin(), kernels.end(), [&](const Compiled& one) { return &one.kernel == &kernel; });
      return held(gpu, *of);
    });
  }
};

// Registers and barriers by ptxas, as the logs of a build have them. That a multiprocessor has 64
// barriers was seen on an H200: of a kernel with 16, it holds 4 blocks.
std::vector<Library> libraries() {
  const auto kernels = [](uint32_t two_shot, uint32_t two_shot_any, uint32_t one_shot, uint32_t pair, uint32_t nodes_16,
                          uint32_t nodes_32, uint32_t nodes_8) {
    return std::vector<Compiled>{compiled("two_shot_8", false, two_shot, 16, 256, 1),
                                 compiled("two_shot_5", false, two_shot_any, 16, 160, 1),
                                 compiled("two_shot_3", false, two_shot_any, 16, 96, 2),
                                 compiled("one_shot_4", false, one_shot, 16, 128, 2),
                                 compiled("one_shot_2", false, pair, 1, 32, 10),
                                 compiled("fused_two_shot_8", false, 64, 16, 256, 1),
                                 compiled("fused_one_shot_2", false, 64, 1, 32, 8),
                                 compiled("move", false, 64, 1, 32, 8),
                                 compiled("team_move_2", false, 56, 1, 2 * 32, 4, 1),
                                 compiled("team_move_3", false, 56, 1, 3 * 32, 2, 1),
                                 compiled("team_move_8", false, 56, 1, 8 * 32, 1, 1),
                                 compiled("transfer", false, 48, 1, 256, 1),
                                 compiled("sum_nodes_bfloat16", true, nodes_16, 1, 32, 8),
                                 compiled("sum_nodes_float32", true, nodes_32, 1, 32, 8),
                                 compiled("sum_nodes_int8", true, nodes_8, 1, 32, 8),
                                 compiled("sum", true, 64, 1, 32, 8)};
  };
  return {{{"A100", 108, {65536 / 4, 64, 32, 164 << 10, 64}}, kernels(45, 48, 43, 56, 93, 76, 92)},
          {{"H100", 132, {65536 / 4, 64, 32, 228 << 10, 64}}, kernels(48, 56, 48, 56, 104, 80, 104)},
          {{"B200", 148, {65536 / 4, 64, 32, 228 << 10, 64}}, kernels(58, 58, 48, 56, 76, 64, 64)}};
}

// What lies on a multiprocessor: blocks of each launch.
using Load = std::vector<uint32_t>;

// The placements in which a block of launch `victim` does not fit.
std::vector<Load> loads_that_refuse(const Gpu& gpu, const std::vector<Resources>& blocks, size_t victim) {
  std::vector<Load> found;
  Load load(blocks.size(), 0);
  const std::function<void(size_t, Resources)> grow = [&](size_t launch, const Resources& used) {
    if (launch == blocks.size()) {
      if (!gpu.each.holds(used.plus(blocks[victim]))) found.push_back(load);
      return;
    }
    for (load[launch] = 0; gpu.each.holds(used.plus(blocks[launch], load[launch])); ++load[launch]) {
      grow(launch + 1, used.plus(blocks[launch], load[launch]));
    }
    load[launch] = 0;
  };
  grow(0, {});
  return found;
}

// Whether blocks of launches that have so many each can lie such that the last one of a launch finds no place: with
// loads of two kinds, which is all that a counterexample takes.
bool can_lie_badly(const Gpu& gpu, const std::vector<Resources>& blocks, const std::vector<uint32_t>& counts) {
  for (size_t victim = 0; victim < blocks.size(); ++victim) {
    std::vector<uint32_t> there = counts;
    --there[victim];
    const std::vector<Load> loads = loads_that_refuse(gpu, blocks, victim);
    for (size_t a = 0; a < loads.size(); ++a) {
      for (size_t b = a; b < loads.size(); ++b) {
        for (uint32_t of_a = 0; of_a <= gpu.multiprocessors; ++of_a) {
          bool enough = true;
          for (size_t launch = 0; enough && launch < blocks.size(); ++launch) {
            enough = loads[a][launch] * of_a + loads[b][launch] * (gpu.multiprocessors - of_a) <= there[launch];
          }
          if (enough) return true;
        }
      }
    }
  }
  return false;
}

// Groups whose launches can lie badly, of all with `launches` of the library's kernels.
std::string bad_ones(const Library& library, size_t launches,
                     const std::function<uint32_t(const Kernel&)>& blocks_of_a_launch) {
  std::string bad;
  std::vector<size_t> chosen;
  const std::function<void(size_t)> choose = [&](size_t from) {
    if (chosen.size() < launches) {
      for (size_t kernel = from; kernel < library.kernels.size(); ++kernel) {
        chosen.push_back(kernel);
        choose(kernel);
        chosen.pop_back();
      }
      return;
    }
    std::vector<Resources> blocks;
    std::vector<uint32_t> counts;
    std::string names;
    for (const size_t kernel : chosen) {
      blocks.push_back(library.kernels[kernel].of_a_block());
      counts.push_back(blocks_of_a_launch(library.kernels[kernel].kernel));
      names += (names.empty() ? "" : " + ") + library.kernels[kernel].name;
    }
    if (can_lie_badly(library.gpu, blocks, counts)) bad += names + "; ";
  };
  choose(0);
  return bad;
}

TEST(Places, HoldTheLaunchesOfTwoGroupsWhateverTheirKernelsAndWhereverTheyLie) {
  for (Library& library : libraries()) {
    const uint32_t places = library.share_out();
    const uint32_t share = places * library.gpu.multiprocessors / 2;
    EXPECT_EQ(bad_ones(library, 2, [&](const Kernel&) { return share; }), "") << library.gpu.name;
  }
}

// Three groups of every choice of kernels: that a multiprocessor with fewer blocks than it has places, whichever they
// are, has room for one more of any kernel. Then blocks can only be refused when all places of all are taken.
TEST(Places, LeaveRoomForOneMoreBlockOfAnyKernelUntilAllAreTaken) {
  for (Library& library : libraries()) {
    const uint32_t places = library.share_out();
    ASSERT_GE(places, 3u) << library.gpu.name;
    int mixes = 0;
    const std::function<void(size_t, uint32_t, Resources)> fill = [&](size_t from, uint32_t left,
                                                                      const Resources& used) {
      ++mixes;
      ASSERT_TRUE(library.gpu.each.holds(used)) << library.gpu.name;
      for (size_t kernel = from; left > 0 && kernel < library.kernels.size(); ++kernel) {
        fill(kernel, left - 1, used.plus(library.kernels[kernel].of_a_block()));
      }
    };
    fill(0, places, {});
    EXPECT_GT(mixes, 500);
  }
}

// Or blocks of a kernel that needs a smaller one would keep those of others out, whatever room there is. Of the slowed
// down kernels of adverse_test only two or three fit.
TEST(Places, AllKernelsNeedTheLargestDivisionOfAMultiprocessorsMemory) {
  constexpr uint32_t kStep = 32 << 10;  // from the largest division to the next one
  for (Library& library : libraries()) {
    for (uint32_t registers = 32; registers <= 120; registers += 8) {
      library.kernels.push_back(compiled("slow", true, registers, 1, 32, 8));
      library.kernels.push_back(compiled("slow_pair", true, registers, 1, 32, 10));
    }
    library.share_out();
    for (const Compiled& one : library.kernels) {
      const std::string name = library.gpu.name + (": " + one.name) + " with " + std::to_string(one.registers);
      EXPECT_EQ(held(library.gpu, one), std::min(one.fit(library.gpu), cuda::kPlaces)) << name;
      EXPECT_GT(held(library.gpu, one) * one.of_a_block().shared_bytes, library.gpu.each.shared_bytes - kStep) << name;
    }
  }
}

TEST(Places, AreNoMoreThanBlocksHaveSharedMemoryFor) {
  for (Library& library : libraries()) {
    library.kernels = {compiled("small", false, 32, 1, 32, 4)};
    EXPECT_GT(library.kernels[0].fit(library.gpu), cuda::kPlaces);
    EXPECT_EQ(library.share_out(), cuda::kPlaces);
    EXPECT_EQ(held(library.gpu, library.kernels[0]), cuda::kPlaces);
  }
}

// The control: if blocks did not fill their places, half of each kernel's own occupancy would have bad placements,
// which the test above would find.
TEST(Places, AreNotWhatEachKernelCouldHaveAlone) {
  for (Library& library : libraries()) {
    for (Compiled& one : library.kernels) {
      one.fills_place = false;
      one.kernel.blocks_per_multiprocessor = held(library.gpu, one);
    }
    for (const uint32_t launches : {2u, 3u}) {
      std::vector<Compiled> all = library.kernels;
      if (launches == 3) library.kernels = {all[0], all[4], all[7]};
      EXPECT_NE(bad_ones(library, launches,
                         [&](const Kernel& kernel) {
                           return kernel.blocks_per_multiprocessor * library.gpu.multiprocessors / launches;
                         }),
                "")
          << library.gpu.name;
      library.kernels = all;
    }
  }
}

TEST(Places, OfTheFastKernelsAreNotFewerForTheSlowOnes) {
  for (Library& library : libraries()) {
    const uint32_t places = library.share_out();
    for (const Compiled& one : library.kernels) {
      EXPECT_GE(one.kernel.blocks_per_multiprocessor, places) << library.gpu.name << ": " << one.name;
      if (one.name == "one_shot_2") {  // whose blocks are the largest
        EXPECT_EQ(one.kernel.blocks_per_multiprocessor, places) << library.gpu.name;
      }
      if (one.name == "sum") {
        EXPECT_EQ(one.kernel.max_tiles, cuda::kWorkerWarps) << library.gpu.name;
      }
      EXPECT_GE(one.kernel.max_threads(), 128u) << one.name << " has hardly a warp left";
    }
  }
}

Plan plan_of(Algorithm algorithm) { return {algorithm, protocol::PacketKind::kSentinel, 0, 1, 0}; }

// Of a launch of so many bytes.
LaunchShape shape(const Kernel& kernel, Plan plan, const protocol::Topology& topology, uint64_t bytes, uint32_t most) {
  Call call;
  call.data_type = NVRAR_INT8;
  call.count = bytes;
  give_shapes(&plan, call, topology, kernel, {most, most});
  return plan.last_shape;
}

// A rank whose buffer is at an odd address takes another kernel, and has as many blocks at most.
TEST(Grid, OfALargeCallHasAsManyBlocksWhateverTheAlignment) {
  constexpr uint64_t kLarge = 64 << 20;
  for (Library& library : libraries()) {
    const uint32_t places = library.share_out();
    const auto kernel = [&](const char* name) {
      return std::find_if(library.kernels.begin(), library.kernels.end(),
                          [&](const Compiled& one) { return one.name == name; })
          ->kernel;
    };
    for (const uint32_t groups : {1u, 2u, 3u, 8u, 64u}) {
      const uint32_t most = places * library.gpu.multiprocessors / groups;
      for (const auto& [algorithm, name, world] :
           {std::tuple(Algorithm::kTwoShot, "two_shot_8", 8u), std::tuple(Algorithm::kTwoShot, "two_shot_5", 5u),
            std::tuple(Algorithm::kOneShot, "one_shot_4", 4u), std::tuple(Algorithm::kOneShot, "one_shot_2", 2u)}) {
        const protocol::Topology topology{world, world};
        const Plan plan = plan_of(algorithm);
        EXPECT_EQ(shape(kernel(name), plan, topology, kLarge, most).blocks, most) << name;
        EXPECT_EQ(shape(kernel("sum"), plan, topology, kLarge, most).blocks, most) << name;
      }
    }
  }
}

TEST(Grid, OfASmallCallIsOneBlockATileAndOneWaveIsSaidToBeOne) {
  Kernel kernel = compiled("sum", true, 64, 1, 32, 8).kernel;
  const protocol::Topology topology{4, 4};
  const auto grid = [&](uint64_t bytes, uint32_t most) {
    return shape(kernel, plan_of(Algorithm::kOneShot), topology, bytes, most);
  };
  EXPECT_EQ(grid(0, 100).blocks, 1u);
  EXPECT_EQ(grid(512, 100).blocks, 1u);
  EXPECT_EQ(grid(513, 100).blocks, 2u);
  EXPECT_EQ(grid(64 * 512, 100).blocks, 64u);
  EXPECT_EQ(grid(64 * 512, 100).threads, 32u);
  EXPECT_TRUE(grid(64 * 512, 100).single);
  EXPECT_EQ(grid(65 * 512, 100).blocks, 33u);
  EXPECT_EQ(grid(65 * 512, 100).threads, 64u);
  EXPECT_EQ(grid(600 * 512, 100).threads, 8 * 32u);
  kernel.max_tiles = 6;
  EXPECT_EQ(grid(600 * 512, 1000).blocks, 100u);
  EXPECT_EQ(grid(600 * 512, 1000).threads, 6 * 32u);
  // What does not come at once gets the largest blocks.
  EXPECT_EQ(grid(33 * 512, 10).blocks, 6u);
  EXPECT_TRUE(grid(33 * 512, 10).single);
  EXPECT_EQ(grid(65 * 512, 10).blocks, 10u);
  EXPECT_FALSE(grid(65 * 512, 10).single);
  kernel.max_tiles = 11;
  EXPECT_EQ(grid(1000 * 512, 125).threads, 8 * 32u);
  EXPECT_EQ(grid(1000 * 512, 100).threads, 11 * 32u);
}

TEST(Grid, HasABlockMoreForTheHeadersWhereTheKernelAsksForIt) {
  const Kernel kernel = compiled("one_shot_2", false, 40, 1, 32, 10, 1).kernel;
  const protocol::Topology topology{2, 2};
  const auto grid = [&](uint64_t bytes, uint32_t most) {
    return shape(kernel, plan_of(Algorithm::kOneShot), topology, bytes, most);
  };
  EXPECT_EQ(grid(0, 100).blocks, 2u);
  EXPECT_EQ(grid(512, 100).blocks, 2u);
  EXPECT_EQ(grid(513, 100).blocks, 3u);
  EXPECT_EQ(grid(9 * 10 * 512, 10).blocks, 10u);
  EXPECT_TRUE(grid(9 * 10 * 512, 10).single);
  EXPECT_EQ(grid(9 * 10 * 512 + 1, 10).blocks, 10u);
  EXPECT_FALSE(grid(9 * 10 * 512 + 1, 10).single);
  EXPECT_EQ(grid(64 << 20, 2).blocks, 2u) << "the fewest that there are";
}

TEST(Shapes, OfTheLastLaunchAreItsOwn) {
  const protocol::Topology topology{4, 4};
  Call call;
  call.collective = NVRAR_ALL_REDUCE;
  call.data_type = NVRAR_FLOAT32;
  call.op = NVRAR_SUM;
  call.algorithm = NVRAR_ALGORITHM_TWO_SHOT;
  const protocol::RingLayout layout{protocol::kMinRingBytes, topology};
  call.count = 1 << 20;
  const uint64_t per_launch = make_plan(call, layout, {}, cuda::limits_of(90)).elements_per_launch;
  call.count = 2 * per_launch + 1;
  Plan plan = make_plan(call, layout, {}, cuda::limits_of(90));
  ASSERT_EQ(plan.launches, 3u);
  give_shapes(&plan, call, topology, {128, 2, 1, cuda::kTilesOfSmallTeamBlocks}, {1000, 1000});
  EXPECT_EQ(plan.shape.blocks, per_launch * 4 / (4 * 512) + 1) << "a block for each tile, and that of the headers";
  EXPECT_EQ(plan.shape.threads, 128u);
  EXPECT_EQ(plan.last_shape.blocks, 2u);
  give_shapes(&plan, call, topology, {128, 2, 1, cuda::kTilesOfSmallTeamBlocks}, {2, 2});
  EXPECT_FALSE(plan.shape.single) << "one block takes turns";
  EXPECT_EQ(plan.shape.tiles_per_block, 2u);
  EXPECT_TRUE(plan.last_shape.single);
}

// A block that repeats may wait for a tile that a rank with another kernel processes after tiles of blocks that have
// not started: with 3 ranks of which one was unaligned, every block that could run waited so.
TEST(Shapes, WhoseBlocksRepeatHaveNoMoreOfThemThanAreResident) {
  constexpr BlockLimits kMost{264, 1000};
  constexpr KernelShape kKernel{96, 2, 0, {64, 128, 256}};
  const LaunchShape large = shape_of(2000, kKernel, kMost, {});
  EXPECT_EQ(large.blocks, 1000u);
  EXPECT_TRUE(large.single);
  const LaunchShape larger = shape_of(2001, kKernel, kMost, {});
  EXPECT_EQ(larger.blocks, 264u);
  EXPECT_FALSE(larger.single);
  EXPECT_EQ(larger.tiles_per_block, 2u);
}

// However large the rule's numbers are, a launch has no more blocks than may be resident if they repeat.
TEST(Shapes, OfARuleAreLimitsWithinThoseOfTheGpu) {
  constexpr BlockLimits kMost{264, 1000};
  constexpr KernelShape kKernel{96, 4, 1, {64, 128, 256}};
  const auto shape = [&](uint64_t tiles, const TunedShape& tuned) { return shape_of(tiles, kKernel, kMost, tuned); };
  const LaunchShape few = shape(100, {.blocks = 8});
  EXPECT_EQ(few.blocks, 9u) << "8, and that of the headers";
  EXPECT_EQ(few.tiles_per_block, 4u) << "as many as fit, where there are more than a turn's";
  EXPECT_FALSE(few.single);
  EXPECT_EQ(shape(3, {.blocks = 8}).blocks, 4u) << "no block has nothing to do";
  const LaunchShape wide = shape(8, {.tiles = 4});
  EXPECT_EQ(wide.blocks, 3u);
  EXPECT_EQ(wide.threads, 4u * 96);
  EXPECT_TRUE(wide.single);
  EXPECT_EQ(shape(8, {.tiles = 32}).tiles_per_block, 4u) << "no more than the kernel can";
  EXPECT_EQ(shape(8, {.threads = 200}).tiles_per_block, 2u);
  EXPECT_EQ(shape(8, {.threads = 32}).tiles_per_block, 1u) << "a tile takes 96";
  const LaunchShape many = shape(100000, {.blocks = 1024, .tiles = 1});
  EXPECT_EQ(many.blocks, 264u);
  EXPECT_FALSE(many.single);
}

TEST(Architectures, HaveTheLimitsOfTheNewestThatIsNotNewer) {
  for (const uint32_t capability : {75u, 80u, 86u, 90u, 120u}) {
    EXPECT_EQ(&cuda::limits_of(capability), &cuda::kArchitectures[0].limits) << capability;
  }
}

using cuda::LaunchLog;

cuda::LoggedLaunch captured(uint64_t sequence) {
  cuda::LoggedLaunch launch;
  launch.call.sequence = sequence;
  return launch;
}

TEST(LaunchLog, ForgetsTheOldestCapturedLaunchesOfAProgramThatCapturesAgainAndAgain) {
  LaunchLog log;
  std::vector<uint32_t> tags;
  constexpr uint64_t kCaptured = 3 * LaunchLog::kCapturedKept + 5;
  for (uint64_t i = 0; i < kCaptured; ++i) tags.push_back(log.add(captured(i + 1)));
  const uint64_t first_kept = kCaptured - LaunchLog::kCapturedKept;
  for (uint64_t i = 0; i < kCaptured; ++i) {
    ASSERT_EQ(log.find(tags[i]).call.sequence, i < first_kept ? 0 : i + 1) << "launch " << i;
  }
  std::sort(tags.begin(), tags.end());
  EXPECT_EQ(std::adjacent_find(tags.begin(), tags.end()), tags.end()) << "two launches have one tag";
}

TEST(LaunchLog, KnowsCapturedLaunchesApartFromEagerOnes) {
  LaunchLog log;
  EXPECT_EQ(log.find(0).call.sequence, 0u);
  EXPECT_EQ(log.find(1u << 31).call.sequence, 0u);
  const uint32_t in_a_graph = log.add(captured(1));
  cuda::LoggedLaunch eager = captured(2);
  eager.records = 1;
  const uint32_t tag = log.add(eager);
  for (int i = 0; i < NVRAR_FLIGHT_RECORDS; ++i) {
    eager.call.sequence++;
    log.add(eager);
  }
  EXPECT_EQ(log.find(in_a_graph).call.sequence, 1u);
  EXPECT_EQ(log.find(tag).call.sequence, 0u);
  EXPECT_EQ(log.find(log.newest()).call.sequence, eager.call.sequence);
}

}  // namespace
}  // namespace nvrar::test
