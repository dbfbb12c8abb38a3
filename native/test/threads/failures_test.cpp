// Tests of ranks that disagree, do not come, are aborted or misused, with ranks as threads of one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "call/call.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kShortNs = 500 * kMs;  // longer than a busy machine keeps a rank from its call

struct Buffer {
  explicit Buffer(uint64_t count) : in(count, 1.0f), out(count) {}
  uint64_t send() { return reinterpret_cast<uint64_t>(in.data()); }
  uint64_t recv() { return reinterpret_cast<uint64_t>(out.data()); }
  nvrar_status all_reduce(nvrar_comm* comm, uint64_t count, int32_t op = NVRAR_SUM,
                          int32_t algorithm = NVRAR_ALGORITHM_AUTO) {
    return nvrar_all_reduce(comm, send(), recv(), count, NVRAR_FLOAT32, op, algorithm, 0);
  }
  std::vector<float> in;
  std::vector<float> out;
};

nvrar_failure failure_of(nvrar_comm* comm) {
  nvrar_failure failure{};
  failure.size = sizeof failure;
  EXPECT_EQ(nvrar_failure_of(comm, &failure), NVRAR_OK);
  return failure;
}

TEST(Invariant13_DifferingCallsAreCaught, DifferentCountsFailOnAllRanksAndNameWhoDiffers) {
  ThreadGroup group(4);
  group.run([&](int rank, nvrar_comm* comm) {
    Buffer buffer(2048);
    for (int i = 0; i < 40; ++i) ASSERT_EQ(buffer.all_reduce(comm, 64), NVRAR_OK);
    if (rank == 2) ::usleep(2000);
    ASSERT_EQ(buffer.all_reduce(comm, rank == 2 ? 1024 : 2048), NVRAR_MISMATCH);
    EXPECT_TRUE(contains(nvrar_last_error(),
                         "rank 2 is in allReduce #41 float32[1024] SUM (one-shot), ranks 0, 1, 3 in allReduce "
                         "#41 float32[2048] SUM (one-shot)"))
        << nvrar_last_error();
    EXPECT_EQ(buffer.all_reduce(comm, 8), NVRAR_MISMATCH) << "a poisoned group gives no more results";
    EXPECT_EQ(nvrar_async_error(comm), NVRAR_MISMATCH);
    const nvrar_failure failure = failure_of(comm);
    EXPECT_EQ(failure.status, NVRAR_MISMATCH);
    EXPECT_EQ(failure.sequence, 41u);
    EXPECT_NE(failure.missing[0], 0u);
  });
}

// Without numbers in the headers, one rank's step k would be summed with the others' step k + 1.
TEST(Invariant13_DifferingCallsAreCaught, ACountOfZeroOnOneRankIsCaughtByTheNextCall) {
  ThreadGroup group(3);
  group.run([&](int rank, nvrar_comm* comm) {
    Buffer buffer(64);
    ASSERT_EQ(buffer.all_reduce(comm, 64), NVRAR_OK);
    if (rank == 1) {
      ASSERT_EQ(buffer.all_reduce(comm, 0), NVRAR_OK) << nvrar_last_error();
    }
    ASSERT_EQ(buffer.all_reduce(comm, 64), NVRAR_MISMATCH);
    EXPECT_TRUE(contains(
        nvrar_last_error(),
        "rank 1 is in allReduce #3 float32[64] SUM (one-shot), ranks 0, 2 in allReduce #2 float32[64] SUM (one-shot)"))
        << nvrar_last_error();
  });
}

TEST(Invariant14_WaitsEnd, ATimeOutNamesACountOfZeroThatWasTheLastCall) {
  ThreadGroup group(2, {.timeout_ns = kShortNs});
  Buffer buffer(64);
  ASSERT_EQ(buffer.all_reduce(group.comm(1), 0), NVRAR_OK);
  ASSERT_EQ(buffer.all_reduce(group.comm(0), 64), NVRAR_TIMEOUT);
  EXPECT_TRUE(contains(nvrar_last_error(), "rank 1 has finished allReduce #1 float32[0] SUM (one-shot)"))
      << nvrar_last_error();
}

TEST(CountOfZero, OnAllRanksIsACallThatWaitsForNobody) {
  ThreadGroup group(2);
  const auto call_of = [&](int rank) {
    nvrar_call call{};
    call.size = sizeof call;
    EXPECT_EQ(nvrar_call_of(group.comm(1 - rank), rank, &call), NVRAR_OK);
    return call;
  };
  Buffer buffer(8);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(buffer.all_reduce(group.comm(rank), 0), NVRAR_OK);
    ASSERT_EQ(nvrar_broadcast(group.comm(rank), 0, 0, 0, NVRAR_INT32, 1, 0), NVRAR_OK);
    EXPECT_EQ(call_of(rank).state, NVRAR_CALL_DONE);
    EXPECT_EQ(describe(call_of(rank)), "broadcast #2 int32[0] from root 1");
    EXPECT_EQ(buffer.all_reduce(group.comm(rank), 0, 77), NVRAR_INVALID_ARGUMENT);
    EXPECT_EQ(call_of(rank).sequence, 2u) << "a refused call has no number";
  }
  group.run([](int, nvrar_comm* comm) {
    Buffer own(8);
    EXPECT_EQ(own.all_reduce(comm, 8), NVRAR_OK) << nvrar_last_error();
  });
  EXPECT_EQ(call_of(0).sequence, 3u);
}

TEST(Invariant14_WaitsEnd, ATimeOutNamesWhoIsMissingInWhichCallAfterHowLong) {
  ThreadGroup group(4, {.timeout_ns = kShortNs});
  group.run([&](int rank, nvrar_comm* comm) {
    Buffer buffer(64);
    ASSERT_EQ(buffer.all_reduce(comm, 64), NVRAR_OK);
    if (rank == 3) return;
    const double begin = seconds_now();
    ASSERT_EQ(buffer.all_reduce(comm, 32), NVRAR_TIMEOUT);
    const double took = seconds_now() - begin;
    EXPECT_GT(took, 0.49);
    EXPECT_LT(took, 2.0);
    const std::string text = nvrar_last_error();
    const nvrar_failure failure = failure_of(comm);
    EXPECT_EQ(failure.missing[0], 0b1000u) << text;
    EXPECT_EQ(failure.sequence, 2u);
    EXPECT_TRUE(contains(text, "timed out")) << text;
    EXPECT_TRUE(contains(text, "without rank 3")) << text;
    EXPECT_TRUE(contains(text, "rank 3 has finished allReduce #1 float32[64] SUM (one-shot)")) << text;
    EXPECT_TRUE(contains(text, "ranks 0, 1, 2 are in allReduce #2 float32[32] SUM (one-shot)")) << text;
  });
  // The late rank learns of it from its own memory.
  Buffer buffer(64);
  EXPECT_EQ(nvrar_async_error(group.comm(3)), NVRAR_TIMEOUT);
  EXPECT_EQ(buffer.all_reduce(group.comm(3), 32), NVRAR_TIMEOUT);
  EXPECT_TRUE(contains(nvrar_last_error(), "without rank 3, which ended the group")) << nvrar_last_error();
}

TEST(Invariant14_WaitsEnd, ATimeOutOfTheOneThatGaveUpSaysAfterHowLong) {
  ThreadGroup group(2, {.timeout_ns = kShortNs});
  Buffer buffer(8);
  ASSERT_EQ(buffer.all_reduce(group.comm(0), 8), NVRAR_TIMEOUT);
  const std::string text = nvrar_last_error();
  EXPECT_EQ(text.rfind("allReduce #1 float32[8] SUM (one-shot) timed out after ", 0), 0u) << text;
  EXPECT_TRUE(contains(
      text, " s without rank 1: rank 0 is in allReduce #1 float32[8] SUM (one-shot), rank 1 has entered no call"))
      << text;
  nvrar_call call{};
  call.size = sizeof call;
  ASSERT_EQ(nvrar_call_of(group.comm(1), 0, &call), NVRAR_OK);
  EXPECT_EQ(call.state, NVRAR_CALL_FAILED);
  EXPECT_EQ(call.sequence, 1u);
  EXPECT_EQ(call.count, 8u);
}

// Whatever the ranks wait for (headers, contributions, sums of other nodes, results), it is the absent one they name.
TEST(Invariant14_WaitsEnd, ATimeOutNamesTheAbsentRankInEveryAlgorithmAndCollective) {
  constexpr int kAbsent = 4;
  const auto call = [](nvrar_comm* comm, Buffer& b, int way) {
    switch (way) {
      case 4:
        return nvrar_reduce(comm, b.send(), b.recv(), 3000, NVRAR_FLOAT32, NVRAR_SUM, 0, 0);
      case 5:
        return nvrar_reduce_scatter(comm, b.send(), b.recv(), 600, NVRAR_FLOAT32, NVRAR_SUM, 0);
      case 6:
        return nvrar_all_to_all(comm, b.send(), b.recv(), 600, NVRAR_FLOAT32, 0);
      default:
        return b.all_reduce(comm, 3000, NVRAR_SUM, way);
    }
  };
  for (int way = NVRAR_ALGORITHM_ONE_SHOT; way <= 6; ++way) {
    ThreadGroup group(5, {.timeout_ns = kShortNs, .ranks_per_node = 3});
    group.run([&](int rank, nvrar_comm* comm) {
      if (rank == kAbsent) return;
      Buffer buffer(3000);
      EXPECT_EQ(call(comm, buffer, way), NVRAR_TIMEOUT) << way;
      EXPECT_TRUE(contains(nvrar_last_error(), "without rank 4")) << nvrar_last_error();
      EXPECT_EQ(failure_of(comm).missing[0], 1u << kAbsent) << way;
      for (float value : buffer.out) ASSERT_EQ(value, 0.0f) << "no output of a failed call";
    });
  }
}

// Headers of other nodes come from one rank there, and not at all if a rank of the node is absent. A call of no
// elements has a number, but sends no header.
TEST(Invariant14_WaitsEnd, ATimeOutOfAHierarchicalAllReduceNamesAllWhoAreAbsentOnEveryHost) {
  for (const bool linked : {false, true}) {
    for (const uint32_t absent : {0b00001u, 0b00100u, 0b10000u, 0b00110u, 0b11000u, 0b10100u}) {
      for (const bool has_empty_call : {false, true}) {
        ThreadGroup group(5, {.timeout_ns = kShortNs, .ranks_per_node = 3, .linked = linked});
        group.run([&](int rank, nvrar_comm* comm) {
          const bool is_absent = (absent >> rank & 1) != 0;
          if (is_absent && !has_empty_call) return;
          Buffer buffer(3000);
          const nvrar_status status =
              buffer.all_reduce(comm, is_absent ? 0 : 3000, NVRAR_SUM, NVRAR_ALGORITHM_HIERARCHICAL);
          EXPECT_EQ(status, is_absent ? NVRAR_OK : NVRAR_TIMEOUT);
          if (is_absent) return;
          EXPECT_EQ(failure_of(comm).missing[0], absent) << nvrar_last_error();
        });
      }
    }
  }
}

TEST(Invariant14_WaitsEnd, ATimeOutIsCountedPerCallAndNotFromTheLastOne) {
  ThreadGroup group(2, {.timeout_ns = 600 * kMs});
  group.run([&](int rank, nvrar_comm* comm) {
    Buffer buffer(8);
    for (int i = 0; i < 4; ++i) {
      if (rank == 1) ::usleep(200'000);
      ASSERT_EQ(buffer.all_reduce(comm, 8), NVRAR_OK) << nvrar_last_error();
    }
  });
}

// A rank that is not woken looks every 100 ms, and so 50 ms after kAsleepUs. Once, a busy machine may take as long to
// wake it.
constexpr useconds_t kAsleepUs = 250'000;
template <class Measure>
double median_seconds(Measure measure) {
  std::vector<double> seconds(5);
  for (double& one : seconds) one = measure();
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}
constexpr double kAtOnceSeconds = 0.03;

double seconds_from_an_abort_to_the_end_of_sleeping_calls() {
  ThreadGroup group(4);
  double aborted_at = 0;
  std::atomic<double> last_left{0};
  std::thread other([&] {
    ::usleep(kAsleepUs);
    aborted_at = seconds_now();
    EXPECT_EQ(nvrar_abort(group.comm(1)), NVRAR_OK);
  });
  group.run([&](int rank, nvrar_comm* comm) {
    if (rank == 3) return;  // never comes, so the others wait, by now asleep
    Buffer buffer(8);
    EXPECT_EQ(buffer.all_reduce(comm, 8), NVRAR_ABORTED);
    last_left = std::max(last_left.load(), seconds_now());
    const std::string text = nvrar_last_error();
    EXPECT_TRUE(contains(text, rank == 1 ? "aborted by this rank (rank 1)" : "rank 1 aborted the group")) << text;
    EXPECT_TRUE(contains(text, "during allReduce #1 float32[8] SUM (one-shot)")) << text;
    EXPECT_EQ(buffer.all_reduce(comm, 8), NVRAR_ABORTED);
  });
  other.join();
  EXPECT_EQ(nvrar_async_error(group.comm(3)), NVRAR_ABORTED);
  return last_left - aborted_at;
}

TEST(Invariant14_WaitsEnd, AnAbortEndsASleepingCallOnEveryRankAtOnce) {
  EXPECT_LT(median_seconds(seconds_from_an_abort_to_the_end_of_sleeping_calls), kAtOnceSeconds);
}

TEST(Invariant14_WaitsEnd, AnAbortEndsALongCallInWhichNobodyWaitsForLong) {
  constexpr uint64_t kCount = uint64_t{1} << 28;  // never touched but for the part that is summed until the abort
  ThreadGroup group(2);
  std::atomic<int> begun{0};
  double aborted_at = 0;
  std::atomic<double> last_left{0};
  std::thread other([&] {
    while (begun != 2) ::usleep(100);
    ::usleep(10'000);
    aborted_at = seconds_now();
    EXPECT_EQ(nvrar_abort(group.comm(1)), NVRAR_OK);
  });
  group.run([&](int, nvrar_comm* comm) {
    const std::unique_ptr<void, decltype(&std::free)> zeros(std::calloc(kCount, sizeof(float)), &std::free);
    ASSERT_NE(zeros, nullptr);
    const auto address = reinterpret_cast<uint64_t>(zeros.get());
    ++begun;
    EXPECT_EQ(nvrar_all_reduce(comm, address, address, kCount, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0),
              NVRAR_ABORTED);
    last_left = std::max(last_left.load(), seconds_now());
  });
  other.join();
  EXPECT_LT(last_left - aborted_at, 0.5) << "the whole call takes longer";
}

TEST(Usage, CallsBeforeConnectAreRefused) {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  const nvrar_config config = make_config(0, 2, {});
  nvrar_comm* comm = nullptr;
  ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptor, &comm), NVRAR_OK);
  EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_INVALID_USAGE);
  nvrar_call call{};
  call.size = sizeof call;
  EXPECT_EQ(nvrar_call_of(comm, 1, &call), NVRAR_INVALID_USAGE);
  EXPECT_EQ(nvrar_call_of(comm, 0, &call), NVRAR_OK);
  EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
}

double seconds_to_destroy_a_rank_that_sleeps_in_a_call() {
  ThreadGroup group(2);
  nvrar_comm* comm = group.release(0);
  std::thread running([&] {
    Buffer buffer(8);
    EXPECT_EQ(buffer.all_reduce(comm, 8), NVRAR_ABORTED);
  });
  ::usleep(kAsleepUs);
  const double begin = seconds_now();
  EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  const double took = seconds_now() - begin;
  running.join();
  Buffer buffer(8);
  EXPECT_EQ(buffer.all_reduce(group.comm(1), 8), NVRAR_ABORTED) << "its peer ended the group";
  return took;
}

TEST(Destroy, EndsARunningCallAndReturns) {
  EXPECT_LT(median_seconds(seconds_to_destroy_a_rank_that_sleeps_in_a_call), kAtOnceSeconds);
}

TEST(Destroy, OfAnIdleRankDoesNotDisturbItsPeers) {
  ThreadGroup group(2, {.timeout_ns = kShortNs});
  group.run([](int, nvrar_comm* comm) { EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_OK); });
  EXPECT_EQ(nvrar_destroy(group.release(0)), NVRAR_OK);
  EXPECT_EQ(nvrar_async_error(group.comm(1)), NVRAR_OK);
  EXPECT_EQ(nvrar_barrier(group.comm(1), 0), NVRAR_TIMEOUT);
  EXPECT_TRUE(contains(nvrar_last_error(), "rank 0 has left the group")) << nvrar_last_error();
}

TEST(Destroy, LeavesNoDescriptorAndNoMappingBehind) {
  const auto mappings = [] {
    std::string text;
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (std::fgets(line, sizeof line, maps) != nullptr) count += std::strstr(line, "memfd:nvrar") != nullptr;
    std::fclose(maps);
    return count;
  };
  { ThreadGroup warm_up(2); }
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    ThreadGroup group(4, {.ring_bytes = kSmallRingBytes});
    group.run([](int, nvrar_comm* comm) { EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_OK); });
    EXPECT_EQ(mappings(), 16);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings(), 0);
  EXPECT_EQ(nvrar_destroy(nullptr), NVRAR_OK);
}

}  // namespace
}  // namespace nvrar::test
