// Each rank in turn waits, dies or is stopped at each moment of a call: before its first packet of each hop, and before
// its first wait in each. Only a test build has such moments.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <tuple>

#include "protocol/ring_layout.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"
#include "support/test_kernels.h"

namespace nvrar::test {
namespace {

using protocol::Moment;
using protocol::RingLayout;

constexpr Part kParts[] = {Part::kHeader, Part::kData, Part::kResult, Part::kExchange};
constexpr const char* kPartNames[] = {"headers", "data", "results", "partial sums"};
constexpr Moment kMoments[] = {Moment::kSends, Moment::kWaits, Moment::kClears};
// The CPU's port has the first two.
bool has_moment(Moment moment) { return on_gpu() || moment != Moment::kClears; }

struct Target {
  RingLayout layout;
  uint32_t rank;
  Part part;
  Moment moment;
};
Target target;
std::atomic<int> hits{0};
std::atomic<bool> armed{false};

bool at_target(uint32_t rank, Moment moment, uint64_t slot) {
  return armed && rank == target.rank && moment == target.moment && part_of(target.layout, slot) == target.part &&
         armed.exchange(false);
}

void stall(uint32_t rank, Moment moment, uint64_t slot) {
  if (!at_target(rank, moment, slot)) return;
  ++hits;
  ::usleep(3000);
}

void die(uint32_t rank, Moment moment, uint64_t slot) {
  if (at_target(rank, moment, slot)) ::raise(SIGKILL);
}

// Marks on the board: a rank has stopped, and how many have made their calls.
constexpr int kStopped = 6;
constexpr int kEnded = 7;
Board* board_here = nullptr;

void stop(uint32_t rank, Moment moment, uint64_t slot) {
  if (!at_target(rank, moment, slot)) return;
  ++board_here->marks[kStopped];
  ::raise(SIGSTOP);
}

class Hook {
 public:
  explicit Hook(void (*at_moment)(uint32_t, Moment, uint64_t)) { protocol::test_build.at_moment = at_moment; }
  ~Hook() {
    protocol::test_build.at_moment = nullptr;
    armed = false;
    stall_kernels({});
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
};

struct Way {
  int32_t collective;
  int32_t algorithm;
};
constexpr Way kWays[] = {{NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_ONE_SHOT},     {NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_TWO_SHOT},
                         {NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_HIERARCHICAL}, {NVRAR_REDUCE, NVRAR_ALGORITHM_AUTO},
                         {NVRAR_REDUCE_SCATTER, NVRAR_ALGORITHM_AUTO},     {NVRAR_ALL_GATHER, NVRAR_ALGORITHM_AUTO},
                         {NVRAR_ALL_TO_ALL, NVRAR_ALGORITHM_AUTO},         {NVRAR_BROADCAST, NVRAR_ALGORITHM_AUTO}};

uint64_t ring_of(const TestTopology& topology) { return small_ring_bytes(topology.ranks_per_node); }

RingLayout layout_of(const TestTopology& topology) {
  const auto world = static_cast<uint32_t>(topology.world);
  const auto node = static_cast<uint32_t>(topology.ranks_per_node);
  return {ring_of(topology), {world, node == 0 ? world : node}};
}

// A call of several launches with the stall, then small ones that use the same slots again at once. On a GPU the small
// ones come first: in a call of several launches a rank that is overrun meets the next launch, and times out.
TEST(Invariant03_NobodyRunsAhead, AStallOfEachRankAtEachMomentOfACallChangesNothing) {
  const Hook hook(stall);
  for (const TestTopology& topology : {TestTopology{2, 0}, {3, 0}, {4, 2}, {5, 3}}) {
    if (on_gpu() && topology.world == 5) continue;
    const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, topology.world, kPoolElements, 31, topology.ranks_per_node);
    ThreadGroup group(topology.world, {.ring_bytes = ring_of(topology), .ranks_per_node = topology.ranks_per_node});
    uint64_t setting = 0;
    for (const auto& [collective, algorithm] : kWays) {
      if (algorithm == NVRAR_ALGORITHM_HIERARCHICAL && topology.ranks_per_node == 0) continue;
      for (Part part : kParts) {
        for (Moment moment : kMoments) {
          if (!has_moment(moment)) continue;
          for (int laggard = 0; laggard < topology.world; ++laggard) {
            if (!runs_case(++setting, 0)) continue;
            target = {layout_of(topology), static_cast<uint32_t>(laggard), part, moment};
            armed = true;
            stall_kernels({1 * kMs, target.rank, moment, part, 0});
            group.run([&, way = Way{collective, algorithm}](int rank, nvrar_comm* comm) {
              CollectiveCase c{way.collective, {NVRAR_FLOAT32, NVRAR_SUM}, way.algorithm, 2000, setting};
              c.root = static_cast<int>(setting) % topology.world;
              if (!on_gpu()) run_case(rank, topology.world, comm, pool, c);
              for (c.count = 40; c.count < 43 && !HasFailure(); ++c.count, ++c.first) {
                run_case(rank, topology.world, comm, pool, c);
              }
              c.count = 2000;
              if (on_gpu() && !HasFailure()) run_case(rank, topology.world, comm, pool, c);
            });
            if (kernels_stalled()) ++hits;
            ASSERT_FALSE(HasFailure()) << "rank " << laggard << " stalled at " << kPartNames[static_cast<int>(part)];
          }
        }
      }
    }
  }
  EXPECT_GT(hits, static_cast<int>(repetitions(200))) << "moments that never come test nothing";
}

void come_late_to_each_launch(uint32_t rank, Moment moment, uint64_t slot) {
  if (rank == 1 && moment == Moment::kSends && slot < RingLayout::kHeaderSlots) ::usleep(300'000);
}

TEST(Invariant14_WaitsEnd, TheLimitCountsAnewForEachLaunchOfACall) {
  const Hook hook(come_late_to_each_launch);
  stall_kernels({300 * kMs, 1, Moment::kSends, Part::kHeader, 0});
  constexpr uint64_t kCount = 5 * 1024;  // launches of 1,024 float32 at most
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 41);
  ThreadGroup group(2, {.ring_bytes = kSmallRingBytes, .timeout_ns = 1000 * kMs});
  group.run([&](int rank, nvrar_comm* comm) {
    run_case(rank, 2, comm, pool,
             {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_ONE_SHOT, kCount, 0, 0, 0, false});
  });
}

// Of groups of processes: what the ranks' calls end with, and what the test does meanwhile.
struct Fault {
  void (*at_moment)(uint32_t, Moment, uint64_t);
  uint64_t timeout_ns;
  nvrar_status ends_with;
  std::function<void(ProcessGroup&, int world)> meanwhile;
};

// Rank 1 meets the fault at each moment; whatever it has sent until then, no rank has a wrong result.
void meet_at_each_moment(const Fault& fault) {
  if (on_gpu()) GTEST_SKIP() << "a process on a GPU is not stopped at a moment of a kernel";
  struct Setting {
    TestTopology topology;
    Way way;
  };
  const Setting settings[] = {{{4, 2}, kWays[2]}, {{3, 0}, kWays[1]}, {{3, 0}, kWays[5]}};
  const Hook hook(fault.at_moment);
  uint64_t number = 0;
  for (const auto& [topology, way] : settings) {
    const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, topology.world, kPoolElements, 37, topology.ranks_per_node);
    for (Part part : kParts) {
      for (Moment moment : {Moment::kSends, Moment::kWaits}) {
        const bool summed = way.collective == NVRAR_ALL_REDUCE;
        if (part == Part::kResult && !summed) continue;
        if (part == Part::kExchange && way.algorithm != NVRAR_ALGORITHM_HIERARCHICAL) continue;
        if (!runs_case(++number, 0)) continue;
        target = {layout_of(topology), 1, part, moment};
        const GroupOptions options{
            .ring_bytes = ring_of(topology), .timeout_ns = fault.timeout_ns, .ranks_per_node = topology.ranks_per_node};
        ProcessGroup group(topology.world, options, [&](int rank, nvrar_comm* comm, Board* board) {
          board_here = board;
          CollectiveCase c{way.collective, {NVRAR_FLOAT32, NVRAR_SUM}, way.algorithm, 1500};
          for (; c.first < 5; ++c.first) run_case(rank, topology.world, comm, pool, c);
          armed = true;
          nvrar_status status = NVRAR_OK;
          for (; status == NVRAR_OK && c.first < 20; ++c.first) {
            status = try_case(rank, topology.world, comm, pool, c);
          }
          EXPECT_EQ(status, fault.ends_with) << nvrar_last_error();
          ++board->marks[kEnded];
        });
        fault.meanwhile(group, topology.world);
        ASSERT_FALSE(::testing::Test::HasFailure()) << "at " << kPartNames[static_cast<int>(part)];
      }
    }
  }
  ::testing::Test::RecordProperty("faults", static_cast<int>(number));
}

TEST(Invariant14_WaitsEnd, ADeathAtEachMomentOfACallEndsTheGroupWithoutAWrongResult) {
  meet_at_each_moment({die, 400 * kMs, NVRAR_TIMEOUT, [](ProcessGroup& group, int world) {
                         EXPECT_TRUE(group.join(20, 1));
                         EXPECT_EQ(group.board().marks[kEnded], world - 1) << "rank 1 lives";
                       }});
}

TEST(Invariant14_WaitsEnd, AStopBeyondTheLimitAtEachMomentOfACallEndsTheGroupWithoutAWrongResult) {
  meet_at_each_moment({stop, 400 * kMs, NVRAR_TIMEOUT, [](ProcessGroup& group, int world) {
                         EXPECT_TRUE(group.wait_marks({kStopped}, 1, 20));
                         EXPECT_TRUE(group.wait_marks({kEnded}, world - 1, 20));
                         group.send_signal(1, SIGCONT);
                         EXPECT_TRUE(group.join(20));
                       }});
}

TEST(Invariant14_WaitsEnd, AStopWithinTheLimitAtEachMomentOfACallChangesNothing) {
  meet_at_each_moment({stop, 20'000 * kMs, NVRAR_OK, [](ProcessGroup& group, int) {
                         EXPECT_TRUE(group.wait_marks({kStopped}, 1, 20));
                         ::usleep(50'000);
                         group.send_signal(1, SIGCONT);
                         EXPECT_TRUE(group.join(40));
                       }});
}

}  // namespace
}  // namespace nvrar::test
