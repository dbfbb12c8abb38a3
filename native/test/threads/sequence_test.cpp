// Long sequences of different calls on one group: ring reuse, laggards, packets of all kinds in turn.
#include <gtest/gtest.h>
#include <unistd.h>

#include <iterator>

#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kMaxCount = 2048;
constexpr int32_t kCollectives[] = {NVRAR_ALL_REDUCE,     NVRAR_ALL_REDUCE, NVRAR_ALL_REDUCE, NVRAR_REDUCE,
                                    NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER, NVRAR_ALL_TO_ALL, NVRAR_BROADCAST};

CollectiveCase random_case(uint64_t r, uint64_t world, const std::vector<int32_t>& ways) {
  CollectiveCase c;
  c.collective = kCollectives[r % std::size(kCollectives)];
  c.reduction = reductions()[(r >> 4) % reductions().size()];
  const uint64_t way = (r >> 12) % (ways.size() + 1);
  c.algorithm = way < ways.size() ? ways[way] : NVRAR_ALGORITHM_AUTO;
  // Mostly small: those calls follow each other fastest.
  c.count = 1 + ((r >> 16) % kMaxCount >> (r >> 28 & 7));
  c.first = (r >> 32) % (kWindowMax - kMaxCount);
  c.in_place = (r >> 48) % 2 == 0;
  c.root = static_cast<int>((r >> 52) % world);
  return c;
}

class Invariant02_Rings : public ::testing::TestWithParam<TestTopology> {};

TEST_P(Invariant02_Rings, ThousandsOfMixedCallsWithLaggardsStayExact) {
  const auto [world, ranks_per_node] = GetParam();
  const Pools pools(world, ranks_per_node, 11);
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  ThreadGroup group(world, {.ring_bytes = 2 * small_ring_bytes(ranks_per_node), .ranks_per_node = ranks_per_node});
  const uint64_t calls = repetitions(4000);
  group.run([&, world = world](int rank, nvrar_comm* comm) {
    for (uint64_t i = 0; i < calls; ++i) {
      // Each rank is the laggard in turn.
      if (i % 64 == 0 && i / 64 % static_cast<uint64_t>(world) == static_cast<uint64_t>(rank)) ::usleep(300);
      const CollectiveCase c = random_case(mix(i), static_cast<uint64_t>(world), ways);
      if (i % 16 == 0) {
        ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
      }
      run_case(rank, world, comm, pools.of(c.reduction), c);
      if (::testing::Test::HasFatalFailure()) FAIL() << "call " << i << " on rank " << rank;
    }
  });
}

// One rank is always late, the others are always a call ahead of it: the reuse of a ring happens as early as it can.
TEST_P(Invariant02_Rings, ThousandsOfEpochsOnTheSameSlotsStayExact) {
  const auto [world, ranks_per_node] = GetParam();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kPoolElements, 13, ranks_per_node);
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  const uint64_t calls = repetitions(20000 / ways.size());
  for (int32_t way : ways) {
    group.run([&, world = world](int rank, nvrar_comm* comm) {
      for (uint64_t i = 0; i < calls; ++i) {
        if (i % 256 == 0 && rank == world - 1) ::usleep(300);
        CollectiveCase c{NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, way, 32, i * 7 % (kWindowMax - 32)};
        run_case(rank, world, comm, pool, c);
        if (::testing::Test::HasFatalFailure()) FAIL() << "call " << i << " on rank " << rank;
      }
    });
  }
}

class Invariant03_NobodyRunsAhead : public ::testing::TestWithParam<TestTopology> {};

// Ranks that only send have nothing of their own to wait for: only the headers keep them from overwriting what a late
// root has not read.
TEST_P(Invariant03_NobodyRunsAhead, SendersOfAReduceDoNotOvertakeALateRoot) {
  const auto [world, ranks_per_node] = GetParam();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kPoolElements, 17, ranks_per_node);
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  const uint64_t calls = repetitions(2000);
  group.run([&, world = world](int rank, nvrar_comm* comm) {
    for (uint64_t i = 0; i < calls; ++i) {
      if (i % 64 == 0 && rank == 0) ::usleep(on_gpu() ? 2000 : 300);  // several calls of the others
      const CollectiveCase c{NVRAR_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, 100, i * 7 % 4000};
      run_case(rank, world, comm, pool, c);
      if (::testing::Test::HasFatalFailure()) FAIL() << "call " << i << " on rank " << rank;
    }
  });
}

// Results reach a rank that has not read all contributions to its own slice yet: they need places of their own.
TEST_P(Invariant02_Rings, ResultsOfTwoShotDoNotMeetContributions) {
  const auto [world, ranks_per_node] = GetParam();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kPoolElements, 19, ranks_per_node);
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  const uint64_t calls = repetitions(1000);
  group.run([&, world = world](int rank, nvrar_comm* comm) {
    for (uint64_t i = 0; i < calls; ++i) {
      const int32_t way = ways[1 + i % (ways.size() - 1)];
      const CollectiveCase c{NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, way, 2000, i * 7 % 4000};
      run_case(rank, world, comm, pool, c);
      if (::testing::Test::HasFatalFailure()) FAIL() << "call " << i << " on rank " << rank;
    }
  });
}

constexpr TestTopology kSome[] = {{2, 0}, {3, 0}, {4, 0}, {5, 0}, {8, 0}, {4, 2}, {5, 3}, {8, 2}};
INSTANTIATE_TEST_SUITE_P(Topologies, Invariant02_Rings, ::testing::ValuesIn(kSome));
INSTANTIATE_TEST_SUITE_P(Topologies, Invariant03_NobodyRunsAhead, ::testing::ValuesIn(kSome));

}  // namespace
}  // namespace nvrar::test
