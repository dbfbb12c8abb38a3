// What a member counts of its own calls, and what a process that is in no group sees of it: both compared with calls
// that the test knows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "support/abi.h"
#include "support/group.h"
#include "support/look.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr double kLimitSeconds = 20;
constexpr int kWorld = 2;
constexpr int kGo = 7;  // the mark by which the test lets the members go on
constexpr useconds_t kLateUs = 50'000;
constexpr uint64_t kLateNs = kLateUs * 1000ULL;

uint64_t address_of(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

void await_go(const Board& board) {
  while (board.marks[kGo] == 0) ::usleep(200);
}

Look look_at_rank(const Board& board, int rank, uint32_t capacity = NVRAR_FLIGHT_RECORDS) {
  return look_at(board.descriptors + rank * NVRAR_DESCRIPTOR_BYTES, capacity);
}

nvrar_statistics statistics_of(nvrar_comm* comm, int32_t collective) {
  nvrar_statistics statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(nvrar_statistics_of(comm, collective, &statistics), NVRAR_OK) << nvrar_last_error();
  count_checked_call();
  return statistics;
}

nvrar_wait wait_of(nvrar_comm* comm, int32_t rank) {
  nvrar_wait wait{};
  wait.size = sizeof wait;
  EXPECT_EQ(nvrar_wait_of(comm, rank, &wait), NVRAR_OK) << nvrar_last_error();
  count_checked_call();
  return wait;
}

template <size_t n>
uint64_t sum_of(const uint64_t (&values)[n]) {
  return std::accumulate(values, values + n, uint64_t{0});
}

struct Expected {
  int32_t collective;
  int32_t data_type;
  uint64_t count;
  int32_t op;
  int32_t root;
  int32_t algorithm;
};

// In this order, by both ranks; the transfer is a send of rank 0.
const Expected kCalls[] = {
    {NVRAR_ALL_REDUCE, NVRAR_FLOAT32, 250, NVRAR_SUM, -1, NVRAR_ALGORITHM_ONE_SHOT},
    {NVRAR_ALL_REDUCE, NVRAR_FLOAT32, 40, NVRAR_MAX, -1, NVRAR_ALGORITHM_TWO_SHOT},
    {NVRAR_ALL_REDUCE, NVRAR_INT32, 3, NVRAR_SUM, -1, NVRAR_ALGORITHM_ONE_SHOT},
    {NVRAR_BROADCAST, NVRAR_INT8, 9, -1, 1, 0},
    {NVRAR_BARRIER, -1, 0, -1, -1, 0},
    {NVRAR_SEND, NVRAR_FLOAT64, 5, -1, -1, 0},
};

nvrar_status call(nvrar_comm* comm, int rank, const Expected& expected) {
  alignas(64) uint8_t send[2048] = {};
  alignas(64) uint8_t recv[2048] = {};
  const uint64_t from = address_of(send);
  const uint64_t to = address_of(recv);
  switch (expected.collective) {
    case NVRAR_ALL_REDUCE:
      return nvrar_all_reduce(comm, from, to, expected.count, expected.data_type, expected.op, expected.algorithm, 0);
    case NVRAR_BROADCAST:
      return nvrar_broadcast(comm, from, to, expected.count, expected.data_type, expected.root, 0);
    case NVRAR_BARRIER:
      return nvrar_barrier(comm, 0);
    default: {
      const nvrar_transfer transfer = rank == 0 ? send_to(1, from, expected.count, expected.data_type)
                                                : recv_from(0, to, expected.count, expected.data_type);
      return nvrar_batch(comm, &transfer, 1, 0);
    }
  }
}

int32_t collective_on(int rank, const Expected& expected) {
  return expected.collective == NVRAR_SEND && rank == 1 ? int32_t{NVRAR_RECV} : expected.collective;
}

void expect_counters(int rank, nvrar_comm* comm) {
  for (int32_t collective = NVRAR_ALL_REDUCE; collective <= NVRAR_RECV; ++collective) {
    nvrar_statistics wanted{};
    for (const Expected& expected : kCalls) {
      if (collective_on(rank, expected) != collective) continue;
      ++wanted.calls[expected.data_type + 1];
      wanted.elements[expected.data_type + 1] += expected.count;
    }
    const nvrar_statistics counted = statistics_of(comm, collective);
    EXPECT_EQ(counted.collective, collective);
    EXPECT_EQ(counted.failed, 0u);
    for (int type = 0; type < NVRAR_STATISTICS_TYPES; ++type) {
      EXPECT_EQ(counted.calls[type], wanted.calls[type]) << "collective " << collective << ", type " << type - 1;
      EXPECT_EQ(counted.elements[type], wanted.elements[type]) << "collective " << collective << ", type " << type - 1;
    }
    EXPECT_EQ(sum_of(counted.durations), sum_of(wanted.calls)) << "collective " << collective;
    EXPECT_EQ(counted.timed_ns > 0, sum_of(wanted.calls) > 0) << "collective " << collective;
  }
}

void expect_sight(int rank, const Look& look) {
  ASSERT_EQ(look.status, NVRAR_OK) << look.error;
  EXPECT_EQ(look.failure, NVRAR_OK);
  EXPECT_EQ(look.begun, std::size(kCalls));
  ASSERT_EQ(look.calls.size(), std::size(kCalls));
  uint64_t before_ns = 0;
  for (size_t i = 0; i < std::size(kCalls); ++i) {
    const Expected& expected = kCalls[i];
    const nvrar_call& seen = look.calls[i];
    SCOPED_TRACE("call " + std::to_string(i) + " of rank " + std::to_string(rank));
    const bool is_transfer = expected.collective == NVRAR_SEND;
    EXPECT_EQ(seen.size, sizeof(nvrar_call));
    EXPECT_EQ(seen.state, NVRAR_CALL_DONE);
    EXPECT_EQ(seen.collective, collective_on(rank, expected));
    EXPECT_EQ(seen.data_type, expected.data_type);
    EXPECT_EQ(seen.count, expected.count);
    EXPECT_EQ(seen.op, expected.op);
    EXPECT_EQ(seen.root, is_transfer ? 1 - rank : expected.root);
    EXPECT_EQ(seen.algorithm, expected.algorithm);
    EXPECT_EQ(seen.sequence, is_transfer ? 1 : i + 1);
    EXPECT_EQ(seen.transfers, is_transfer ? 1u : 0u);
    EXPECT_LE(before_ns, seen.begin_ns);
    EXPECT_LE(seen.begin_ns, seen.end_ns);
    before_ns = seen.end_ns;
    count_checked_call();
  }
}

TEST(Onlooker, SeesTheCallsThatTheMembersHaveMadeAndCounted) {
  ProcessGroup group(kWorld, {}, [](int rank, nvrar_comm* comm, Board* board) {
    for (const Expected& expected : kCalls) ASSERT_EQ(call(comm, rank, expected), NVRAR_OK) << nvrar_last_error();
    expect_counters(rank, comm);
    ++board->marks[rank];
    await_go(*board);
  });
  ASSERT_TRUE(group.wait_marks({0, 1}, 1, kLimitSeconds));
  const size_t files = open_descriptors();
  for (int rank = 0; rank < kWorld; ++rank) {
    expect_sight(rank, look_at_rank(group.board(), rank));
    const Look newest = look_at_rank(group.board(), rank, 2);
    ASSERT_EQ(newest.calls.size(), 2u);
    EXPECT_EQ(newest.calls[0].collective, NVRAR_BARRIER);
    EXPECT_EQ(newest.begun, std::size(kCalls));
    EXPECT_EQ(look_at_rank(group.board(), rank, 0).begun, std::size(kCalls));
  }
  EXPECT_EQ(open_descriptors(), files);
  group.board().marks[kGo] = 1;
  EXPECT_TRUE(group.join(kLimitSeconds));
}

TEST(Onlooker, SeesACallThatRunsAndTheWaitForTheLateRankIsCounted) {
  ProcessGroup group(kWorld, {}, [](int rank, nvrar_comm* comm, Board* board) {
    if (rank == 0) await_go(*board);
    ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
    if (rank == 0) return;
    const nvrar_wait wait = wait_of(comm, 0);
    EXPECT_EQ(wait.count, 1u);
    EXPECT_GE(wait.total_ns, kLateNs);
    EXPECT_EQ(wait_of(comm, 1).count, 0u) << "a rank does not wait for itself";
    const nvrar_statistics barriers = statistics_of(comm, NVRAR_BARRIER);
    EXPECT_GE(barriers.timed_ns, wait.total_ns);
    EXPECT_EQ(sum_of(barriers.durations), 1u);
    // The call is in the bucket of the durations that its own is one of.
    for (size_t bucket = 0; bucket < NVRAR_DURATION_BUCKETS - 1; ++bucket) {
      const bool is_in = barriers.timed_ns <= uint64_t{NVRAR_SHORTEST_BUCKET_NS} << bucket &&
                         (bucket == 0 || barriers.timed_ns > uint64_t{NVRAR_SHORTEST_BUCKET_NS} << (bucket - 1));
      EXPECT_EQ(barriers.durations[bucket], is_in ? 1u : 0u) << "bucket " << bucket;
    }
  });
  Look look;
  const double end = seconds_now() + kLimitSeconds;
  do {
    ASSERT_LT(seconds_now(), end) << "rank 1 was not seen in its barrier";
    look = look_at_rank(group.board(), 1);  // refused until rank 1 has its memory
  } while (look.calls.empty());
  ASSERT_EQ(look.calls.size(), 1u);
  EXPECT_EQ(look.calls[0].collective, NVRAR_BARRIER);
  EXPECT_EQ(look.calls[0].state, NVRAR_CALL_RUNNING);
  EXPECT_EQ(look.calls[0].end_ns, 0u);
  EXPECT_EQ(look_at_rank(group.board(), 0).begun, 0u);
  ::usleep(2 * kLateUs);  // also the moment that does not count as a wait
  group.board().marks[kGo] = 1;
  EXPECT_TRUE(group.join(kLimitSeconds));
}

TEST(Onlooker, SeesAFailureAndTheCallThatFailed) {
  ProcessGroup group(kWorld, {.timeout_ns = 1'000 * kMs}, [](int rank, nvrar_comm* comm, Board* board) {
    ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
    if (rank == 1) {
      EXPECT_EQ(call(comm, rank, kCalls[0]), NVRAR_TIMEOUT);
      EXPECT_EQ(statistics_of(comm, NVRAR_ALL_REDUCE).failed, 1u);
      EXPECT_EQ(statistics_of(comm, NVRAR_BARRIER).failed, 0u);
    }
    ++board->marks[rank];
    await_go(*board);
  });
  ASSERT_TRUE(group.wait_marks({0, 1}, 1, kLimitSeconds));
  const Look failed = look_at_rank(group.board(), 1);
  EXPECT_EQ(failed.failure, NVRAR_TIMEOUT);
  EXPECT_EQ(failed.begun, 2u);
  ASSERT_EQ(failed.calls.size(), 2u);
  EXPECT_EQ(failed.calls[0].state, NVRAR_CALL_DONE);
  EXPECT_EQ(failed.calls[1].state, NVRAR_CALL_FAILED);
  EXPECT_EQ(look_at_rank(group.board(), 0).failure, NVRAR_TIMEOUT) << "its peer is told";
  group.board().marks[kGo] = 1;
  EXPECT_TRUE(group.join(kLimitSeconds));
}

// The record wraps round under the reader, which must take no half of one call and half of another.
TEST(Onlooker, SeesWholeCallsInTheirOrderWhileTheMembersWriteThem) {
  constexpr int kTimes = 20'000;
  ProcessGroup group(kWorld, {}, [](int rank, nvrar_comm* comm, Board* board) {
    for (int i = 0; i < kTimes; ++i) {
      ASSERT_EQ(call(comm, rank, kCalls[i % 3]), NVRAR_OK) << nvrar_last_error();
      if (i == NVRAR_FLIGHT_RECORDS) ++board->marks[rank];
    }
    ++board->marks[rank];
    await_go(*board);
  });
  ASSERT_TRUE(group.wait_marks({0}, 1, kLimitSeconds));
  Look look;
  uint64_t begun = 0;
  const double end = seconds_now() + 2 * kLimitSeconds;
  do {
    ASSERT_LT(seconds_now(), end);
    look = look_at_rank(group.board(), 0);
    ASSERT_EQ(look.status, NVRAR_OK) << look.error;
    ASSERT_GE(look.begun, begun);
    begun = look.begun;
    uint64_t before = 0;
    for (const nvrar_call& seen : look.calls) {
      const Expected& expected = kCalls[(seen.sequence - 1) % 3];
      ASSERT_GT(seen.sequence, before);
      before = seen.sequence;
      ASSERT_EQ(seen.count, expected.count) << "call " << seen.sequence;
      ASSERT_EQ(seen.data_type, expected.data_type) << "call " << seen.sequence;
      ASSERT_EQ(seen.op, expected.op) << "call " << seen.sequence;
    }
    count_checked_call();
  } while (group.board().marks[0] < 2);
  look = look_at_rank(group.board(), 0);
  EXPECT_EQ(look.begun, uint64_t{kTimes});
  ASSERT_EQ(look.calls.size(), size_t{NVRAR_FLIGHT_RECORDS});
  EXPECT_EQ(look.calls.front().sequence, uint64_t{kTimes - NVRAR_FLIGHT_RECORDS + 1});
  EXPECT_EQ(look.calls.back().sequence, uint64_t{kTimes});
  group.board().marks[kGo] = 1;
  EXPECT_TRUE(group.join(kLimitSeconds));
}

TEST(Onlooker, IsToldThatAMemberHasEnded) {
  ProcessGroup group(kWorld, {}, [](int rank, nvrar_comm* comm, Board* board) {
    ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
    ++board->marks[rank];
    await_go(*board);
  });
  ASSERT_TRUE(group.wait_marks({0, 1}, 1, kLimitSeconds));
  const std::string of_killed = "rank 1 (pid " + std::to_string(group.pid(1)) + ") is not on this host or not visible";
  group.send_signal(1, SIGSTOP);
  EXPECT_EQ(look_at_rank(group.board(), 1).begun, 1u) << "a member need not run to be looked at";
  group.send_signal(1, SIGKILL);
  const size_t files = open_descriptors();
  Look look;
  const double end = seconds_now() + kLimitSeconds;
  do {  // the process is gone a moment later
    ASSERT_LT(seconds_now(), end);
    look = look_at_rank(group.board(), 1);
  } while (look.status == NVRAR_OK);
  EXPECT_EQ(look.status, NVRAR_SYSTEM);
  EXPECT_TRUE(contains(look.error, of_killed)) << look.error;
  EXPECT_EQ(open_descriptors(), files);
  group.board().marks[kGo] = 1;
  EXPECT_TRUE(group.join(kLimitSeconds, 1));
  look = look_at_rank(group.board(), 0);
  EXPECT_EQ(look.status, NVRAR_SYSTEM) << "this one has destroyed its communicator and ended by itself";
}

}  // namespace
}  // namespace nvrar::test
