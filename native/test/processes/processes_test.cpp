// Ranks as processes: the results, and the effect of the death or the stop of one process on the others.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "support/collective_case.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

constexpr double kJoinSeconds = 60;

size_t open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// Makes calls until one fails or the test ends it; the mark counts the calls.
nvrar_status sum_until_failure(nvrar_comm* comm, int rank, Board* board, int calls) {
  std::vector<float> in(64, 1.0f);
  std::vector<float> out(64);
  for (int i = 0; i < calls; ++i) {
    const nvrar_status status =
        nvrar_all_reduce(comm, reinterpret_cast<uint64_t>(in.data()), reinterpret_cast<uint64_t>(out.data()), in.size(),
                         NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0);
    if (status != NVRAR_OK) {
      std::strncpy(board->text[rank], nvrar_last_error(), sizeof board->text[rank] - 1);
      return status;
    }
    ++board->marks[rank];
  }
  return NVRAR_OK;
}

constexpr int32_t kCollectives[] = {NVRAR_ALL_REDUCE, NVRAR_REDUCE,     NVRAR_REDUCE_SCATTER,
                                    NVRAR_ALL_GATHER, NVRAR_ALL_TO_ALL, NVRAR_BROADCAST};

class ProcessesOfTopology : public ::testing::TestWithParam<TestTopology> {};

TEST_P(ProcessesOfTopology, AllCollectivesAreExact) {
  const auto [world, ranks_per_node] = GetParam();
  const Pools pools(world, ranks_per_node, 3);
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  const GroupOptions options{.ring_bytes = 4 * kSmallRingBytes, .ranks_per_node = ranks_per_node};
  ProcessGroup group(world, options, [&, world = world](int rank, nvrar_comm* comm, Board*) {
    for (uint64_t i = 0; i < repetitions(3000); ++i) {
      const uint64_t r = mix(i);
      CollectiveCase c;
      c.collective = kCollectives[r % std::size(kCollectives)];
      c.reduction = reductions()[(r >> 4) % reductions().size()];
      c.algorithm = ways[(r >> 12) % ways.size()];
      c.count = 1 + ((r >> 16) % 4096 >> (r >> 28 & 7));
      c.first = (r >> 32) % 4000;
      c.root = static_cast<int>((r >> 48) % static_cast<uint64_t>(world));
      run_case(rank, world, comm, pools.of(c.reduction), c);
      if (::testing::Test::HasFatalFailure()) return;
      if (i % 8 == 0) {
        ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
      }
    }
  });
  EXPECT_TRUE(group.join(kJoinSeconds));
}

INSTANTIATE_TEST_SUITE_P(Topologies, ProcessesOfTopology,
                         ::testing::Values(TestTopology{1, 0}, TestTopology{2, 0}, TestTopology{3, 0},
                                           TestTopology{4, 0}, TestTopology{8, 0}, TestTopology{4, 2},
                                           TestTopology{5, 3}, TestTopology{6, 2}, TestTopology{8, 2},
                                           TestTopology{8, 4}));

TEST(Processes, SurvivorsOfAKillTimeOutAndNameTheDead) {
  ProcessGroup group(3, {.timeout_ns = 400 * kMs}, [](int rank, nvrar_comm* comm, Board* board) {
    EXPECT_EQ(sum_until_failure(comm, rank, board, 1 << 30), NVRAR_TIMEOUT);
    nvrar_call call{};
    call.size = sizeof call;
    EXPECT_EQ(nvrar_call_of(comm, 1, &call), NVRAR_OK) << "a dead rank's last call is still readable";
    EXPECT_GT(call.sequence, 100u);
  });
  ASSERT_TRUE(group.wait_marks({0, 1, 2}, 100, 20));
  const double begin = seconds_now();
  group.send_signal(1, SIGKILL);
  EXPECT_TRUE(group.join(20, 1));
  EXPECT_LT(seconds_now() - begin, 2.0);
  for (int rank : {0, 2}) EXPECT_TRUE(contains(group.board().text[rank], "without rank 1")) << group.board().text[rank];
}

struct KillCase {
  int32_t algorithm;
  uint64_t count;
};
void PrintTo(const KillCase& c, std::ostream* out) { *out << "algorithm " << c.algorithm << ", count " << c.count; }

class KilledRank : public ::testing::TestWithParam<KillCase> {};

// A death at any moment of any algorithm: calls completed before are right, others fail with an error that names the
// dead rank, and the dead rank's flight record can still be read.
TEST_P(KilledRank, LeavesNoWrongResultAndItsFlightRecord) {
  const auto [algorithm, count] = GetParam();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 4, count + 64, 29, 2);
  const GroupOptions options{.timeout_ns = 1000 * kMs, .ranks_per_node = 2};
  ProcessGroup group(4, options, [&, algorithm = algorithm, count = count](int rank, nvrar_comm* comm, Board* board) {
    std::vector<uint8_t> out(count * sizeof(float));
    nvrar_status status = NVRAR_OK;
    for (uint64_t i = 0; status == NVRAR_OK; ++i) {
      const uint64_t first = i % 64;
      status = nvrar_all_reduce(comm, reinterpret_cast<uint64_t>(pool.input(rank, first)),
                                reinterpret_cast<uint64_t>(out.data()), count, NVRAR_FLOAT32, NVRAR_SUM, algorithm, 0);
      if (status == NVRAR_OK) {
        ASSERT_EQ(difference(out.data(), pool.expected(first), out.size()), "");
        ++board->marks[rank];
      }
    }
    EXPECT_EQ(status, NVRAR_TIMEOUT) << nvrar_last_error();
    EXPECT_TRUE(contains(nvrar_last_error(), "without rank 1")) << nvrar_last_error();
    std::vector<nvrar_call> calls(NVRAR_FLIGHT_RECORDS);
    uint32_t records = 0;
    calls[0].size = sizeof calls[0];
    ASSERT_EQ(nvrar_flight_record(comm, 1, calls.data(), NVRAR_FLIGHT_RECORDS, &records), NVRAR_OK);
    ASSERT_GT(records, 20u);
    for (uint32_t i = 0; i < records; ++i) {
      ASSERT_EQ(calls[i].algorithm, algorithm);
      ASSERT_EQ(calls[i].count, count);
      ASSERT_EQ(calls[i].group_sequence, calls[i].sequence);
      if (i + 1 < records) {
        ASSERT_EQ(calls[i].state, NVRAR_CALL_DONE);
        ASSERT_EQ(calls[i + 1].sequence, calls[i].sequence + 1);
        ASSERT_LE(calls[i].begin_ns, calls[i].end_ns);
        ASSERT_LE(calls[i].end_ns, calls[i + 1].begin_ns);
      }
    }
  });
  ASSERT_TRUE(group.wait_marks({0, 1, 2, 3}, 20, 30));
  group.send_signal(1, SIGKILL);
  EXPECT_TRUE(group.join(20, 1));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, KilledRank,
                         ::testing::Values(KillCase{NVRAR_ALGORITHM_ONE_SHOT, 64},
                                           KillCase{NVRAR_ALGORITHM_ONE_SHOT, 200000},
                                           KillCase{NVRAR_ALGORITHM_TWO_SHOT, 200000},
                                           KillCase{NVRAR_ALGORITHM_HIERARCHICAL, 200000}));

TEST(Processes, SurvivorsOfAKillLeaveAtOnceWhenOneAborts) {
  ProcessGroup group(3, {}, [](int rank, nvrar_comm* comm, Board* board) {
    if (rank != 0) {
      EXPECT_EQ(sum_until_failure(comm, rank, board, 1 << 30), NVRAR_ABORTED);
      return;
    }
    sum_until_failure(comm, rank, board, 100);
    board->marks[7] = 1;
    while (board->marks[6] == 0) ::usleep(500);
    EXPECT_EQ(nvrar_abort(comm), NVRAR_OK);
  });
  ASSERT_TRUE(group.wait_marks({7}, 1, 20));
  group.send_signal(2, SIGKILL);
  ::usleep(50'000);
  const double begin = seconds_now();
  group.board().marks[6] = 1;
  EXPECT_TRUE(group.join(20, 2));
  EXPECT_LT(seconds_now() - begin, 2.0);
  EXPECT_TRUE(contains(group.board().text[1], "rank 0 aborted the group")) << group.board().text[1];
}

TEST(Processes, AStopShorterThanTheLimitOnlyDelays) {
  const int calls = static_cast<int>(repetitions(20000));
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 3, kPoolElements, 17);
  ProcessGroup group(3, {}, [&](int rank, nvrar_comm* comm, Board* board) {
    for (int i = 0; i < calls; ++i) {
      const CollectiveCase c{
          NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, 100, static_cast<uint64_t>(i) % 4000};
      run_case(rank, 3, comm, pool, c);
      ++board->marks[rank];
    }
  });
  ASSERT_TRUE(group.wait_marks({0, 1, 2}, 10, 20));
  for (int i = 0; i < 10; ++i) {
    group.send_signal(i % 3, SIGSTOP);
    ::usleep(20'000);
    group.send_signal(i % 3, SIGCONT);
  }
  EXPECT_TRUE(group.join(kJoinSeconds));
}

TEST(Processes, AStopLongerThanTheLimitIsATimeoutOnAllRanksAndTheSleeperLearnsOfIt) {
  ProcessGroup group(3, {.timeout_ns = 300 * kMs}, [](int rank, nvrar_comm* comm, Board* board) {
    EXPECT_EQ(sum_until_failure(comm, rank, board, 1 << 30), NVRAR_TIMEOUT);
    board->marks[rank] = -1;
  });
  ASSERT_TRUE(group.wait_marks({0, 1, 2}, 100, 20));
  group.send_signal(2, SIGSTOP);
  const double end = seconds_now() + 20;
  while ((group.board().marks[0] != -1 || group.board().marks[1] != -1) && seconds_now() < end) ::usleep(1000);
  group.send_signal(2, SIGCONT);
  EXPECT_TRUE(group.join(20));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(contains(group.board().text[rank], "without rank 2")) << group.board().text[rank];
  }
}

TEST(Processes, DifferingCallsAreTheSameSentenceOnEveryRank) {
  ProcessGroup group(3, {}, [](int rank, nvrar_comm* comm, Board* board) {
    std::vector<float> data(64, 1.0f);
    const auto address = reinterpret_cast<uint64_t>(data.data());
    EXPECT_EQ(nvrar_all_reduce(comm, address, address, rank == 0 ? 32 : 64, NVRAR_FLOAT32, NVRAR_SUM,
                               NVRAR_ALGORITHM_AUTO, 0),
              NVRAR_MISMATCH);
    std::strncpy(board->text[rank], nvrar_last_error(), sizeof board->text[rank] - 1);
  });
  EXPECT_TRUE(group.join(20));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_STREQ(group.board().text[rank],
                 "the calls of the ranks differ: rank 0 is in allReduce #1 float32[32] SUM (one-shot), ranks 1, 2 in "
                 "allReduce #1 "
                 "float32[64] SUM (one-shot)");
  }
}

TEST(Processes, NothingIsLeft) {
  const size_t descriptors = open_files();
  {
    ProcessGroup group(4, {}, [](int, nvrar_comm* comm, Board*) { EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_OK); });
    EXPECT_TRUE(group.join(20));
  }
  EXPECT_EQ(open_files(), descriptors);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no children";
}

}  // namespace
}  // namespace nvrar::test
