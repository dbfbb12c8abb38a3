// Reduce, reduce-scatter, all-gather, all-to-all, broadcast and barrier with all ranks as threads of one process.
#include <gtest/gtest.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <iterator>

#include "call/call.h"
#include "support/abi.h"
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

// How a thread rounds and what it makes of denormals is its own: a library that is loaded with -ffast-math sets it, and
// so does fesetround. MXCSR: the masks of all exceptions, then what else is set.
constexpr uint32_t kMasked = 0x1F80;
constexpr uint32_t kUnderflowMask = 0x0800;
constexpr uint32_t kFlags = 0x003F;  // which exceptions there were: those may change
constexpr uint32_t kWords[] = {
    kMasked,
    kMasked | 0x8040,                      // results and inputs that are denormal become 0
    kMasked | 0x4000,                      // rounds up
    (kMasked & ~kUnderflowMask) | 0x2000,  // rounds down, and a sum that underflows is a SIGFPE
    kMasked | 0x6000 | kFlags,             // rounds to zero, and all flags are up
};

// Half of the elements are denormals and the smallest others, the other half are of few magnitudes, so that their sums
// round.
uint64_t delicate_bits(int32_t type, uint64_t rank, uint64_t place) {
  const uint64_t bits = mix(place * 8 + rank);
  const uint64_t turn = bits >> 60;
  const auto with_exponent = [&](uint64_t fraction_bits, uint64_t bias) {
    const uint64_t exponent = place % 2 == 0 ? turn % 2 : bias + turn % 8;
    const uint64_t sign_at = 8 * element_bytes(type) - 1;
    return (bits >> 59 & 1) << sign_at | exponent << fraction_bits | (bits & ((uint64_t{1} << fraction_bits) - 1));
  };
  switch (type) {
    case NVRAR_FLOAT16:
      return with_exponent(10, 15);
    case NVRAR_BFLOAT16:
      return with_exponent(7, 127);
    case NVRAR_FLOAT32:
      return with_exponent(23, 127);
    default:
      return with_exponent(52, 1023);
  }
}

TEST(Invariant10_OneOrderOfSums, AThreadsControlWordChangesNoBitAndIsLeftAsItWas) {
  if (on_gpu()) GTEST_SKIP() << "the control word is the CPU's";
  for (const auto& [world, ranks_per_node] : {TestTopology{5, 0}, {5, 2}, {1, 0}}) {
    ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
    for (const Reduction& reduction : reductions()) {
      if (reduction.data_type < NVRAR_FLOAT16) continue;
      const Pool pool(reduction.data_type, reduction.op, world, kPoolElements, ranks_per_node,
                      [&](uint64_t rank, uint64_t place) { return delicate_bits(reduction.data_type, rank, place); });
      group.run([&, world = world, ranks_per_node = ranks_per_node](int rank, nvrar_comm* comm) {
        const uint32_t word = kWords[static_cast<size_t>(rank) % std::size(kWords)];
        const auto expect_exact = [&](const CollectiveCase& c) {
          _mm_setcsr(word);
          run_case(rank, world, comm, pool, c);
          EXPECT_EQ(_mm_getcsr() & ~kFlags, word & ~kFlags) << describe_case(c);
        };
        for (const int32_t way : algorithms(world, ranks_per_node)) {
          expect_exact({NVRAR_ALL_REDUCE, reduction, way, 1027});
        }
        for (const int32_t collective : {NVRAR_REDUCE, NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER, NVRAR_BARRIER}) {
          expect_exact({collective, reduction, NVRAR_ALGORITHM_AUTO, collective == NVRAR_BARRIER ? 0u : 515u});
        }
        float values[] = {1, 0};
        const auto send = reinterpret_cast<uint64_t>(&values[0]);
        const auto recv = reinterpret_cast<uint64_t>(&values[1]);
        const nvrar_transfer transfers[] = {send_to((rank + 1) % world, send, 1, NVRAR_FLOAT32),
                                            recv_from((rank + world - 1) % world, recv, 1, NVRAR_FLOAT32)};
        EXPECT_EQ(nvrar_batch(comm, transfers, 2, 0), NVRAR_OK) << nvrar_last_error();
        EXPECT_EQ(_mm_getcsr(), word) << "a batch";
        _mm_setcsr(kMasked);
      });
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OneNode, Invariant15_AnyCountAndWorld, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, Invariant15_AnyCountAndWorld, ::testing::ValuesIn(kNodes));
INSTANTIATE_TEST_SUITE_P(OneNode, Invariant03_NobodyLeavesEarly, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, Invariant03_NobodyLeavesEarly, ::testing::ValuesIn(kNodes));

}  // namespace
}  // namespace nvrar::test
