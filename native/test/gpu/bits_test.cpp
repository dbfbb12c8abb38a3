// Every bit pattern through every algorithm, on a GPU: whatever a packet carries, it is data.
#include <gtest/gtest.h>

#include <cstring>

#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/transfers.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kPatterns = 65536;
constexpr uint64_t kLanes = 8;  // 16-bit elements of a packet
constexpr uint16_t kMinusZero = 0x8000;

class EveryBitPattern : public ::testing::TestWithParam<TestTopology> {
 protected:
  void SetUp() override {
    if (!on_gpu()) GTEST_SKIP() << "the backend is the CPU: NVRAR_TEST_BACKEND is not cuda";
  }
};

// Pattern i lies at place i + lane, so that in eight turns each has been in each lane of a packet.
uint64_t pattern_at(uint64_t place, uint64_t lane) { return (place + kPatterns - lane) % kPatterns; }

// One rank has the pattern, the others -0, which changes no number: the sum is the pattern, or the one NaN. Then every
// rank has another pattern, as sums that meet infinities, NaNs and subnormal numbers.
TEST_P(EveryBitPattern, OfSixteenBitFloatsIsSummedAsTheReferenceSaysIt) {
  const auto [world, ranks_per_node] = GetParam();
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  for (int32_t type : {NVRAR_FLOAT16, NVRAR_BFLOAT16}) {
    for (uint64_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t owner = lane % static_cast<uint64_t>(world);
      const bool alone = lane % 2 == 0;
      const Pool pool(type, NVRAR_SUM, world, kPatterns + 8 * kPartShift, ranks_per_node,
                      [&](uint64_t rank, uint64_t place) -> uint64_t {
                        const uint64_t pattern = pattern_at(place, lane);
                        if (alone) return rank == owner ? pattern : kMinusZero;
                        return (pattern * (2 * rank + 1) + 7919 * rank) % kPatterns;
                      });
      group.run([&, world = world, ranks_per_node = ranks_per_node](int rank, nvrar_comm* comm) {
        for (int32_t way : algorithms(world, ranks_per_node)) {
          // At whole packets the kernels sum in teams, else by the steps.
          for (uint64_t offset : {0, 1}) {
            const CollectiveCase c{NVRAR_ALL_REDUCE, {type, NVRAR_SUM}, way, kPatterns, 0, offset, 0, false};
            run_case(rank, world, comm, pool, c);
            if (HasFatalFailure()) return;
          }
        }
        for (int32_t collective : {NVRAR_REDUCE, NVRAR_REDUCE_SCATTER}) {
          CollectiveCase c{collective, {type, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kPatterns};
          c.root = static_cast<int>(owner);
          run_case(rank, world, comm, pool, c);
          if (HasFatalFailure()) return;
        }
      });
      if (HasFailure()) FAIL() << "lane " << lane;
    }
  }
}

// What an empty slot looks like, the epochs of the calls that carry it, and words like them, in every lane.
TEST_P(EveryBitPattern, OfWordsThatTheProtocolUsesIsMovedAsItIs) {
  const auto [world, ranks_per_node] = GetParam();
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  constexpr uint32_t kWords[] = {0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x80000000, 0, 1, 0xFFFF7FFF, 0x7FC00000};
  constexpr uint64_t kCount = 4099;
  constexpr uint64_t kWholePackets = 4096;
  const Pool pool(NVRAR_INT32, NVRAR_SUM, world, kCount + 8 * kPartShift, ranks_per_node,
                  [&](uint64_t rank, uint64_t place) -> uint64_t {
                    // Of five neighbours the fifth shifts the rest through the lanes.
                    if (place % 5 == 4) return place / 40;  // near the epochs
                    return kWords[(place + place / 5 + rank) % std::size(kWords)];
                  });
  group.run([&, world = world](int rank, nvrar_comm* comm) {
    for (int turn = 0; turn < 20; ++turn) {
      for (int32_t collective : {NVRAR_ALL_GATHER, NVRAR_BROADCAST, NVRAR_ALL_TO_ALL}) {
        CollectiveCase c{collective, {NVRAR_INT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kCount};
        c.root = turn % world;
        c.send_offset = static_cast<uint64_t>(turn) % 4;
        run_case(rank, world, comm, pool, c);
        if (HasFatalFailure()) return;
        // At whole packets the kernels move in teams, on some ranks or on all. Each window has other words in a lane.
        c.count = kWholePackets;
        c.first = static_cast<uint64_t>(turn) % 3;
        c.send_offset = turn % 2 == 0 || rank != c.root ? 0 : 1;
        run_case(rank, world, comm, pool, c);
        if (HasFatalFailure()) return;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Topologies, EveryBitPattern,
                         ::testing::Values(TestTopology{2, 0}, TestTopology{3, 0}, TestTopology{4, 0},
                                           TestTopology{8, 0}, TestTopology{4, 2}));

}  // namespace
}  // namespace nvrar::test
