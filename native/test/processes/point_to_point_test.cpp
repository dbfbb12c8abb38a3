// Point-to-point between processes: the results, and the effect of the death or the stop of one process on its peers.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "support/group.h"
#include "support/transfers.h"

namespace nvrar::test {
namespace {

constexpr double kJoinSeconds = 60;
constexpr int kForever = 1 << 30;

// All pairs exchange more than a ring holds until a call fails or the test ends it; the mark counts the rounds.
nvrar_status exchange(int rank, int world, nvrar_comm* comm, Board* board, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<Message> messages;
    for (int source = 0; source < world; ++source) {
      for (int destination = 0; destination < world; ++destination) {
        const auto seed = static_cast<uint64_t>(round * 64 + source * world + destination);
        messages.push_back({source, destination, NVRAR_BFLOAT16, 1 + mix(seed) % 2000, seed});
      }
    }
    const RankBatch batch(rank, messages, static_cast<uint64_t>(round));
    const nvrar_status status = batch.run(comm);
    if (status != NVRAR_OK) {
      std::strncpy(board->text[rank], nvrar_last_error(), sizeof board->text[rank] - 1);
      return status;
    }
    EXPECT_EQ(batch.fault(), "");
    if (::testing::Test::HasFailure()) return NVRAR_INTERNAL;
    ++board->marks[rank];
  }
  return NVRAR_OK;
}

class PointToPointProcessesOfWorld : public ::testing::TestWithParam<int> {};

TEST_P(PointToPointProcessesOfWorld, ExchangesArriveWhole) {
  const int world = GetParam();
  ProcessGroup group(world, {.ring_bytes = 2 * kSmallRingBytes}, [world](int rank, nvrar_comm* comm, Board* board) {
    EXPECT_EQ(exchange(rank, world, comm, board, static_cast<int>(repetitions(200))), NVRAR_OK) << nvrar_last_error();
  });
  EXPECT_TRUE(group.join(kJoinSeconds));
}

INSTANTIATE_TEST_SUITE_P(Worlds, PointToPointProcessesOfWorld, ::testing::Values(2, 3, 4, 8));

TEST(PointToPointProcesses, SurvivorsOfAKillTimeOutAndNameTheDead) {
  ProcessGroup group(3, {.ring_bytes = kSmallRingBytes, .timeout_ns = 400 * kMs},
                     [](int rank, nvrar_comm* comm, Board* board) {
                       EXPECT_EQ(exchange(rank, 3, comm, board, kForever), NVRAR_TIMEOUT);
                       nvrar_call call{};
                       call.size = sizeof call;
                       EXPECT_EQ(nvrar_call_of(comm, 1, &call), NVRAR_OK);
                       EXPECT_TRUE(call.collective == NVRAR_SEND || call.collective == NVRAR_RECV)
                           << "a dead rank's last transfer is still readable";
                     });
  ASSERT_TRUE(group.wait_marks({0, 1, 2}, 10, 20));
  const double begin = seconds_now();
  group.send_signal(1, SIGKILL);
  EXPECT_TRUE(group.join(20, 1));
  EXPECT_LT(seconds_now() - begin, 3.0);
  // A survivor whose batch also waits for the other survivor does not blame it: that one waits, too.
  for (int rank : {0, 2}) EXPECT_TRUE(contains(group.board().text[rank], "without rank 1")) << group.board().text[rank];
}

TEST(PointToPointProcesses, AStopShorterThanTheLimitIsALateRank) {
  ProcessGroup group(3, {.ring_bytes = kSmallRingBytes}, [](int rank, nvrar_comm* comm, Board* board) {
    EXPECT_EQ(exchange(rank, 3, comm, board, static_cast<int>(repetitions(2000))), NVRAR_OK) << nvrar_last_error();
  });
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(group.wait_marks({0, 1, 2}, 1 + i * static_cast<int>(repetitions(2000)) / 4, 30));
    group.send_signal(i, SIGSTOP);
    ::usleep(150'000);
    group.send_signal(i, SIGCONT);
  }
  EXPECT_TRUE(group.join(kJoinSeconds));
}

TEST(PointToPointProcesses, AStopLongerThanTheLimitEndsTheGroupOnAllRanks) {
  ProcessGroup group(3, {.ring_bytes = kSmallRingBytes, .timeout_ns = 300 * kMs},
                     [](int rank, nvrar_comm* comm, Board* board) {
                       EXPECT_EQ(exchange(rank, 3, comm, board, kForever), NVRAR_TIMEOUT);
                     });
  ASSERT_TRUE(group.wait_marks({0, 1, 2}, 10, 20));
  group.send_signal(2, SIGSTOP);
  ::usleep(1'000'000);
  group.send_signal(2, SIGCONT);
  EXPECT_TRUE(group.join(20));
  for (int rank : {0, 1}) EXPECT_TRUE(contains(group.board().text[rank], "without rank 2")) << group.board().text[rank];
}

}  // namespace
}  // namespace nvrar::test
