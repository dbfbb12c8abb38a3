// All-reduce by every algorithm with all ranks as threads of one process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <vector>

#include "call/call.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kCounts[] = {0,   1,    2,    3,    4,    5,    7,    8,    9,    15,   16,  17,  31,
                                32,  33,   63,   64,   65,   127,  128,  129,  255,  256,  257, 511, 512,
                                513, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097};

class Invariant10_OneOrderOfSums : public ::testing::TestWithParam<TestTopology> {};

// Every type, operator and algorithm at counts around each threshold; the small ring cuts most of them into several
// launches. All algorithms are held to one reference: they agree bit for bit. They take the counts in turn, another
// turn for every type, operator and ring.
TEST_P(Invariant10_OneOrderOfSums, EveryAlgorithmGivesTheOrderedReferenceBitForBit) {
  const auto [world, ranks_per_node] = GetParam();
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  ThreadGroup roomy(world, {.ranks_per_node = ranks_per_node});
  ThreadGroup tight(world, {.ring_bytes = small_ring_bytes(ranks_per_node), .ranks_per_node = ranks_per_node});
  uint64_t number = 0;
  uint64_t cases = 0;
  for (const Reduction& reduction : reductions()) {
    const Pool pool = make_pool(reduction, world, ranks_per_node, 1);
    ++number;
    for (ThreadGroup* group : {&roomy, &tight}) {
      const uint64_t setting = number + (group == &tight ? 1 : 0);
      group->run([&](int rank, nvrar_comm* comm) {
        uint64_t turn = 0;
        for (uint64_t count : kCounts) {
          const uint64_t r = mix(++turn + 1000 * setting);
          if (!runs_case(turn, setting)) continue;
          const CollectiveCase c{NVRAR_ALL_REDUCE,
                                 reduction,
                                 ways[(turn / kFewerCases + setting) % ways.size()],
                                 count,
                                 r % 4000,
                                 (r >> 16) % 16,
                                 (r >> 24) % 16,
                                 (r >> 32) % 2 == 0};
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

INSTANTIATE_TEST_SUITE_P(OneNode, Invariant10_OneOrderOfSums, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, Invariant10_OneOrderOfSums, ::testing::ValuesIn(kNodes));

// Of as many chunks as are stored one after the other, up to the largest launch of four threads and beyond it.
TEST(LargeLaunches, OverLinksOfFourThreadsAreExact) {
  if (!on_gpu()) GTEST_SKIP() << "links of groups on the CPU have no threads of their own";
  constexpr uint64_t kMost = 3'000'000;
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kMost, 91, 1);
  ThreadGroup group(2, {.ranks_per_node = 1, .linked = true, .link_threads = 4});
  group.run([&](int rank, nvrar_comm* comm) {
    for (const uint64_t count :
         {uint64_t{524'287}, uint64_t{524'289}, uint64_t{2'097'152}, uint64_t{2'097'153}, kMost}) {
      for (const bool in_place : {false, true}) {
        run_case(rank, 2, comm, pool, {.reduction = {NVRAR_FLOAT32, NVRAR_SUM}, .count = count, .in_place = in_place});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

// Each count up to 4096, each at one pair of distances from a vector boundary.
TEST(Invariant15_AnyCountAndAlignment, EveryCountIsExact) {
  for (int world : {2, 3, 8}) {
    ThreadGroup group(world, {.ring_bytes = 65536});
    for (int32_t type : {NVRAR_FLOAT32, NVRAR_BFLOAT16}) {
      const Pool pool(type, NVRAR_SUM, world, kPoolElements, 7);
      const uint64_t step = 4096 / repetitions(4096);
      group.run([&](int rank, nvrar_comm* comm) {
        for (uint64_t count = 1; count <= 4096; count += step) {
          const int32_t way = count / step % 2 == 0 ? NVRAR_ALGORITHM_ONE_SHOT : NVRAR_ALGORITHM_TWO_SHOT;
          const CollectiveCase c{NVRAR_ALL_REDUCE, {type, NVRAR_SUM}, way,           count, count * 31 % 4000,
                                 count % 16,       count / 16 % 16,   count % 3 == 0};
          run_case(rank, world, comm, pool, c);
          if (::testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

// Counts around the sizes of vectors, runs of vectors and packet kinds, each at every pair of distances of send and
// recv from a vector boundary, apart and in place.
TEST(Invariant15_AnyCountAndAlignment, EveryPairOfOffsetsIsExact) {
  constexpr uint64_t kVectorBytes = 16;
  constexpr uint64_t kSomeCounts[] = {1, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 255, 257, 1000};
  for (int world : {2, 3, 8}) {
    ThreadGroup group(world, {.ring_bytes = kSmallRingBytes});
    for (int32_t type : {NVRAR_FLOAT32, NVRAR_BFLOAT16}) {
      const Pool pool(type, NVRAR_SUM, world, kPoolElements, 23);
      const uint64_t offsets = kVectorBytes / element_bytes(type);
      group.run([&](int rank, nvrar_comm* comm) {
        for (uint64_t number = 0; number < std::size(kSomeCounts) * offsets * offsets; ++number) {
          const uint64_t count = kSomeCounts[number / (offsets * offsets)];
          const uint64_t send = number / offsets % offsets;
          const uint64_t recv = number % offsets;
          if (!runs_case(send + recv, count)) continue;
          const int32_t way = (send + recv + count) % 3 == 0 ? NVRAR_ALGORITHM_TWO_SHOT : NVRAR_ALGORITHM_ONE_SHOT;
          CollectiveCase c{NVRAR_ALL_REDUCE, {type, NVRAR_SUM}, way, count, number * 31 % 4000, send, recv, false};
          run_case(rank, world, comm, pool, c);
          if (::testing::Test::HasFatalFailure()) return;
          if (send != recv) continue;
          c.in_place = true;
          run_case(rank, world, comm, pool, c);
          if (::testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

// Counts and offsets that 32 bits do not hold. 4 GiB and some seconds, so it is run where that is asked for.
TEST(Invariant15_AnyCountAndAlignment, MoreElementsThanAnIntHoldsAreExact) {
  const char* const wanted = std::getenv("NVRAR_TEST_LARGE");
  if (wanted == nullptr || wanted[0] != '1') GTEST_SKIP() << "it takes 4 GiB of memory: NVRAR_TEST_LARGE is not 1";
  if (on_gpu()) GTEST_SKIP() << "the rooms for copies on a GPU are smaller";
  constexpr uint64_t kCount = (uint64_t{1} << 31) + 4099;
  constexpr uint64_t kPeriod = 251;  // a prime: no two parts of a ring, a slice or a launch are alike
  const auto value = [](int rank, uint64_t place) {
    return static_cast<uint8_t>((place % kPeriod) * static_cast<uint64_t>(3 + rank) + (place >> 20));
  };
  ThreadGroup group(2);
  group.run([&](int rank, nvrar_comm* comm) {
    for (const int32_t way : {NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT}) {
      std::vector<uint8_t> data(kCount);
      for (uint64_t i = 0; i < kCount; ++i) data[i] = value(rank, i);
      const auto address = reinterpret_cast<uint64_t>(data.data());
      ASSERT_EQ(nvrar_all_reduce(comm, address, address, kCount, NVRAR_INT8, NVRAR_SUM, way, 0), NVRAR_OK)
          << nvrar_last_error();
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < kCount; ++i) {
        wrong += data[i] != static_cast<uint8_t>(value(0, i) + value(1, i)) ? 1u : 0u;
      }
      ASSERT_EQ(wrong, 0u) << "rank " << rank << " of " << kCount << " elements";
      count_checked_call();
    }
  });
}

}  // namespace
}  // namespace nvrar::test
