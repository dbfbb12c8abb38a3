// Reduce, reduce-scatter, all-gather, all-to-all, broadcast and barrier with all ranks as threads of one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kCounts[] = {0,  1,  2,   3,   4,   5,   7,   8,   9,    31,   33,
                                64, 65, 127, 129, 255, 257, 511, 513, 1000, 2049, 4097};

bool sums(int32_t collective) { return collective == NVRAR_REDUCE || collective == NVRAR_REDUCE_SCATTER; }

class Invariant15_AnyCountAndWorld : public ::testing::TestWithParam<TestTopology> {
 protected:
  // A type and operator on a ring takes every fourth count, another fourth than the next one.
  void run_all(int32_t collective) {
    const auto [world, ranks_per_node] = GetParam();
    ThreadGroup roomy(world, {.ranks_per_node = ranks_per_node});
    ThreadGroup tight(world, {.ring_bytes = small_ring_bytes(ranks_per_node), .ranks_per_node = ranks_per_node});
    uint64_t number = 0;
    uint64_t cases = 0;
    for (const Reduction& reduction : reductions()) {
      if (!sums(collective) && reduction.op != NVRAR_SUM) continue;  // what is only moved has no operator
      const Pool pool = make_pool(reduction, world, ranks_per_node, static_cast<uint64_t>(collective));
      ++number;
      for (ThreadGroup* group : {&roomy, &tight}) {
        const uint64_t setting = number + (group == &tight ? 1 : 0);
        group->run([&, world = world](int rank, nvrar_comm* comm) {
          uint64_t turn = 0;
          for (uint64_t count : kCounts) {
            const uint64_t r = mix(++turn + 1000 * setting);
            if ((turn + setting) % 4 != 0 || !runs_case(turn / 4, setting)) continue;
            const int root = static_cast<int>((r >> 40) % static_cast<uint64_t>(world));
            const CollectiveCase c{collective,     reduction,      NVRAR_ALGORITHM_AUTO, count, r % 4000,
                                   (r >> 16) % 16, (r >> 24) % 16, (r >> 32) % 2 == 0,   root};
            run_case(rank, world, comm, pool, c);
            if (::testing::Test::HasFatalFailure()) return;
            if (rank == 0) ++cases;
          }
        });
        if (HasFailure()) return;
      }
    }
    RecordProperty("cases", static_cast<int>(cases));
  }
};

TEST_P(Invariant15_AnyCountAndWorld, ReduceGivesItsRootTheBitsOfAnAllReduce) { run_all(NVRAR_REDUCE); }
TEST_P(Invariant15_AnyCountAndWorld, ReduceScatterGivesEachRankItsPartOfAnAllReduce) { run_all(NVRAR_REDUCE_SCATTER); }
TEST_P(Invariant15_AnyCountAndWorld, AllGatherKeepsEveryBitInRankOrder) { run_all(NVRAR_ALL_GATHER); }
TEST_P(Invariant15_AnyCountAndWorld, AllToAllKeepsEveryBitInRankOrder) { run_all(NVRAR_ALL_TO_ALL); }
TEST_P(Invariant15_AnyCountAndWorld, BroadcastFromEveryRootKeepsEveryBit) { run_all(NVRAR_BROADCAST); }

// A rank that leaves a barrier before all have entered would read a counter that is too small.
class Invariant03_NobodyLeavesEarly : public ::testing::TestWithParam<TestTopology> {};

TEST_P(Invariant03_NobodyLeavesEarly, NobodyLeavesABarrierBeforeAllHaveEntered) {
  const auto [world, ranks_per_node] = GetParam();
  const uint64_t rounds = repetitions(1000);
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  std::atomic<uint64_t> entered{0};
  group.run([&, world = static_cast<uint64_t>(world)](int rank, nvrar_comm* comm) {
    for (uint64_t round = 1; round <= rounds; ++round) {
      if (mix(round * 8 + static_cast<uint64_t>(rank)) % 50 == 0) ::usleep(200);
      ++entered;
      ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
      ASSERT_GE(entered.load(), round * world);
      ASSERT_LE(entered.load(), (round + 1) * world);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(OneNode, Invariant15_AnyCountAndWorld, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, Invariant15_AnyCountAndWorld, ::testing::ValuesIn(kNodes));
INSTANTIATE_TEST_SUITE_P(OneNode, Invariant03_NobodyLeavesEarly, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, Invariant03_NobodyLeavesEarly, ::testing::ValuesIn(kNodes));

}  // namespace
}  // namespace nvrar::test
