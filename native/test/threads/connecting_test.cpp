// Tests of nvrar_prepare and nvrar_connect: refused arguments, differences between members, and call arguments that are
// never valid.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "support/abi.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

// One prepared member, whose descriptor a test can damage.
class Connecting : public ::testing::Test {
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

using Invariant12_ThePlanIsPure = Connecting;

TEST_F(Invariant12_ThePlanIsPure, AnotherTuningTableIsAMismatch) {
  prepare(0, make_config(0, 2, {}));
  const nvrar_config config = make_config(1, 2, {});
  const nvrar_tuning_rule rule = rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 4096);
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
  // A pid that also exists in this namespace, as it would in another container, where the descriptor is a different
  // file.
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

// Three ranks, of which 0 and 1 share memory. Each connects, in a thread, and then calls; `before` is called first, and
// the thread that it returns, if any, ends before the communicators. Returns how many seconds it took until all had
// failed, as the group was aborted by rank 1.
template <class Before>
double seconds_until_aborted(const std::vector<int>& connecting, Before before) {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  uint8_t descriptors[3 * NVRAR_DESCRIPTOR_BYTES];
  nvrar_comm* comms[3] = {};
  EXPECT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  for (int rank = 0; rank < 3; ++rank) {
    const nvrar_config config = make_config(rank, 3, {.ranks_per_node = 2, .linked = true});
    EXPECT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comms[rank]),
              NVRAR_OK)
        << nvrar_last_error();
  }
  const double begin = seconds_now();
  std::vector<std::thread> ranks;
  for (const int rank : connecting) {
    ranks.emplace_back([&, rank] {
      const std::jthread beside = before(rank, comms[rank]);
      nvrar_status status = nvrar_connect(comms[rank], descriptors);
      if (status == NVRAR_OK) status = nvrar_barrier(comms[rank], 0);
      EXPECT_EQ(status, NVRAR_ABORTED) << rank << ": " << nvrar_last_error();
      const std::string sentence = nvrar_last_error();
      EXPECT_TRUE(contains(sentence, rank == 1 ? "aborted by this rank" : "rank 1 aborted the group")) << sentence;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const double seconds = seconds_now() - begin;
  for (nvrar_comm* comm : comms) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  return seconds;
}

TEST(ConnectingByLinks, AbortBeforeConnectIsNotForgotten) {
  const double seconds = seconds_until_aborted({0, 1, 2}, [](int rank, nvrar_comm* comm) {
    if (rank == 1) {
      ::usleep(300'000);
      EXPECT_EQ(nvrar_abort(comm), NVRAR_OK);
    }
    return std::jthread();
  });
  EXPECT_LT(seconds, 3);
}

TEST(ConnectingByLinks, AbortWhileARankIsMissingReachesThoseThatAreLinked) {
  // Rank 0 does not come, so rank 2 is linked to rank 1 and waits.
  const double seconds = seconds_until_aborted({1, 2}, [](int rank, nvrar_comm* comm) {
    if (rank != 1) return std::jthread();
    return std::jthread([comm] {
      ::usleep(500'000);
      EXPECT_EQ(nvrar_abort(comm), NVRAR_OK);
    });
  });
  EXPECT_LT(seconds, 4);
}

TEST(Invariant14_WaitsEnd, AnAbortThatMeetsAConnectReachesThePeer) {
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
      // The moment of the abort is varied over the duration of a connect.
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

// Functions that may be called at any time read the peers' segments from the first attempt on.
TEST_F(Connecting, ConnectingAgainAfterALinkThatDidNotComeAboutIsRefused) {
  for (int rank = 0; rank < 2; ++rank) {
    nvrar_config config = make_config(rank, 2, {.ranks_per_node = 1, .linked = true});
    config.join_timeout_ns = 5 * kMs;
    prepare(rank, config);
  }
  std::atomic<bool> ends{false};
  std::thread other([&] {
    nvrar_call call{};
    while (!ends) {
      call.size = sizeof call;
      (void)nvrar_call_of(comms_[0], 1, &call);
    }
  });
  EXPECT_NE(nvrar_connect(comms_[0], descriptors_), NVRAR_OK);
  for (int i = 0; i < 100; ++i) {
    expect_connect(
        NVRAR_INVALID_USAGE,
        "nvrar_connect has failed on this communicator: destroy it, and prepare another for another attempt");
  }
  ends = true;
  other.join();
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
  EXPECT_TRUE(refused([](nvrar_config& c) { c.memory = 4; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.memory = -1; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.concurrent_groups = 65; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.shared_devices = 2; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.exclusive = 2; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.programmatic_launch = 2; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.reserved = 1; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ranks_per_node = -1; }));
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ring_bytes = 4096; })) << "too small";
  EXPECT_TRUE(refused([](nvrar_config& c) { c.ring_bytes = 8200; })) << "no whole pages";
  EXPECT_TRUE(refused([](nvrar_config& c) {
    c.ring_bytes = 28672;
    c.ranks_per_node = 1;
  })) << "too small for partial sums";
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

// As a caller with a newer header has them: 8 bytes more at the end of each.
template <class Struct>
struct Newer {
  Struct known{};
  uint64_t unknown = 0;
  explicit Newer(const Struct& given = {}) : known(given) { known.size = sizeof *this; }
  Struct* get() { return reinterpret_cast<Struct*>(this); }
};

TEST(Structs, OfANewerCallerAreTakenUnlessTheySayWhatIsNotKnownHere) {
  Newer<nvrar_config> config(make_config(0, 1, {}));
  EXPECT_EQ(try_prepare(config.get()), NVRAR_OK) << nvrar_last_error();
  config.unknown = 1;
  uint8_t id[NVRAR_UNIQUE_ID_BYTES] = {};
  uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
  nvrar_comm* comm = nullptr;
  EXPECT_EQ(nvrar_prepare(config.get(), nullptr, 0, id, descriptor, &comm), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(),
               "config sets a field that this library does not know: it has 192 bytes, this library's struct 184");
  ThreadGroup group(1);
  Newer<nvrar_transfer> transfers[2];
  int32_t from[2] = {7, 8}, to[2] = {};
  const auto at = [](int32_t* values) { return reinterpret_cast<uint64_t>(values); };
  transfers[0] = Newer<nvrar_transfer>(send_to(0, at(from), 2, NVRAR_INT32));
  transfers[1] = Newer<nvrar_transfer>(recv_from(0, at(to), 2, NVRAR_INT32));
  EXPECT_EQ(nvrar_batch(group.comm(0), transfers[0].get(), 2, 0), NVRAR_OK) << nvrar_last_error();
  EXPECT_EQ(to[1], 8);
  transfers[1].unknown = 1;
  EXPECT_EQ(nvrar_batch(group.comm(0), transfers[0].get(), 2, 0), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(),
               "transfers[1] sets a field that this library does not know: it has 40 bytes, this library's struct 32");
  transfers[1].known.size = sizeof(nvrar_transfer);
  EXPECT_EQ(nvrar_batch(group.comm(0), transfers[0].get(), 2, 0), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(), "transfers[1].size is 32, that of the first is 40");
}

// Too many rules are refused by their number: behind the last that a table may have there may be nothing.
TEST(Structs, OfATableThatIsTooLongAreNotRead) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t of_rules = NVRAR_MAX_TUNING_RULES * sizeof(nvrar_tuning_rule);
  const size_t bytes = (of_rules + page - 1) / page * page;
  void* const memory = ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<uint8_t*>(memory) + bytes, page, PROT_NONE), 0);
  auto* const rules = reinterpret_cast<nvrar_tuning_rule*>(static_cast<uint8_t*>(memory) + bytes - of_rules);
  for (int i = 0; i < NVRAR_MAX_TUNING_RULES; ++i) rules[i] = rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 4096);
  const nvrar_config config = make_config(0, 1, {});
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
  nvrar_comm* comm = nullptr;
  EXPECT_EQ(nvrar_prepare(&config, rules, ~0u, id, descriptor, &comm), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(), "a tuning table of 4294967295 rules is longer than 128");
  EXPECT_EQ(nvrar_prepare(&config, rules, NVRAR_MAX_TUNING_RULES, id, descriptor, &comm), NVRAR_OK);
  EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  ::munmap(memory, bytes + page);
}

TEST(Structs, ThatANewerCallerLeavesToTheLibrarySayHowMuchOfThemIsFilled) {
  ThreadGroup group(1);
  float value = 1;
  const auto address = reinterpret_cast<uint64_t>(&value);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(nvrar_all_reduce(group.comm(0), address, address, 1, NVRAR_FLOAT32, NVRAR_SUM, 0, 0), NVRAR_OK);
  }
  Newer<nvrar_call> call;
  ASSERT_EQ(nvrar_call_of(group.comm(0), 0, call.get()), NVRAR_OK) << nvrar_last_error();
  EXPECT_EQ(call.known.size, sizeof(nvrar_call));
  EXPECT_EQ(call.known.sequence, 3u);
  Newer<nvrar_call> calls[4];
  uint32_t count = 0;
  ASSERT_EQ(nvrar_flight_record(group.comm(0), 0, calls[0].get(), 4, &count), NVRAR_OK) << nvrar_last_error();
  ASSERT_EQ(count, 3u);
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(calls[i].known.size, sizeof(nvrar_call));
    EXPECT_EQ(calls[i].known.sequence, i + 1);
    EXPECT_EQ(calls[i].unknown, 0u);
  }
  calls[0].known.size = 0;
  EXPECT_EQ(nvrar_flight_record(group.comm(0), 0, calls[0].get(), 4, &count), NVRAR_INVALID_ARGUMENT);
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
  float data[8] = {};
  const auto address = reinterpret_cast<uint64_t>(data);
  const auto all_reduce = [&](int32_t op, int32_t algorithm) {
    return nvrar_all_reduce(group.comm(0), address, address, 8, NVRAR_FLOAT32, op, algorithm, 0);
  };
  EXPECT_EQ(all_reduce(77, NVRAR_ALGORITHM_AUTO), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(all_reduce(NVRAR_SUM, 4), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(), "there is no algorithm 4");
  EXPECT_EQ(all_reduce(NVRAR_SUM, NVRAR_ALGORITHM_HIERARCHICAL), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(),
               "the hierarchical algorithm needs more than one node, and this group's 1 rank is in one");
  EXPECT_EQ(all_reduce(NVRAR_SUM, NVRAR_ALGORITHM_TWO_SHOT), NVRAR_OK) << nvrar_last_error();
  EXPECT_EQ(all_reduce(NVRAR_SUM, NVRAR_ALGORITHM_AUTO), NVRAR_OK) << "a refused call leaves the group as it was";
}

// A limit on the file size simulates a full tmpfs or quota.
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
