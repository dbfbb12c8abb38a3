// Tests of ranks that die while a group is created or closed, and of calls that overlap in a process: what the other
// ranks get, and that they leak nothing.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <utility>

#include "support/group.h"
#include "support/pool.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr double kLimitSeconds = 20;

// Rank 1 of 2 in a process that dies by SIGKILL; rank 0 is this process.
class Invariant14_WaitsEnd : public ::testing::Test {
 protected:
  struct Meeting {
    std::atomic<int> prepared{0};
    std::atomic<int> may_connect{0};
    uint8_t descriptors[2 * NVRAR_DESCRIPTOR_BYTES];
  };

  void SetUp() override {
    void* memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    meeting_ = new (memory) Meeting;
  }
  void TearDown() override {
    kill_peer();
    ::munmap(meeting_, sizeof(Meeting));
  }

  void prepare_both() {
    meeting_->prepared = 0;
    meeting_->may_connect = 0;
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) be_peer(id);
    const nvrar_config config = make_config(0, 2, {.ring_bytes = kSmallRingBytes, .timeout_ns = 50 * kMs});
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, meeting_->descriptors, &comm_), NVRAR_OK) << nvrar_last_error();
    const double end = seconds_now() + kLimitSeconds;
    while (meeting_->prepared == 0 && seconds_now() < end) ::usleep(200);
    ASSERT_EQ(meeting_->prepared, 1);
  }
  void kill_peer() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  nvrar_status connect() { return nvrar_connect(comm_, meeting_->descriptors); }
  void destroy() { EXPECT_EQ(nvrar_destroy(std::exchange(comm_, nullptr)), NVRAR_OK); }

  Meeting* meeting_ = nullptr;
  nvrar_comm* comm_ = nullptr;
  pid_t child_ = 0;

 private:
  [[noreturn]] void be_peer(const uint8_t* id) {
    const nvrar_config config = make_config(1, 2, {.ring_bytes = kSmallRingBytes});
    nvrar_comm* comm = nullptr;
    nvrar_prepare(&config, nullptr, 0, id, meeting_->descriptors + NVRAR_DESCRIPTOR_BYTES, &comm);
    meeting_->prepared = 1;
    while (meeting_->may_connect == 0) continue;
    nvrar_connect(comm, meeting_->descriptors);
    for (;;) ::pause();
  }
};

TEST_F(Invariant14_WaitsEnd, OfADeathBetweenPrepareAndConnectTheOthersConnectIsTold) {
  const size_t before = open_descriptors();
  prepare_both();
  kill_peer();
  EXPECT_EQ(connect(), NVRAR_SYSTEM);
  EXPECT_TRUE(contains(nvrar_last_error(), "rank 1 (pid ")) << nvrar_last_error();
  destroy();
  EXPECT_EQ(open_descriptors(), before);
}

// The moment of the death walks over the connect of both.
TEST_F(Invariant14_WaitsEnd, ADeathDuringConnectIsAnErrorThereOrATimeOutOfTheFirstCall) {
  const size_t before = open_descriptors();
  for (int round = 0; round < static_cast<int>(repetitions(20)); ++round) {
    prepare_both();
    ASSERT_FALSE(HasFatalFailure());
    meeting_->may_connect = 1;
    const bool at_once = round % 2 == 0;
    if (at_once) ::kill(child_, SIGKILL);
    const nvrar_status status = connect();
    ::usleep(static_cast<useconds_t>(round * 10));
    kill_peer();
    if (status == NVRAR_OK) {
      EXPECT_EQ(nvrar_barrier(comm_, 0), NVRAR_TIMEOUT);
      EXPECT_TRUE(contains(nvrar_last_error(), "without rank 1")) << nvrar_last_error();
    } else {
      EXPECT_EQ(status, NVRAR_SYSTEM) << nvrar_last_error();
    }
    destroy();
    count_checked_call();
  }
  EXPECT_EQ(open_descriptors(), before);
}

// A connect does not wait for other ranks, so the first call detects the death.
TEST_F(Invariant14_WaitsEnd, OfAStopBeforeConnectTheFirstCallIsTold) {
  prepare_both();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_EQ(::kill(child_, SIGSTOP), 0);
  ASSERT_EQ(connect(), NVRAR_OK) << nvrar_last_error();
  EXPECT_EQ(nvrar_barrier(comm_, 0), NVRAR_TIMEOUT);
  EXPECT_TRUE(contains(nvrar_last_error(), "without rank 1")) << nvrar_last_error();
  destroy();
}

TEST_F(Invariant14_WaitsEnd, AfterADeathOrAStopOfAPeerAGroupStillClosesAtOnce) {
  for (int signal : {SIGKILL, SIGSTOP}) {
    prepare_both();
    ASSERT_FALSE(HasFatalFailure());
    meeting_->may_connect = 1;
    ASSERT_EQ(connect(), NVRAR_OK) << nvrar_last_error();
    ASSERT_EQ(::kill(child_, signal), 0);
    const double begin = seconds_now();
    destroy();
    EXPECT_LT(seconds_now() - begin, 2);
    kill_peer();
  }
}

// A rank that is killed after its last call: those that have not closed yet see no failure, and can close.
TEST(Processes, ADeathAfterTheLastCallDoesNotDisturbThoseThatStillClose) {
  ProcessGroup group(3, {.timeout_ns = 500 * kMs}, [](int rank, nvrar_comm* comm, Board* board) {
    for (int i = 0; i < 20; ++i) ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
    ++board->marks[rank];
    while (rank == 1 || board->marks[7] == 0) ::usleep(500);
    EXPECT_EQ(nvrar_async_error(comm), NVRAR_OK);
  });
  ASSERT_TRUE(group.wait_marks({0, 1, 2}, 1, kLimitSeconds));
  group.send_signal(1, SIGKILL);
  group.board().marks[7] = 1;
  EXPECT_TRUE(group.join(kLimitSeconds, 1));
}

}  // namespace
}  // namespace nvrar::test
