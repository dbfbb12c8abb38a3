// Argument checks, memory room, messages and the flight record.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "api/report.h"
#include "call/call.h"
#include "common/abi_struct.h"
#include "common/cgroup.h"
#include "common/error.h"
#include "cpu/waiter.h"
#include "shared/flight_record.h"
#include "shared/memory_room.h"
#include "support/pool.h"

namespace nvrar {
namespace test {
// A struct whose first version had no `fresh`.
struct Grown {
  uint32_t size;
  uint32_t old;
  uint64_t fresh;
};
}  // namespace test
template <>
inline constexpr uint32_t kFirstBytes<test::Grown> = 8;
}  // namespace nvrar

namespace nvrar::test {
namespace {

TEST(Structs, OfAnOlderCallerLackWhatCameLater) {
  const uint32_t older[2][2] = {{8, 5}, {8, 6}};
  const Grown taken = take_struct<Grown>(older[0], "one");
  EXPECT_EQ(taken.size, sizeof(Grown));
  EXPECT_EQ(taken.old, 5u);
  EXPECT_EQ(taken.fresh, 0u);
  std::vector<Grown> room;
  const auto all = take_structs(reinterpret_cast<const Grown*>(older), 2, "all", &room);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].old, 6u);
  EXPECT_EQ(all[1].fresh, 0u);
  uint32_t filled[3] = {8, 0, 77};
  give_struct(filled, filled[0], Grown{0, 9, 10});
  EXPECT_EQ(filled[0], 8u);
  EXPECT_EQ(filled[1], 9u);
  EXPECT_EQ(filled[2], 77u) << "behind the caller's struct";
}

constexpr uint64_t kAt = 0x10000;

nvrar_status check(const Call& call, uint32_t rank = 1, protocol::Topology topology = {4, 4}) {
  try {
    check_call(call, rank, topology);
    return NVRAR_OK;
  } catch (const Error& error) {
    return error.status();
  }
}

TEST(CheckCall, AcceptsInPlaceAndApart) {
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt, 100, NVRAR_FLOAT32, NVRAR_SUM, -1}), NVRAR_OK);
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt + 400, 100, NVRAR_FLOAT32, NVRAR_SUM, -1}), NVRAR_OK);
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt + 2, kAt + 402, 100, NVRAR_BFLOAT16, NVRAR_SUM, -1}), NVRAR_OK);
  EXPECT_EQ(check({NVRAR_ALL_GATHER, kAt + 400, kAt, 100, NVRAR_FLOAT32, -1, -1}), NVRAR_OK);
  EXPECT_EQ(check({NVRAR_BROADCAST, 0, kAt, 100, NVRAR_FLOAT32, -1, 0}), NVRAR_OK);
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, 0, 0, 0, NVRAR_FLOAT32, NVRAR_SUM, -1}), NVRAR_OK);
}

TEST(CheckCall, RefusesWhatWouldTouchTheWrongMemory) {
  const auto refused = NVRAR_INVALID_ARGUMENT;
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt + 4, 100, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused);
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt + 396, kAt, 100, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused);
  EXPECT_EQ(check({NVRAR_ALL_GATHER, kAt, kAt, 100, NVRAR_FLOAT32, -1, -1}), refused) << "rank 0's place, not rank 1's";
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt + 2, kAt, 1, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused) << "misaligned";
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt + 1, 1, NVRAR_BFLOAT16, NVRAR_SUM, -1}), refused) << "misaligned";
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, 0, kAt, 1, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused) << "null";
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, 0, 1, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused) << "null";
  EXPECT_EQ(check({NVRAR_BROADCAST, 0, kAt, 1, NVRAR_FLOAT32, -1, 1}), refused) << "the root needs its send";
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt, huge / 2, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused) << "count * size";
  EXPECT_EQ(check({NVRAR_ALL_GATHER, kAt, kAt, huge / 8, NVRAR_FLOAT32, -1, -1}), refused) << "count * size * world";
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt, huge / 4, NVRAR_FLOAT32, NVRAR_SUM, -1}), refused) << "address + bytes";
}

TEST(CheckCall, RefusesUnknownCodes) {
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt, 1, 3, NVRAR_SUM, -1}), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt, 1, NVRAR_FLOAT32, 5, -1}), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(check({NVRAR_BROADCAST, kAt, kAt, 1, NVRAR_FLOAT32, -1, 4}), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(check({NVRAR_BROADCAST, kAt, kAt, 1, NVRAR_FLOAT32, -1, -1}), NVRAR_INVALID_ARGUMENT);
}

TEST(CheckCall, RefusesTheAverageOfIntegers) {
  for (int32_t type : kTypes) {
    const bool is_float = type >= NVRAR_FLOAT16;
    EXPECT_EQ(check({NVRAR_ALL_REDUCE, kAt, kAt, 1, type, NVRAR_AVG, -1}),
              is_float ? NVRAR_OK : NVRAR_INVALID_ARGUMENT);
  }
}

class FakeSystem : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/nvrar-test-XXXXXX";
    root_ = ::mkdtemp(path);
    write("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\n");
    write("/proc/self/cgroup", "1:memory:/old\n0::/outer/inner\n");
  }
  void TearDown() override { EXPECT_EQ(std::system(("rm -r " + root_).c_str()), 0); }
  void write(const std::string& path, const std::string& text) {
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
      ::mkdir((root_ + path.substr(0, at)).c_str(), 0700);
    }
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(FakeSystem, AvailableMemoryLimitsWhereNoCgroupDoes) {
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 1000u * 1024);
}

TEST_F(FakeSystem, TheTightestCgroupOnTheWayUpLimits) {
  write("/sys/fs/cgroup/outer/memory.max", "500000\n");
  write("/sys/fs/cgroup/outer/memory.current", "400000\n");
  write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("/sys/fs/cgroup/outer/inner/memory.current", "1\n");
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 100000u);
  EXPECT_EQ(shared::memory_room(root_).limited_by, "/sys/fs/cgroup/outer/memory.max");
}

// A container that has read files is at its limit by page cache alone.
TEST_F(FakeSystem, CachesOfACgroupAreRoom) {
  write("/sys/fs/cgroup/outer/memory.max", "500000\n");
  write("/sys/fs/cgroup/outer/memory.current", "499000\n");
  write("/sys/fs/cgroup/outer/memory.stat",
        "anon 100000\nfile 350000\nshmem 30000\ninactive_file 200000\nactive_file 120000\nslab_reclaimable 40000\n"
        "slab_unreclaimable 9000\nslab 49000\n");
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 361000u);
}

TEST_F(FakeSystem, CachesAreNoMoreRoomThanTheLimit) {
  write("/sys/fs/cgroup/outer/memory.max", "500000\n");
  write("/sys/fs/cgroup/outer/memory.current", "100000\n");
  write("/sys/fs/cgroup/outer/memory.stat", "inactive_file 150000\n");  // read later than memory.current
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 500000u);
}

TEST_F(FakeSystem, ALimitOfCgroupV1Limits) {
  write("/proc/self/cgroup", "12:pids:/old\n4:memory:/old/inner\n1:name=systemd:/x\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "800000\n");
  write("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "500000\n");
  write("/sys/fs/cgroup/memory/old/memory.usage_in_bytes", "499000\n");
  write("/sys/fs/cgroup/memory/old/memory.stat",
        "cache 1\ninactive_file 7\ntotal_inactive_file 200000\ntotal_active_file 99000\ntotal_shmem 30000\n");
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 300000u);
  EXPECT_EQ(shared::memory_room(root_).limited_by, "/sys/fs/cgroup/memory/old/memory.limit_in_bytes");
  write("/sys/fs/cgroup/memory/old/inner/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/old/inner/memory.usage_in_bytes", "900\n");
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 100u);
}

// A container without a namespace of control groups reads a path that it does not have, and its own limit at the top.
TEST_F(FakeSystem, ALimitAtTheTopLimitsAPathThatIsNotThere) {
  write("/proc/self/cgroup", "4:memory:/docker/0123\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(shared::memory_room(root_).free_bytes, 4000u);
}

TEST_F(FakeSystem, TheSmallestQuotaOnTheWayUpCountsInWholeCores) {
  EXPECT_EQ(cpu_quota(root_).group, 0u);
  EXPECT_EQ(cpu_quota(root_).cores, kNoQuota);
  write("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root_).cores, kNoQuota);
  write("/sys/fs/cgroup/outer/cpu.max", "350000 100000\n");
  EXPECT_EQ(cpu_quota(root_).cores, 3u);
  const uint32_t outer = cpu_quota(root_).group;
  EXPECT_NE(outer, 0u);
  EXPECT_EQ(cpu_quota(root_).group, outer);
  write("/sys/fs/cgroup/outer/inner/cpu.max", "40000 50000\n");
  EXPECT_EQ(cpu_quota(root_).cores, 0u) << "less than one core";
  EXPECT_NE(cpu_quota(root_).group, outer);
}

// Two containers on a host, each with a quota of its own.
TEST(HasCoreEach, AQuotaIsForTheRanksThatShareIt) {
  EXPECT_TRUE(cpu::has_core_each({.on_host = 1, .under_quota = 1}, 1));
  EXPECT_FALSE(cpu::has_core_each({.on_host = 1, .under_quota = 2}, 1));
  EXPECT_FALSE(cpu::has_core_each({.on_host = 1, .under_quota = 1}, 0));
  EXPECT_FALSE(cpu::has_core_each({.on_host = CPU_SETSIZE + 1, .under_quota = 1}, kNoQuota));
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  EXPECT_TRUE(cpu::has_core_each({.on_host = static_cast<uint32_t>(CPU_COUNT(&cores)), .under_quota = 1}, 1));
}

TEST_F(FakeSystem, AQuotaOfCgroupV1Counts) {
  write("/proc/self/cgroup", "5:cpuset:/other\n3:cpu,cpuacct:/pods/pod\n0::/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/pods/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_).cores, kNoQuota);
  write("/sys/fs/cgroup/cpu/pods/pod/cpu.cfs_quota_us", "200000\n");
  write("/sys/fs/cgroup/cpu/pods/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_).cores, 2u);
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(Reserve, TakesNothingWithoutRoom) {
  const auto reserve = [](uint64_t room, uint32_t world) {
    shared::reserve_in_steps(
        100001, world,
        [&] {
          return shared::MemoryRoom{room, "the limit"};
        },
        [&](uint64_t, uint64_t bytes) { EXPECT_LE(bytes, room) << "this would bring the OOM killer"; });
  };
  const auto sentence = [&](uint64_t room, uint32_t world) -> std::string {
    try {
      reserve(room, world);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), NVRAR_SYSTEM);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence(100001, 1), "");
  EXPECT_EQ(sentence(100000, 1),
            "there is no room for a shared memory segment of 100001 bytes: the limit leaves 100000 of the 100001 that "
            "it needs; a smaller ring_bytes needs less");
  EXPECT_EQ(sentence(200002, 2), "");
  EXPECT_EQ(sentence(200001, 2),
            "there is no room for a shared memory segment of 100001 bytes: the limit leaves 200001 of the 200002 that "
            "it and its peers' next steps need; a smaller ring_bytes needs less");
}

TEST(Reserve, CoversTheWholeSegmentOnce) {
  for (uint64_t bytes : {uint64_t{1}, shared::kReserveStepBytes, 3 * shared::kReserveStepBytes + 4096}) {
    uint64_t end = 0;
    shared::reserve_in_steps(
        bytes, 8,
        [] {
          return shared::MemoryRoom{1024 * kMiB, ""};
        },
        [&](uint64_t offset, uint64_t step) {
          EXPECT_EQ(offset, end);
          EXPECT_LE(step, shared::kReserveStepBytes);
          end = offset + step;
        });
    EXPECT_EQ(end, bytes);
  }
}

// All see the same room at first. Memory grows page by page while a rank reserves, as fallocate lets it.
TEST(Reserve, RanksThatReserveAtOnceStayBelowTheLimit) {
  constexpr uint32_t kWorld = 8;
  constexpr uint64_t kLimit = 500 * kMiB;
  std::atomic<uint64_t> used{0};
  std::atomic<uint32_t> waiting{kWorld};
  std::atomic<uint32_t> refused{0};
  const auto one_rank = [&] {
    bool first = true;
    const auto room = [&] {
      const uint64_t now = used.load();
      if (std::exchange(first, false)) {
        --waiting;
        while (waiting.load() != 0) std::this_thread::yield();
      }
      return shared::MemoryRoom{kLimit - std::min(now, kLimit), "the limit"};
    };
    try {
      shared::reserve_in_steps(100 * kMiB, kWorld, room, [&](uint64_t, uint64_t bytes) {
        for (uint64_t at = 0; at < bytes; at += kMiB) {
          EXPECT_LE(used += kMiB, kLimit) << "this would bring the OOM killer";
          std::this_thread::yield();
        }
      });
    } catch (const Error&) {
      ++refused;
    }
  };
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < kWorld; ++rank) ranks.emplace_back(one_rank);
  for (std::thread& rank : ranks) rank.join();
  EXPECT_GT(refused.load(), 0u);
}

RankActivity doing(int32_t state, uint64_t count) {
  nvrar_call call{};
  call.state = state;
  call.sequence = 41;
  call.count = count;
  call.collective = NVRAR_ALL_REDUCE;
  call.data_type = NVRAR_FLOAT32;
  return {call, true, false};
}

TEST(Report, NamesTheOddRankFirst) {
  const std::vector<RankActivity> ranks = {doing(NVRAR_CALL_RUNNING, 2048), doing(NVRAR_CALL_FAILED, 2048),
                                           doing(NVRAR_CALL_RUNNING, 1024), doing(NVRAR_CALL_RUNNING, 2048)};
  EXPECT_EQ(describe_activities(ranks),
            "rank 2 is in allReduce #41 float32[1024] SUM, ranks 0, 1, 3 in allReduce #41 float32[2048] SUM");
}

TEST(Report, SaysWhoIsNotInACall) {
  std::vector<RankActivity> ranks = {doing(NVRAR_CALL_RUNNING, 8), doing(NVRAR_CALL_DONE, 8), doing(NVRAR_CALL_NONE, 0),
                                     doing(NVRAR_CALL_DONE, 8)};
  ranks[3].closed = true;
  EXPECT_EQ(describe_activities(ranks),
            "rank 0 is in allReduce #41 float32[8] SUM, rank 1 has finished allReduce #41 float32[8] SUM, rank 2 has "
            "entered no call, rank 3 has left the group");
}

TEST(Report, NamesThreadsForLinksThatStandStill) {
  const std::vector<RankActivity> ranks(2);
  const auto told = [&](uint32_t origin, const RankSet& lost) {
    return describe_failure({NVRAR_PEER_LOST, origin, lost, 1}, 0, "", 0, ranks);
  };
  EXPECT_EQ(told(1, RankSet::of(1)),
            "the threads for the links of rank 1 did not run for a second although it had something to send");
  EXPECT_EQ(told(1, RankSet::of(0)), "rank 1 lost its connection to rank 0");
  // From memory of a peer, so it may be any number.
  EXPECT_EQ(told(4000, RankSet::of(0)), "rank 4000 lost its connection to rank 0");
}

// 512 ranks can all do different things, and those that are missing may be in as many pieces.
TEST(Report, OfTheLargestGroupIsShort) {
  std::vector<RankActivity> ranks;
  for (uint32_t rank = 0; rank < NVRAR_MAX_WORLD_SIZE; ++rank) ranks.push_back(doing(NVRAR_CALL_RUNNING, 1 + rank));
  RankSet::Words odd{};
  for (uint64_t& word : odd) word = 0xaaaaaaaaaaaaaaaa;
  const shared::Poison poison{NVRAR_TIMEOUT, 0, RankSet(odd), 41};
  const std::string sentence = describe_failure(poison, 0, describe(ranks[0].call), 1'000'000'000, ranks);
  EXPECT_EQ(sentence.find("allReduce #41 float32[1] SUM timed out after 1 s without ranks 1, 3, 5, 7, 9, 11, 13, 15, "
                          "17, 19, 21, 23, 25, 27, 29, 31 and 240 more: rank 0 is in allReduce #41 float32[1] SUM, "
                          "rank 1 in "),
            0u)
      << sentence;
  EXPECT_NE(sentence.find("rank 7 in allReduce #41 float32[8] SUM, 504 other ranks elsewhere"), std::string::npos)
      << sentence;
  EXPECT_LT(sentence.size(), 1024u);
  ranks.resize(9);
  EXPECT_NE(describe_activities(ranks).find("SUM, 1 other rank elsewhere"), std::string::npos);
}

nvrar_call numbered(uint64_t sequence) {
  nvrar_call call{};
  call.sequence = sequence;
  call.count = 3 * sequence;
  call.collective = NVRAR_BROADCAST;
  call.data_type = NVRAR_INT32;
  call.op = kNoOp;
  call.root = 5;
  call.launches = 2;
  call.group_sequence = sequence + 1;
  return call;
}

class Flight : public ::testing::Test {
 protected:
  const TickClock clock_;
  std::unique_ptr<shared::FlightRecord> record_ = std::make_unique<shared::FlightRecord>();
};

TEST_F(Flight, KeepsTheCallAfterItsEnd) {
  EXPECT_EQ(record_->last(clock_).state, NVRAR_CALL_NONE);
  const uint64_t before_ns = monotonic_ns();
  const uint64_t number = record_->begin(numbered(7));
  nvrar_call call = record_->last(clock_);
  EXPECT_EQ(call.state, NVRAR_CALL_RUNNING);
  EXPECT_EQ(call.end_ns, 0u);
  ::usleep(2000);
  record_->end(number, NVRAR_CALL_DONE);
  call = record_->last(clock_);
  EXPECT_EQ(call.state, NVRAR_CALL_DONE);
  EXPECT_EQ(describe(call), "broadcast #7 int32[21] from root 5 (2 launches)");
  EXPECT_EQ(call.op, kNoOp);
  EXPECT_EQ(call.launches, 2u);
  EXPECT_EQ(call.group_sequence, 8u);
  // Two clocks are read one after the other, and a machine may take its time between the two.
  constexpr uint64_t kSlackNs = 1'000'000;
  EXPECT_GE(call.begin_ns + kSlackNs, before_ns);
  EXPECT_GE(call.end_ns - call.begin_ns + kSlackNs, 2'000'000u);
  EXPECT_LE(call.end_ns, monotonic_ns() + kSlackNs);
}

TEST_F(Flight, KeepsTheLastCallsOldestFirst) {
  std::vector<nvrar_call> calls(NVRAR_FLIGHT_RECORDS + 10);
  EXPECT_EQ(record_->read(clock_, calls.data(), 10), 0u);
  for (uint64_t i = 1; i <= 3000; ++i) record_->end(record_->begin(numbered(i)), NVRAR_CALL_FAILED);
  const auto capacity = static_cast<uint32_t>(calls.size());
  ASSERT_EQ(record_->read(clock_, calls.data(), capacity), static_cast<uint32_t>(NVRAR_FLIGHT_RECORDS));
  for (uint64_t i = 0; i < NVRAR_FLIGHT_RECORDS; ++i) {
    ASSERT_EQ(calls[i].sequence, 3000 - NVRAR_FLIGHT_RECORDS + 1 + i);
    ASSERT_EQ(calls[i].state, NVRAR_CALL_FAILED);
  }
  ASSERT_EQ(record_->read(clock_, calls.data(), 3), 3u) << "the newest";
  EXPECT_EQ(calls[0].sequence, 2998u);
  EXPECT_EQ(calls[2].sequence, 3000u);
}

TEST_F(Flight, AnEndThatComesTooLateTouchesNoOtherCall) {
  const uint64_t first = record_->begin(numbered(1));
  for (uint64_t i = 0; i < NVRAR_FLIGHT_RECORDS; ++i) record_->begin(numbered(2));
  record_->end(first, NVRAR_CALL_FAILED);
  std::vector<nvrar_call> calls(NVRAR_FLIGHT_RECORDS);
  ASSERT_EQ(record_->read(clock_, calls.data(), NVRAR_FLIGHT_RECORDS), static_cast<uint32_t>(NVRAR_FLIGHT_RECORDS));
  for (const nvrar_call& call : calls) ASSERT_EQ(call.state, NVRAR_CALL_RUNNING);
}

// A peer reads while the owner writes: what it gets may be old, but never of two calls.
TEST_F(Flight, AReaderNeverSeesHalfACall) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop; ++i) record_->end(record_->begin(numbered(i)), NVRAR_CALL_DONE);
  });
  std::vector<nvrar_call> calls(NVRAR_FLIGHT_RECORDS);
  for (uint64_t round = 0; round < repetitions(300); ++round) {
    const uint32_t count = record_->read(clock_, calls.data(), NVRAR_FLIGHT_RECORDS);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(calls[i].count, 3 * calls[i].sequence);
      EXPECT_EQ(calls[i].group_sequence, calls[i].sequence + 1);
      if (i > 0) {
        EXPECT_GT(calls[i].sequence, calls[i - 1].sequence);
      }
    }
  }
  stop = true;
  writer.join();
}

TEST(Poison, TheFirstOneIsKeptWhole) {
  shared::SharedPoison shared;
  EXPECT_FALSE(shared.is_set());
  EXPECT_EQ(shared.get().status, NVRAR_OK);
  const RankSet ranks = RankSet::of(0) | RankSet::of(63) | RankSet::of(64) | RankSet::of(NVRAR_MAX_WORLD_SIZE - 1);
  EXPECT_TRUE(shared.set({NVRAR_TIMEOUT, NVRAR_MAX_WORLD_SIZE - 1, ranks, 123456789}));
  EXPECT_FALSE(shared.set({NVRAR_ABORTED, 3, {}, 7}));
  const shared::Poison back = shared.get();
  EXPECT_EQ(back.status, NVRAR_TIMEOUT);
  EXPECT_EQ(back.origin, static_cast<uint32_t>(NVRAR_MAX_WORLD_SIZE - 1));
  EXPECT_EQ(back.ranks, ranks);
  EXPECT_EQ(back.sequence, 123456789u);
}

}  // namespace
}  // namespace nvrar::test
