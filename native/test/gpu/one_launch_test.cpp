// All ranks of a call in one launch on one GPU: what compute-sanitizer can run, under which kernels never overlap. Few
// calls, for it makes each a hundred times slower; every kernel, packet kind and way through memory is among them.
//
//   NVRAR_TEST_BACKEND=cuda compute-sanitizer --tool memcheck adverse_test --gtest_filter='*OneLaunch*'
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <tuple>

#include "support/collective_case.h"
#include "support/fused_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/test_kernels.h"
#include "support/transfers.h"

namespace nvrar::test {
namespace {

// Of one packet and less, of several, of whole packets, of several launches of the small ring.
constexpr uint64_t kCounts[] = {1, 7, 33, 64, 257, 1000, 2048, 3001};
constexpr int32_t kMoves[] = {NVRAR_ALL_GATHER, NVRAR_ALL_TO_ALL, NVRAR_BROADCAST};
constexpr int32_t kSums[] = {NVRAR_REDUCE, NVRAR_REDUCE_SCATTER};
constexpr uint64_t kLargeElements = 70'000;
constexpr uint64_t kFusedRingBytes = 256 << 10;  // a row of 8192 floats of 8 ranks

class AllRanksInOneLaunch : public ::testing::TestWithParam<TestTopology> {
 protected:
  // Keeps the kernels loaded, which takes a sanitizer longer than the tests do.
  static void SetUpTestSuite() {
    if (on_gpu()) kept = std::make_unique<ThreadGroup>(1);
  }
  static void TearDownTestSuite() { kept = nullptr; }
  static inline std::unique_ptr<ThreadGroup> kept;

  void SetUp() override {
    if (!on_gpu()) GTEST_SKIP() << "the backend is the CPU: NVRAR_TEST_BACKEND is not cuda";
    if (gpu_of(1) != 0) GTEST_SKIP() << "the ranks are on several GPUs: NVRAR_TEST_GPUS is set";
  }
};

TEST_P(AllRanksInOneLaunch, CollectivesAreExact) {
  const auto [world, ranks_per_node] = GetParam();
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  ThreadGroup group(world, {.ring_bytes = small_ring_bytes(ranks_per_node), .ranks_per_node = ranks_per_node});
  const OneLaunch one_launch;
  const uint64_t before = OneLaunch::launches();
  uint64_t number = 0;
  for (int32_t type : kTypes) {
    const Pool pool(type, NVRAR_SUM, world, kPoolElements, static_cast<uint64_t>(type), ranks_per_node);
    group.run([&, world = world, first = number](int rank, nvrar_comm* comm) {
      uint64_t turn = first;
      const auto run = [&](int32_t collective, int32_t algorithm, bool aligned) {
        const uint64_t r = mix(++turn);
        CollectiveCase c{collective, {type, NVRAR_SUM}, algorithm, kCounts[turn % std::size(kCounts)], r % 4000};
        if (aligned) {
          c.count = c.count / 16 * 16 + 16;
        } else {
          c.send_offset = (r >> 16) % 16;
          c.recv_offset = (r >> 24) % 16;
        }
        c.in_place = (r >> 32) % 2 == 0;
        c.root = static_cast<int>((r >> 40) % static_cast<uint64_t>(world));
        if (!HasFatalFailure()) run_case(rank, world, comm, pool, c);
      };
      for (int32_t way : ways) {
        for (const bool aligned : {true, false}) run(NVRAR_ALL_REDUCE, way, aligned);
      }
      for (int32_t collective : kSums) {
        for (const bool aligned : {true, false}) run(collective, NVRAR_ALGORITHM_AUTO, aligned);
      }
      for (int32_t collective : kMoves) {
        for (const bool aligned : {true, false}) run(collective, NVRAR_ALGORITHM_AUTO, aligned);
      }
      if (HasFatalFailure()) return;
      ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
    });
    if (HasFailure()) return;
    number += 100;
  }
  EXPECT_GE(OneLaunch::launches() - before, std::size(kTypes) * 10) << "the launches did not meet";
}

// More tiles than blocks, in kernels that sum in teams and in those that run the steps.
TEST_P(AllRanksInOneLaunch, LargeAllReducesAreExact) {
  const auto [world, ranks_per_node] = GetParam();
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  const OneLaunch one_launch;
  for (int32_t type : {NVRAR_FLOAT32, NVRAR_BFLOAT16}) {
    const Pool pool(type, NVRAR_SUM, world, kLargeElements, 3, ranks_per_node);
    group.run([&, world = world, ranks_per_node = ranks_per_node](int rank, nvrar_comm* comm) {
      for (int32_t way : algorithms(world, ranks_per_node)) {
        for (const bool aligned : {true, false}) {
          const CollectiveCase c{NVRAR_ALL_REDUCE,
                                 {type, NVRAR_SUM},
                                 way,
                                 kLargeElements - (aligned ? kLargeElements % 16 : 1),
                                 0,
                                 aligned ? uint64_t{0} : 1,
                                 0,
                                 false};
          run_case(rank, world, comm, pool, c);
          if (HasFatalFailure()) return;
        }
      }
    });
    if (HasFailure()) return;
  }
}

// The same, in blocks of more warps than a small call takes.
TEST_P(AllRanksInOneLaunch, LargeMovesAreExact) {
  const auto [world, ranks_per_node] = GetParam();
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  const OneLaunch one_launch;
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kLargeElements + 64, 7, ranks_per_node);
  group.run([&, world = world](int rank, nvrar_comm* comm) {
    for (int32_t collective : kMoves) {
      for (const uint64_t offset : {0, 1}) {
        const CollectiveCase c{
            collective, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kLargeElements - offset, 0, offset, 0, false};
        run_case(rank, world, comm, pool, c);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(AllRanksInOneLaunch, FusedAllReducesAreExact) {
  const auto [world, ranks_per_node] = GetParam();
  if (ranks_per_node != 0) GTEST_SKIP() << "fused calls on GPUs are for groups in one node";
  ThreadGroup group(world, {.ring_bytes = kFusedRingBytes});
  const OneLaunch one_launch;
  uint64_t turn = 0;
  for (int32_t type : kFusedTypes) {
    for (const uint32_t hidden : {24u, 1000u, 8192u}) {
      const FusedData data(type, world, 0, 3 * hidden, hidden);
      for (int32_t form : kForms) {
        FusedCase c{.form = form, .data_type = type, .rows = 3, .hidden = hidden, .eps = 1e-5f};
        const FusedResult expected = fused_reference(c, data);
        const auto targets = places(form);
        std::tie(c.output, c.residual_out) = targets[++turn % targets.size()];
        for (int32_t way : algorithms(world, 0)) {
          c.algorithm = way;
          group.run([&](int rank, nvrar_comm* comm) { run_case(rank, comm, c, data, expected); });
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(AllRanksInOneLaunch, TransfersAreExact) {
  const int world = GetParam().world;
  ThreadGroup group(world, {.ring_bytes = kSmallRingBytes * 4, .ranks_per_node = GetParam().ranks_per_node});
  const OneLaunch one_launch;
  group.run([&](int rank, nvrar_comm* comm) {
    uint64_t number = 0;
    for (int32_t type : {NVRAR_UINT8, NVRAR_FLOAT16, NVRAR_INT64}) {
      for (uint64_t count : {1, 5, 64, 3001}) {  // the last one is many rings
        std::vector<Message> messages;
        for (int source = 0; source < world; ++source) {
          for (int hop : {1, world - 1}) {
            messages.push_back(
                {source, (source + hop) % world, type, count, ++number * 10 + static_cast<uint64_t>(source)});
          }
        }
        const RankBatch batch(rank, messages, number);
        ASSERT_EQ(batch.run(comm), NVRAR_OK) << nvrar_last_error();
        ASSERT_EQ(batch.fault(), "") << "rank " << rank;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Topologies, AllRanksInOneLaunch,
                         ::testing::Values(TestTopology{2, 0}, TestTopology{3, 0}, TestTopology{4, 0},
                                           TestTopology{5, 0}, TestTopology{6, 0}, TestTopology{7, 0},
                                           TestTopology{8, 0}, TestTopology{4, 2}, TestTopology{5, 3},
                                           TestTopology{8, 4}));

}  // namespace
}  // namespace nvrar::test
