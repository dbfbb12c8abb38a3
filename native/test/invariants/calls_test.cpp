// Invariants of whole calls, with ranks as threads: one order of calls, differing calls, ends of waits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "call/call.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/pool.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint8_t kUntouched = 0x5B;
constexpr uint64_t kCount = 100;
constexpr int kWorld = 3;
constexpr double kMeetSeconds = 20;

// A rank's memory for any collective: large enough for a part of each rank.
struct Memory {
  explicit Memory(uint64_t count) : in(count * kWorld, 1.0f), out(count * kWorld * sizeof(float), kUntouched) {}
  bool untouched() const {
    return std::all_of(out.begin(), out.end(), [](uint8_t byte) { return byte == kUntouched; });
  }
  nvrar_status call(int rank, nvrar_comm* comm, const Call& c) {
    Image send(rank, 0, {reinterpret_cast<uint8_t*>(in.data()), in.size() * sizeof(float)});
    Image recv(rank, kImageRoomBytes / 2, out);
    const nvrar_status status = settled(rank, comm, enqueue(comm, send.address(), recv.address(), c, stream_of(rank)));
    recv.fetch();
    return status;
  }
  static nvrar_status enqueue(nvrar_comm* comm, uint64_t send, uint64_t recv, const Call& c, uint64_t stream) {
    switch (c.collective) {
      case NVRAR_ALL_REDUCE:
        return nvrar_all_reduce(comm, send, recv, c.count, c.data_type, c.op, c.algorithm, stream);
      case NVRAR_REDUCE:
        return nvrar_reduce(comm, send, recv, c.count, c.data_type, c.op, c.root, stream);
      case NVRAR_REDUCE_SCATTER:
        return nvrar_reduce_scatter(comm, send, recv, c.count, c.data_type, c.op, stream);
      case NVRAR_ALL_GATHER:
        return nvrar_all_gather(comm, send, recv, c.count, c.data_type, stream);
      case NVRAR_ALL_TO_ALL:
        return nvrar_all_to_all(comm, send, recv, c.count, c.data_type, stream);
      case NVRAR_BROADCAST:
        return nvrar_broadcast(comm, send, recv, c.count, c.data_type, c.root, stream);
      default:
        return nvrar_barrier(comm, stream);
    }
  }
  std::vector<float> in;
  std::vector<uint8_t> out;
};

constexpr int32_t kCollectives[] = {NVRAR_ALL_REDUCE, NVRAR_ALL_GATHER,     NVRAR_BROADCAST, NVRAR_BARRIER,
                                    NVRAR_REDUCE,     NVRAR_REDUCE_SCATTER, NVRAR_ALL_TO_ALL};

Call call_of(int32_t collective) { return {collective, 0, 0, kCount, NVRAR_FLOAT32, NVRAR_SUM, 0}; }

std::string text_of(const Call& c) {
  nvrar_call record{};
  record.collective = c.collective;
  record.data_type = c.data_type;
  record.op = c.op;
  record.count = c.count;
  record.root = c.root;
  return describe(record);
}

// A rank that leaves early has seen fewer entries than there are ranks.
void nobody_leaves_early(int32_t collective) {
  ThreadGroup group(kWorld, {.timeout_ns = 5'000 * kMs});
  std::atomic<int> entered{0};
  group.run([&](int rank, nvrar_comm* comm) {
    Memory memory(kCount);
    for (int round = 1; round <= static_cast<int>(repetitions(30)); ++round) {
      Call c = call_of(collective);
      c.count = 1;  // fewer than ranks, too
      c.root = round % kWorld;
      if (rank == round / 3 % kWorld) ::usleep(1000);
      ++entered;
      ASSERT_EQ(memory.call(rank, comm, c), NVRAR_OK) << nvrar_last_error();
      ASSERT_GE(entered, round * kWorld) << "rank " << rank << " left " << text_of(c) << " before all had entered";
      count_checked_call();
    }
  });
}

TEST(Invariant03_NobodyRunsAhead, ABroadcastRootWaitsForEveryRankToEnter) { nobody_leaves_early(NVRAR_BROADCAST); }
TEST(Invariant03_NobodyRunsAhead, ARankThatOnlyGivesToAReduceWaitsForEveryRankToEnter) {
  nobody_leaves_early(NVRAR_REDUCE);
}
TEST(Invariant03_NobodyRunsAhead, AnAllReduceOfFewerElementsThanRanksWaitsForEveryRankToEnter) {
  nobody_leaves_early(NVRAR_ALL_REDUCE);
}

TEST(Invariant05_OneOrderOfCalls, ASecondThreadIsRefusedAndTheRunningCallGoesOn) {
  if (on_gpu()) GTEST_SKIP() << "a call on a GPU returns when it is enqueued";
  ThreadGroup group(2, {.timeout_ns = 2'000 * kMs, .ranks_per_node = linked_nodes() ? 1 : 0});
  Memory first(kCount);
  std::thread running(
      [&] { EXPECT_EQ(first.call(0, group.comm(0), call_of(NVRAR_ALL_REDUCE)), NVRAR_OK) << nvrar_last_error(); });
  ::usleep(100'000);
  Memory second(kCount);
  for (int32_t collective : kCollectives) {
    EXPECT_EQ(second.call(0, group.comm(0), call_of(collective)), NVRAR_INVALID_USAGE)
        << "a second thread entered " << text_of(call_of(collective));
    EXPECT_TRUE(contains(nvrar_last_error(), "another call of this communicator is running"));
    if (HasFailure()) break;
  }
  EXPECT_TRUE(second.untouched());
  EXPECT_EQ(nvrar_async_error(group.comm(0)), NVRAR_OK);
  EXPECT_EQ(second.call(1, group.comm(1), call_of(NVRAR_ALL_REDUCE)), NVRAR_OK) << nvrar_last_error();
  running.join();
  EXPECT_EQ(first.out, second.out);
}

TEST(Invariant05_OneOrderOfCalls, ThreadsThatComeInEachOthersWayLoseNoCallAndSpoilNone) {
  if (on_gpu()) GTEST_SKIP() << "a call on a GPU returns when it is enqueued";
  ThreadGroup group(2, {.ranks_per_node = linked_nodes() ? 1 : 0});
  const uint64_t calls = repetitions(2000);
  std::atomic<uint64_t> refused{0};
  const auto threads_in_each_rank = [&](int rank, nvrar_comm* comm) {
    std::atomic<uint64_t> tickets{0};
    const auto one_thread = [&] {
      Memory memory(kCount);
      const float two = 2.0f;
      while (tickets++ < calls) {
        nvrar_status status = NVRAR_INVALID_USAGE;
        while ((status = memory.call(rank, comm, call_of(NVRAR_ALL_REDUCE))) == NVRAR_INVALID_USAGE) {
          ++refused;
          ::sched_yield();
        }
        ASSERT_EQ(status, NVRAR_OK) << nvrar_last_error();
        ASSERT_EQ(difference(memory.out.data(), reinterpret_cast<const uint8_t*>(&two), sizeof two), "");
        count_checked_call();
      }
    };
    std::thread other(one_thread);
    one_thread();
    other.join();
  };
  // Threads that share a core may take turns without ever meeting.
  const double end = seconds_now() + kMeetSeconds;
  do {
    group.run(threads_in_each_rank);
  } while (refused == 0 && !HasFailure() && seconds_now() < end);
  EXPECT_GT(refused, 0u) << "threads that never met test nothing";
}

// Rank 1 makes the odd call; all ranks must see it, and none may have a result.
void expect_caught(const Call& usual, const Call& odd) {
  if (::testing::Test::HasFailure()) return;  // the first one says it
  ThreadGroup group(kWorld, {.ring_bytes = kSmallRingBytes, .timeout_ns = 5'000 * kMs});
  group.run([&](int rank, nvrar_comm* comm) {
    Memory memory(std::max(usual.count, odd.count));
    const nvrar_status status = memory.call(rank, comm, rank == 1 ? odd : usual);
    EXPECT_EQ(status, NVRAR_MISMATCH) << "rank " << rank << " was not told that " << text_of(usual) << " met "
                                      << text_of(odd);
    EXPECT_TRUE(on_gpu() || memory.untouched())
        << "rank " << rank << " has a result where " << text_of(usual) << " met " << text_of(odd);
    const std::string begin = std::string("the calls of the ranks differ: ") + (on_gpu() ? "" : "rank 1 is in ");
    EXPECT_EQ(std::string(nvrar_last_error()).rfind(begin, 0), 0u) << nvrar_last_error();
    count_checked_call();
  });
}

TEST(Invariant13_DifferingCallsAreCaught, OfEveryPairOfCollectives) {
  for (int32_t usual : kCollectives) {
    for (int32_t odd : kCollectives) {
      if (usual != odd) expect_caught(call_of(usual), call_of(odd));
    }
  }
}

TEST(Invariant13_DifferingCallsAreCaught, InTheCount) {
  for (int32_t collective : kCollectives) {
    if (collective == NVRAR_BARRIER) continue;
    for (uint64_t count : {kCount - 1, kCount + 1, uint64_t{20000}}) {  // the last one in several launches
      Call odd = call_of(collective);
      odd.count = count;
      expect_caught(call_of(collective), odd);
    }
  }
}

TEST(Invariant13_DifferingCallsAreCaught, InTheType) {
  for (int32_t collective : kCollectives) {
    if (collective == NVRAR_BARRIER) continue;
    for (int32_t type : {NVRAR_INT32, NVRAR_FLOAT16}) {
      Call odd = call_of(collective);
      odd.data_type = type;
      expect_caught(call_of(collective), odd);
    }
  }
}

TEST(Invariant13_DifferingCallsAreCaught, InTheOperator) {
  for (int32_t collective : {NVRAR_ALL_REDUCE, NVRAR_REDUCE, NVRAR_REDUCE_SCATTER}) {
    for (int32_t op : kOps) {
      if (op == NVRAR_SUM) continue;
      Call odd = call_of(collective);
      odd.op = op;
      expect_caught(call_of(collective), odd);
    }
  }
}

TEST(Invariant13_DifferingCallsAreCaught, InTheRoot) {
  for (int32_t collective : {NVRAR_BROADCAST, NVRAR_REDUCE}) {
    Call odd = call_of(collective);
    odd.root = 2;
    expect_caught(call_of(collective), odd);
  }
}

TEST(Invariant13_DifferingCallsAreCaught, InTheAlgorithm) {
  Call usual = call_of(NVRAR_ALL_REDUCE);
  usual.algorithm = NVRAR_ALGORITHM_ONE_SHOT;
  Call odd = usual;
  odd.algorithm = NVRAR_ALGORITHM_TWO_SHOT;
  expect_caught(usual, odd);
}

// Of several nodes, on one host and linked. odd: the ranks that make the odd call.
void expect_caught_between_nodes(const Call& usual, const Call& odd, int world, int ranks_per_node,
                                 uint32_t odd_ranks) {
  for (const bool linked : {false, true}) {
    if (::testing::Test::HasFailure()) return;
    ThreadGroup group(world, {.ring_bytes = small_ring_bytes(ranks_per_node),
                              .timeout_ns = 5'000 * kMs,
                              .ranks_per_node = ranks_per_node,
                              .linked = linked});
    const double begin = seconds_now();
    group.run([&](int rank, nvrar_comm* comm) {
      Memory memory(2 * std::max(usual.count, odd.count));
      const bool is_odd = (odd_ranks >> rank & 1) != 0;
      EXPECT_EQ(memory.call(rank, comm, is_odd ? odd : usual), NVRAR_MISMATCH)
          << "rank " << rank << " was not told that " << text_of(usual) << " met " << text_of(odd) << " of ranks "
          << odd_ranks << ": " << nvrar_last_error();
      EXPECT_TRUE(memory.untouched()) << "rank " << rank << " has a result where " << text_of(usual) << " met "
                                      << text_of(odd);
      count_checked_call();
    });
    EXPECT_LT(seconds_now() - begin, 4) << "only the deadline told of it";
  }
}

// A hierarchical all-reduce sends headers to its node, then between owners, and other calls send them to all at once.
TEST(Invariant13_DifferingCallsAreCaught, OfAHierarchicalAllReduceAndAnother) {
  if (on_gpu()) GTEST_SKIP() << "on GPUs all calls send their headers to all";
  Call usual = call_of(NVRAR_ALL_REDUCE);
  usual.algorithm = NVRAR_ALGORITHM_HIERARCHICAL;
  std::vector<Call> odd;
  for (int32_t collective : kCollectives) {
    if (collective != NVRAR_ALL_REDUCE) odd.push_back(call_of(collective));
  }
  for (int32_t algorithm : {NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT}) {
    odd.push_back(usual);
    odd.back().algorithm = algorithm;
  }
  for (uint64_t count : {kCount - 1, uint64_t{20000}}) {  // the last one in several launches
    odd.push_back(usual);
    odd.back().count = count;
  }
  odd.push_back(usual);
  odd.back().op = NVRAR_MAX;
  // A rank of a node, one that is alone in its node, a whole node, all but one rank; and each the other way round.
  for (const Call& other : odd) {
    for (uint32_t ranks : {0b00010u, 0b10000u, 0b01100u, 0b01111u}) {
      expect_caught_between_nodes(usual, other, 5, 2, ranks);
      expect_caught_between_nodes(usual, other, 5, 2, ranks ^ 0b11111u);
    }
    expect_caught_between_nodes(usual, other, 5, 3, 0b00100u);
    expect_caught_between_nodes(usual, other, 5, 3, 0b10000u);
  }
}

TEST(Invariant13_DifferingCallsAreCaught, OfHierarchicalAllReducesOfWholeNodesWhichAreNamedWithAllTheirRanks) {
  if (on_gpu()) GTEST_SKIP() << "on GPUs all calls send their headers to all";
  constexpr uint64_t kOdd = 0b01100;
  for (const bool linked : {false, true}) {
    for (int round = 0; round < 20; ++round) {
      ThreadGroup group(5, {.timeout_ns = 5'000 * kMs, .ranks_per_node = 2, .linked = linked});
      group.run([&](int rank, nvrar_comm* comm) {
        Memory memory(kCount);
        Call c = call_of(NVRAR_ALL_REDUCE);
        c.algorithm = NVRAR_ALGORITHM_HIERARCHICAL;
        if ((kOdd >> rank & 1) != 0) c.op = NVRAR_MAX;
        EXPECT_EQ(memory.call(rank, comm, c), NVRAR_MISMATCH);
        nvrar_failure failure{};
        failure.size = sizeof failure;
        EXPECT_EQ(nvrar_failure_of(comm, &failure), NVRAR_OK);
        // By one of them, or by another rank.
        EXPECT_TRUE(failure.missing[0] == kOdd || failure.missing[0] == (~kOdd & 0b11111)) << failure.missing[0];
        count_checked_call();
      });
    }
  }
}

TEST(Invariant14_WaitsEnd, EveryCollectiveHasADeadlineAndLeavesNoResultBehind) {
  for (int32_t collective : kCollectives) {
    ThreadGroup group(kWorld, {.timeout_ns = 50 * kMs});
    group.run([&](int rank, nvrar_comm* comm) {
      if (rank == 2) return;
      Memory memory(kCount);
      const double begin = seconds_now();
      EXPECT_EQ(memory.call(rank, comm, call_of(collective)), NVRAR_TIMEOUT) << text_of(call_of(collective));
      EXPECT_LT(seconds_now() - begin, 5);
      // On a GPU blocks whose packets have come do not wait for those whose packets have not.
      EXPECT_TRUE(on_gpu() || memory.untouched()) << text_of(call_of(collective));
      count_checked_call();
    });
  }
}

TEST(Invariant14_WaitsEnd, ACallInAFailedGroupLeavesAtOnceAndDoesNotTouchItsOutput) {
  for (int32_t collective : kCollectives) {
    ThreadGroup group(kWorld, {.timeout_ns = 5'000 * kMs});
    ASSERT_EQ(nvrar_abort(group.comm(1)), NVRAR_OK);
    group.run([&](int rank, nvrar_comm* comm) {
      Memory memory(kCount);
      EXPECT_EQ(memory.call(rank, comm, call_of(collective)), NVRAR_ABORTED)
          << "rank " << rank << " ran " << text_of(call_of(collective)) << " in a failed group";
      EXPECT_TRUE(memory.untouched()) << "rank " << rank << " ran " << text_of(call_of(collective))
                                      << " in a failed group";
      count_checked_call();
    });
  }
}

}  // namespace
}  // namespace nvrar::test
