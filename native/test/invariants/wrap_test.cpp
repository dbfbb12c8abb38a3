// Epochs from just before each number at which a narrower counter would begin anew. Only a test build can begin there.
#include <gtest/gtest.h>
#include <unistd.h>

#include "protocol/ring_layout.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/test_kernels.h"
#include "support/transfers.h"

namespace nvrar::test {
namespace {

using protocol::Moment;

int laggard = 0;

// The laggard's data comes long after its header, so that a packet which is not there yet is looked at.
void stall_data(uint32_t rank, Moment moment, uint64_t slot) {
  thread_local uint64_t last_slot = 0;
  if (moment != Moment::kSends || static_cast<int>(rank) != laggard) return;
  if (last_slot < protocol::RingLayout::kHeaderSlots && slot >= protocol::RingLayout::kHeaderSlots) ::usleep(1000);
  last_slot = slot;
}

class Invariant04_Epochs : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    protocol::test_build.first_epoch = GetParam();
    protocol::test_build.at_moment = stall_data;
  }
  void TearDown() override {
    protocol::test_build.first_epoch = 1;
    protocol::test_build.at_moment = nullptr;
    stall_kernels({});
  }
};

// The first large call, which touches slots that were never used, comes at each of the launches round the wrap.
TEST_P(Invariant04_Epochs, ALargeCallAndALaggardAreExactAtEveryLaunchRoundAWrap) {
  for (const TestTopology& topology : {TestTopology{3, 0}, {4, 2}}) {
    const std::vector<int32_t> ways = algorithms(topology.world, topology.ranks_per_node);
    const Pool sums(NVRAR_FLOAT32, NVRAR_SUM, topology.world, kPoolElements, 41, topology.ranks_per_node);
    const Pool bits(NVRAR_INT64, NVRAR_SUM, topology.world, kPoolElements, 43, topology.ranks_per_node);
    for (uint64_t before = 0; before < 6; ++before) {
      laggard = static_cast<int>(before) % topology.world;
      stall_kernels({1 * kMs, static_cast<uint32_t>(laggard), Moment::kSends, Part::kData, 0});
      ThreadGroup group(topology.world, {.ring_bytes = small_ring_bytes(topology.ranks_per_node),
                                         .ranks_per_node = topology.ranks_per_node});
      group.run([&](int rank, nvrar_comm* comm) {
        for (uint64_t i = 0; i < before; ++i) {
          ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
        }
        for (uint64_t i = 0; i < 3 && !HasFatalFailure(); ++i) {
          CollectiveCase c{NVRAR_ALL_GATHER, {NVRAR_INT64, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, 300, i * 50};
          run_case(rank, topology.world, comm, bits, c);
          for (int32_t way : ways) {
            if (HasFatalFailure()) return;
            c = {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, way, 700, i * 50};
            run_case(rank, topology.world, comm, sums, c);
            c.reduction = {NVRAR_INT64, NVRAR_SUM};
            run_case(rank, topology.world, comm, bits, c);
          }
        }
      });
      EXPECT_TRUE(!on_gpu() || kernels_stalled()) << "a laggard that is never late tests nothing";
    }
  }
}

TEST_P(Invariant04_Epochs, TransfersOfAPairAreExactRoundAWrapOfTheirNumbers) {
  ThreadGroup group(2, {.ring_bytes = kSmallRingBytes});
  group.run([](int rank, nvrar_comm* comm) {
    for (uint64_t round = 0; round < 10; ++round) {
      const RankBatch batch(rank, {{0, 1, NVRAR_INT32, 1000, round}, {1, 0, NVRAR_UINT8, 77, round}}, round);
      ASSERT_EQ(batch.run(comm), NVRAR_OK) << nvrar_last_error();
      ASSERT_EQ(batch.fault(), "");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Wraps, Invariant04_Epochs,
                         ::testing::Values((uint64_t{1} << 31) - 3, (uint64_t{1} << 32) - 3, (uint64_t{1} << 63) - 3,
                                           ~uint64_t{0} - 200));

}  // namespace
}  // namespace nvrar::test
