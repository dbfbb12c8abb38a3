// What happens when ranks disagree, do not come, are aborted or misused: with ranks as threads of one process.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "call.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using ::testing::Test;

constexpr uint64_t kShortNs = 200 * kMs;

struct Buffer {
  explicit Buffer(uint64_t count) : in(count, 1.0f), out(count) {}
  nvrar_status all_reduce(nvrar_comm* comm, uint64_t count, int32_t op = NVRAR_SUM) {
    return nvrar_all_reduce(comm, reinterpret_cast<uint64_t>(in.data()), reinterpret_cast<uint64_t>(out.data()), count,
                            NVRAR_FLOAT32, op, NVRAR_ALGORITHM_AUTO, 0);
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

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(Mismatch, DifferentCountsFailOnAllRanksAndNameWhoDiffers) {
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
TEST(Mismatch, ACountOfZeroOnOneRankIsCaughtByTheNextCall) {
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

TEST(Timeout, NamesACountOfZeroThatWasTheLastCall) {
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

TEST(Mismatch, EveryKindOfDifferenceIsCaught) {
  using Pair = std::pair<std::string, std::function<nvrar_status(nvrar_comm*, Buffer&, bool odd)>>;
  const Pair kinds[] = {
      {"op", [](nvrar_comm* c, Buffer& b, bool odd) { return b.all_reduce(c, 100, odd ? NVRAR_MAX : NVRAR_SUM); }},
      {"launches", [](nvrar_comm* c, Buffer& b, bool odd) { return b.all_reduce(c, odd ? 100000 : 1); }},
      {"collective", [](nvrar_comm* c, Buffer& b, bool odd) { return odd ? nvrar_barrier(c, 0) : b.all_reduce(c, 9); }},
      {"type",
       [](nvrar_comm* c, Buffer& b, bool odd) {
         return nvrar_all_reduce(c, reinterpret_cast<uint64_t>(b.in.data()), reinterpret_cast<uint64_t>(b.out.data()),
                                 100, odd ? NVRAR_INT32 : NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0);
       }},
      {"root",
       [](nvrar_comm* c, Buffer& b, bool odd) {
         return nvrar_broadcast(c, reinterpret_cast<uint64_t>(b.in.data()), reinterpret_cast<uint64_t>(b.out.data()),
                                100, NVRAR_FLOAT32, odd ? 1 : 0, 0);
       }},
  };
  for (const auto& [name, call] : kinds) {
    ThreadGroup group(3, {.ring_bytes = kSmallRingBytes});
    group.run([&, &body = call, &kind = name](int rank, nvrar_comm* comm) {
      Buffer buffer(100000);
      EXPECT_EQ(body(comm, buffer, rank == 1), NVRAR_MISMATCH) << kind << " on rank " << rank;
      EXPECT_TRUE(contains(nvrar_last_error(), "rank 1 is in ")) << nvrar_last_error();
    });
  }
}

TEST(Timeout, NamesWhoIsMissingInWhichCallAfterHowLong) {
  ThreadGroup group(4, {.timeout_ns = kShortNs});
  group.run([&](int rank, nvrar_comm* comm) {
    Buffer buffer(64);
    ASSERT_EQ(buffer.all_reduce(comm, 64), NVRAR_OK);
    if (rank == 3) return;
    const double begin = seconds_now();
    ASSERT_EQ(buffer.all_reduce(comm, 32), NVRAR_TIMEOUT);
    const double took = seconds_now() - begin;
    EXPECT_GT(took, 0.19);
    EXPECT_LT(took, 1.0);
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

TEST(Timeout, OfTheOneThatGaveUpSaysAfterHowLong) {
  ThreadGroup group(2, {.timeout_ns = kShortNs});
  Buffer buffer(8);
  ASSERT_EQ(buffer.all_reduce(group.comm(0), 8), NVRAR_TIMEOUT);
  const std::string text = nvrar_last_error();
  EXPECT_EQ(text.rfind("allReduce #1 float32[8] SUM (one-shot) timed out after 0.", 0), 0u) << text;
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

TEST(Timeout, IsCountedPerCallAndNotFromTheLastOne) {
  ThreadGroup group(2, {.timeout_ns = kShortNs});
  group.run([&](int rank, nvrar_comm* comm) {
    Buffer buffer(8);
    for (int i = 0; i < 4; ++i) {
      if (rank == 1) ::usleep(100'000);
      ASSERT_EQ(buffer.all_reduce(comm, 8), NVRAR_OK) << nvrar_last_error();
    }
  });
}

TEST(Abort, EndsASleepingCallOnEveryRankAtOnce) {
  ThreadGroup group(4);
  double aborted_at = 0;
  std::atomic<double> last_left{0};
  std::thread other([&] {
    ::usleep(300'000);
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
  EXPECT_LT(last_left - aborted_at, 0.05);
  EXPECT_EQ(nvrar_async_error(group.comm(3)), NVRAR_ABORTED);
}

TEST(Usage, ASecondThreadIsRefusedAndTheRunningCallGoesOn) {
  ThreadGroup group(2);
  Buffer buffer(8);
  std::thread first([&] { EXPECT_EQ(buffer.all_reduce(group.comm(0), 8), NVRAR_OK) << nvrar_last_error(); });
  ::usleep(100'000);
  Buffer second(8);
  EXPECT_EQ(second.all_reduce(group.comm(0), 8), NVRAR_INVALID_USAGE);
  EXPECT_TRUE(contains(nvrar_last_error(), "another call of this communicator is running"));
  EXPECT_EQ(nvrar_async_error(group.comm(0)), NVRAR_OK);
  EXPECT_EQ(second.all_reduce(group.comm(1), 8), NVRAR_OK) << nvrar_last_error();
  first.join();
  EXPECT_EQ(buffer.out[7], 2.0f);
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

TEST(Destroy, EndsARunningCallAndReturns) {
  ThreadGroup group(2);
  nvrar_comm* comm = group.release(0);
  std::thread running([&] {
    Buffer buffer(8);
    EXPECT_EQ(buffer.all_reduce(comm, 8), NVRAR_ABORTED);
  });
  ::usleep(300'000);
  const double begin = seconds_now();
  EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  EXPECT_LT(seconds_now() - begin, 0.05);
  running.join();
  Buffer buffer(8);
  EXPECT_EQ(buffer.all_reduce(group.comm(1), 8), NVRAR_ABORTED) << "its peer ended the group";
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

// One member's preparation, so that its descriptor can be spoiled.
class Connecting : public Test {
 protected:
  void SetUp() override { ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id_), NVRAR_OK); }
  void TearDown() override {
    for (nvrar_comm* comm : comms_) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  }
  void prepare(int rank, const nvrar_config& config) {
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id_, descriptor(rank), &comms_[rank]), NVRAR_OK) << nvrar_last_error();
  }
  uint8_t* descriptor(int rank) { return descriptors_ + rank * NVRAR_DESCRIPTOR_BYTES; }
  void expect_connect(nvrar_status status, const std::string& part) {
    EXPECT_EQ(nvrar_connect(comms_[0], descriptors_), status);
    EXPECT_TRUE(contains(nvrar_last_error(), part)) << nvrar_last_error();
  }
  uint8_t id_[NVRAR_UNIQUE_ID_BYTES];
  uint8_t descriptors_[2 * NVRAR_DESCRIPTOR_BYTES] = {};
  nvrar_comm* comms_[2] = {};
};

TEST_F(Connecting, AnotherUniqueIdIsAMismatch) {
  prepare(0, make_config(0, 2, {}));
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id_), NVRAR_OK);
  prepare(1, make_config(1, 2, {}));
  expect_connect(NVRAR_MISMATCH, "rank 1 was prepared with another unique id");
}

TEST_F(Connecting, AnotherRingSizeIsAMismatch) {
  prepare(0, make_config(0, 2, {}));
  prepare(1, make_config(1, 2, {.ring_bytes = kSmallRingBytes}));
  expect_connect(NVRAR_MISMATCH, "rank 1 has ring_bytes 8192, this rank (0) has 1048576");
}

TEST_F(Connecting, AnotherWorldSizeIsAMismatch) {
  prepare(0, make_config(0, 2, {}));
  prepare(1, make_config(1, 3, {}));
  expect_connect(NVRAR_MISMATCH, "rank 1 has world size 3, this rank (0) has 2");
}

TEST_F(Connecting, AnotherTopologyIsAMismatch) {
  nvrar_config config = make_config(0, 2, {});
  prepare(0, config);
  config = make_config(1, 2, {});
  config.ranks_per_node = 1;
  prepare(1, config);
  expect_connect(NVRAR_MISMATCH, "rank 1 has ranks_per_node 1, this rank (0) has 2");
}

TEST_F(Connecting, AnotherTuningTableIsAMismatch) {
  prepare(0, make_config(0, 2, {}));
  const nvrar_config config = make_config(1, 2, {});
  const nvrar_tuning_rule rule{-1, 0, 0, NVRAR_ALGORITHM_ONE_SHOT, 4096};
  ASSERT_EQ(nvrar_prepare(&config, &rule, 1, id_, descriptor(1), &comms_[1]), NVRAR_OK) << nvrar_last_error();
  expect_connect(NVRAR_MISMATCH, "rank 1 was prepared with another tuning table than this rank (0)");
}

TEST_F(Connecting, DescriptorsOutOfOrderAreRefused) {
  prepare(0, make_config(0, 2, {}));
  prepare(1, make_config(0, 2, {}));
  expect_connect(NVRAR_INVALID_ARGUMENT, "descriptors come in rank order");
  std::memset(descriptor(1), 0, NVRAR_DESCRIPTOR_BYTES);
  expect_connect(NVRAR_INVALID_ARGUMENT, "descriptor 1");
}

// pid and fd of a segment follow the two words, four ints and 2 * 8 bytes before them.
constexpr size_t kPidAt = 40;

TEST_F(Connecting, ARankOfAnotherHostIsNamed) {
  prepare(0, make_config(0, 2, {}));
  prepare(1, make_config(1, 2, {}));
  int32_t pid = 0;
  std::memcpy(&pid, descriptor(1) + kPidAt, sizeof pid);
  ASSERT_EQ(pid, ::getpid());
  const int32_t nobody = 0x3FFFFFFF;
  std::memcpy(descriptor(1) + kPidAt, &nobody, sizeof nobody);
  expect_connect(NVRAR_SYSTEM, "rank 1 (pid 1073741823) is not on this host or not visible");
  // A pid that exists here too, as it would in another container: its descriptor is something else.
  const int32_t standard_input = 0;
  std::memcpy(descriptor(1) + kPidAt, &pid, sizeof pid);
  std::memcpy(descriptor(1) + kPidAt + 4, &standard_input, sizeof standard_input);
  expect_connect(NVRAR_SYSTEM, "is not on this host or not visible");
  // Rank 0's own segment is one of the group's, but not rank 1's.
  std::memcpy(descriptor(1) + kPidAt, descriptor(0) + kPidAt, 8);
  expect_connect(NVRAR_SYSTEM, "belongs to another group");
}

TEST_F(Connecting, AbortBeforeConnectIsNotForgotten) {
  prepare(0, make_config(0, 2, {}));
  prepare(1, make_config(1, 2, {}));
  EXPECT_EQ(nvrar_abort(comms_[0]), NVRAR_OK);
  expect_connect(NVRAR_ABORTED, "aborted by this rank");
  EXPECT_EQ(nvrar_async_error(comms_[1]), NVRAR_ABORTED) << "the peer learns of it as soon as it can be reached";
}

TEST(Abort, ThatMeetsAConnectReachesThePeer) {
  for (uint64_t round = 0; round < repetitions(2000); ++round) {
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    uint8_t descriptors[2 * NVRAR_DESCRIPTOR_BYTES];
    nvrar_comm* comms[2] = {};
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
    for (int rank = 0; rank < 2; ++rank) {
      const nvrar_config config = make_config(rank, 2, {.ring_bytes = kSmallRingBytes});
      ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comms[rank]),
                NVRAR_OK);
    }
    std::atomic<bool> go{false};
    std::thread other([&] {
      while (!go) {
      }
      // The moment walks over the time that a connect takes.
      const double at = seconds_now() + static_cast<double>(round % 200) * 0.5e-6;
      while (seconds_now() < at) {
      }
      EXPECT_EQ(nvrar_abort(comms[0]), NVRAR_OK);
    });
    go = true;
    const nvrar_status status = nvrar_connect(comms[0], descriptors);
    other.join();
    EXPECT_TRUE(status == NVRAR_OK || status == NVRAR_ABORTED) << text_of(status);
    ASSERT_EQ(nvrar_async_error(comms[1]), NVRAR_ABORTED) << "the abort of round " << round << " was lost";
    for (nvrar_comm* comm : comms) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  }
}

TEST_F(Connecting, ConnectingTwiceIsRefused) {
  prepare(0, make_config(0, 2, {}));
  prepare(1, make_config(1, 2, {}));
  ASSERT_EQ(nvrar_connect(comms_[0], descriptors_), NVRAR_OK);
  expect_connect(NVRAR_INVALID_USAGE, "was called before");
}

// The same sources under another build id, loaded beside the first: two actors with different jars.
TEST_F(Connecting, AnotherBuildIsAMismatch) {
  void* library = ::dlopen(NVRAR_OTHER_BUILD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto other_prepare = reinterpret_cast<decltype(&nvrar_prepare)>(::dlsym(library, "nvrar_prepare"));
  const auto other_destroy = reinterpret_cast<decltype(&nvrar_destroy)>(::dlsym(library, "nvrar_destroy"));
  prepare(0, make_config(0, 2, {}));
  const nvrar_config config = make_config(1, 2, {});
  nvrar_comm* other = nullptr;
  ASSERT_EQ(other_prepare(&config, nullptr, 0, id_, descriptor(1), &other), NVRAR_OK);
  expect_connect(NVRAR_MISMATCH, "rank 1 has library build other, this rank (0) has ");
  EXPECT_EQ(other_destroy(other), NVRAR_OK);
}

TEST(OtherAbi, ReportsAnotherVersion) {
  void* library = ::dlopen(NVRAR_OTHER_ABI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto version = reinterpret_cast<decltype(&nvrar_abi_version)>(::dlsym(library, "nvrar_abi_version"));
  EXPECT_NE(version(), nvrar_abi_version());
  EXPECT_EQ(nvrar_abi_version(), static_cast<uint32_t>(NVRAR_ABI_VERSION));
}

nvrar_status try_prepare(const nvrar_config* config) {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
  EXPECT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  nvrar_comm* comm = nullptr;
  const nvrar_status status = nvrar_prepare(config, nullptr, 0, id, descriptor, &comm);
  EXPECT_EQ(comm == nullptr, status != NVRAR_OK);
  EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  return status;
}

TEST(Prepare, RefusesWhatNoGroupCanBe) {
  const nvrar_config good = make_config(0, 2, {});
  EXPECT_EQ(try_prepare(&good), NVRAR_OK);
  const auto refused = [&](auto change) {
    nvrar_config config = good;
    change(config);
    return try_prepare(&config) == NVRAR_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([](nvrar_config& c) { c.world_size = 9; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.world_size = 0; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.rank = 2; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.rank = -1; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.size = 4; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.timeout_ns = 0; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.backend = 3; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ranks_per_node = -1; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ring_bytes = 4096; })) << "too small";
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ring_bytes = 8200; })) << "no whole pages";
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ring_bytes = uint64_t{1} << 40; })) << "too large";
  EXPECT_EQ(try_prepare(nullptr), NVRAR_INVALID_ARGUMENT);
  nvrar_config cuda = good;
  cuda.backend = NVRAR_BACKEND_CUDA;
  EXPECT_EQ(try_prepare(&cuda), NVRAR_UNAVAILABLE);

  uint8_t not_an_id[NVRAR_UNIQUE_ID_BYTES] = {};
  uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
  nvrar_comm* comm = nullptr;
  EXPECT_EQ(nvrar_prepare(&good, nullptr, 0, not_an_id, descriptor, &comm), NVRAR_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(nvrar_last_error(), "unique_id")) << nvrar_last_error();
}

TEST(Arguments, NullsAndForeignStructsAreRefused) {
  EXPECT_EQ(nvrar_barrier(nullptr, 0), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_abort(nullptr), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_async_error(nullptr), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, nullptr), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_probe(NVRAR_BACKEND_CPU), NVRAR_OK);
  EXPECT_STREQ(nvrar_last_error(), "");
  EXPECT_EQ(nvrar_probe(NVRAR_BACKEND_CUDA), NVRAR_UNAVAILABLE);
  EXPECT_STRNE(nvrar_last_error(), "");
  ThreadGroup group(1);
  nvrar_failure failure{};
  EXPECT_EQ(nvrar_failure_of(group.comm(0), &failure), NVRAR_INVALID_ARGUMENT) << "size not set";
  nvrar_call call{};
  call.size = sizeof call;
  EXPECT_EQ(nvrar_call_of(group.comm(0), 1, &call), NVRAR_INVALID_ARGUMENT);
  Buffer buffer(8);
  EXPECT_EQ(buffer.all_reduce(group.comm(0), 8, 77), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(buffer.all_reduce(group.comm(0), 8), NVRAR_OK) << "a refused call leaves the group as it was";
}

// A limit on the size of files stands for a tmpfs or a quota that is full.
TEST(Prepare, NoRoomForASegmentIsOneSentence) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const size_t before = open_descriptors();
    const nvrar_config config = make_config(0, 2, {});
    const bool good = try_prepare(&config) == NVRAR_SYSTEM && open_descriptors() == before;
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
    nvrar_comm* comm = nullptr;
    nvrar_unique_id(NVRAR_BACKEND_CPU, id);
    nvrar_prepare(&config, nullptr, 0, id, descriptor, &comm);
    ::_exit(good && contains(nvrar_last_error(), "there is no room for a shared memory segment of ") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace nvrar::test
