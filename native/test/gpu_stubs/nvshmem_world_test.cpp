// Tests of the one NVSHMEM world per process, over a stub that is as strict as NVSHMEM (test/stub_nvshmem): every way
// in which its initialisation can fail, and the assignment of slices of the arena.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "cuda/memory/memory_blob.h"
#include "cuda/memory/nvshmem_memory.h"
#include "cuda/memory/symmetric_memory.h"
#include "support/forked.h"
#include "support/group.h"

static int g_setenv_calls = 0;

// Of whoever is in this program, the library's objects too.
extern "C" int setenv(const char* name, const char* value, int overwrite) noexcept {
  ++g_setenv_calls;
  using SetEnv = int (*)(const char*, const char*, int);
  return reinterpret_cast<SetEnv>(::dlsym(RTLD_NEXT, "setenv"))(name, value, overwrite);
}

namespace nvrar::test {
namespace {

using cuda::GroupEnd;
using cuda::MemoryAddress;
using cuda::MemoryBlob;
using cuda::MemoryConfig;
using cuda::MemoryProvider;
using cuda::NvshmemConfig;
using cuda::NvshmemId;
using cuda::SymmetricMemory;

constexpr uint64_t kArenaBytes = 1 << 20;  // 256 units of a page
constexpr uint64_t kPage = 4096;

NvshmemConfig nvshmem_config() {
  NvshmemConfig config;
  config.library = NVRAR_STUB_NVSHMEM;
  config.arena_bytes = kArenaBytes;
  config.deadline_ns = 20'000 * kMs;
  return config;
}

// This process's GPU is the one that Ray would give it.
void own_gpu(const Process& process) { ::setenv("STUB_CUDA_FIRST_DEVICE", std::to_string(process.rank()).c_str(), 1); }

MemoryConfig config_of(int rank, int world, const NvshmemId& id, uint64_t bytes = 4 * kPage,
                       MemoryProvider provider = MemoryProvider::kNvshmem) {
  MemoryConfig config;
  config.provider = provider;
  config.bytes = bytes;
  config.rank = static_cast<uint32_t>(rank);
  config.world = static_cast<uint32_t>(world);
  config.nvshmem = nvshmem_config();
  config.nvshmem_id = id;
  return config;
}

NvshmemId make_id(Process& process) {
  return process.spread(process.rank() == 0 ? cuda::make_nvshmem_id(nvshmem_config()) : NvshmemId{});
}

// A group of all processes.
std::unique_ptr<SymmetricMemory> join(Process& process, const NvshmemId& id, uint64_t bytes = 4 * kPage,
                                      MemoryProvider provider = MemoryProvider::kNvshmem) {
  auto memory = cuda::make_symmetric_memory(config_of(process.rank(), process.count(), id, bytes, provider));
  memory->map(process.gather(memory->address()));
  process.meet();
  return memory;
}

uint64_t* words(const SymmetricMemory& memory, uint32_t rank) { return reinterpret_cast<uint64_t*>(memory.of(rank)); }

TEST(NvshmemWorld, RanksOfAWorldReachEachOtherAndNoThreadIsLeft) {
  for (const char* version : {"3.3.20", "3.5.1"}) {  // two layouts of what the initialisation is given
    EXPECT_TRUE(run_forked(4, [&](Process& process) {
      ::setenv("STUB_NVSHMEM_VERSION", version, 1);
      own_gpu(process);
      std::thread([] {}).join();  // with its first thread a sanitizer starts one of its own
      const size_t threads = threads_of_this_process();
      const auto memory = join(process, make_id(process));
      EXPECT_EQ(memory->provider(), MemoryProvider::kNvshmem);
      const auto rank = static_cast<uint32_t>(process.rank());
      for (uint32_t peer = 0; peer < 4; ++peer) words(*memory, peer)[rank] = 10 * peer + rank;
      process.meet();
      for (uint32_t writer = 0; writer < 4; ++writer) EXPECT_EQ(words(*memory, rank)[writer], 10 * rank + writer);
      EXPECT_TRUE(comes_to(threads));
      process.meet();
    }));
  }
}

TEST(NvshmemWorld, SetsTheEnvironmentButForWhatTheUserSetExceptMulticast) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    ::setenv("NVSHMEM_DISABLE_NVLS", "0", 1);
    ::setenv("NVSHMEM_MAX_TEAMS", "33", 1);
    (void)cuda::make_nvshmem_id(nvshmem_config());  // the stub ends the process where multicast is on
    const auto value = [](const char* name) { return std::string(std::getenv(name)); };
    EXPECT_EQ(value("NVSHMEM_DISABLE_NVLS"), "1");
    EXPECT_EQ(value("NVSHMEM_MAX_TEAMS"), "33");
    EXPECT_EQ(value("NVSHMEM_DISABLE_NCCL"), "1");
    EXPECT_EQ(value("NVSHMEM_DISABLE_LOCAL_ONLY_PROXY"), "1");
    EXPECT_EQ(value("NVSHMEM_REMOTE_TRANSPORT"), "none");
    EXPECT_EQ(value("NVSHMEM_CUMEM_GRANULARITY"), std::to_string(16 << 20));
    EXPECT_EQ(value("NVSHMEM_SYMMETRIC_SIZE"), std::to_string(kArenaBytes + (64 << 20)));
  }));
}

// Another thread may be in getenv, over an array that setenv would have freed.
TEST(NvshmemWorld, LeavesTheEnvironmentThatOtherThreadsMayBeReadingAsItIs) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    ::setenv("NVSHMEM_DISABLE_NVLS", "0", 1);  // since then it is an array of the C library's
    char** const before = environ;
    std::vector<std::string> entries;
    for (char** entry = before; *entry != nullptr; ++entry) entries.emplace_back(*entry);
    const int calls = g_setenv_calls;
    (void)cuda::make_nvshmem_id(nvshmem_config());
    ASSERT_EQ(g_setenv_calls, calls);
    ASSERT_NE(environ, before);
    for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(before[i], entries[i]);
    EXPECT_EQ(before[entries.size()], nullptr);
    EXPECT_EQ(std::string(std::getenv("NVSHMEM_DISABLE_NVLS")), "1");
    // Nothing else is lost, and what is there already is set once.
    size_t now = 0;
    for (char** entry = environ; *entry != nullptr; ++entry) ++now;
    EXPECT_EQ(now, entries.size() + 6);
    char** const set = environ;
    (void)cuda::make_nvshmem_id(nvshmem_config());
    EXPECT_EQ(environ, set);
  }));
}

TEST(NvshmemWorld, RefusesGpusWithoutNvlinkBetweenThem) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    ::setenv("STUB_CUDA_PCIE", "0-1", 1);
    for (const MemoryProvider provider : {MemoryProvider::kNvshmem, MemoryProvider::kAutomatic}) {
      MemoryConfig config = config_of(process.rank(), 2, make_id(process), 4 * kPage, provider);
      config.device = process.rank();
      const auto memory = cuda::make_symmetric_memory(config);
      const std::vector<MemoryAddress> all = process.gather(memory->address());
      const std::string error = error_of([&] { memory->map(all); });
      EXPECT_TRUE(contains(error, "4 the GPU of rank 0 (pid ")) << error;
      EXPECT_TRUE(contains(error, ") and that of rank 1 (pid ")) << error;
      EXPECT_TRUE(contains(error, ") have no NVLink between them")) << error;
      process.meet();
    }
  }));
}

// How an initialisation fails on two ranks, and what rank 0 says.
struct Failure {
  const char* name;
  const char* variable;
  const char* value;
  std::vector<std::string> words;
};
void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }

class NvshmemFailure : public ::testing::TestWithParam<Failure> {};

TEST_P(NvshmemFailure, IsSaidAndEndsNothingButThisProcessesUseOfNvshmem) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    own_gpu(process);
    const NvshmemId id = make_id(process);
    ::setenv(GetParam().variable, GetParam().value, 1);
    auto memory = cuda::make_symmetric_memory(config_of(process.rank(), 2, id));
    const std::vector<MemoryAddress> all = process.gather(memory->address());
    const std::string error = error_of([&] { memory->map(all); });
    if (process.rank() == 0) {
      for (const std::string& part : GetParam().words) EXPECT_TRUE(contains(error, part)) << error;
    }
    process.meet();
    memory = nullptr;
    if (process.rank() == 0) {
      const std::string again = error_of([&] { cuda::make_symmetric_memory(config_of(0, 2, id)); });
      EXPECT_TRUE(contains(again,
                           "4 this process can make no group over NVSHMEM any more and has to be replaced, or "
                           "use CUDA IPC (NVSHMEM"))
          << again;
      EXPECT_EQ(error_of([&] { cuda::make_nvshmem_id(nvshmem_config()); }), again);
    }
    process.meet();
    // Where the choice is free, there is CUDA IPC.
    const auto other = join(process, id, kPage, MemoryProvider::kAutomatic);
    EXPECT_EQ(other->provider(), MemoryProvider::kIpc);
    process.meet();
  }));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, NvshmemFailure,
    ::testing::Values(
        Failure{"Refused",
                "STUB_NVSHMEM_FAIL",
                "init",
                {"3 NVSHMEM's initialisation failed on rank 0 (error 7; NVSHMEM_DEBUG=INFO lets it say more)"}},
        Failure{
            "Half",
            "STUB_NVSHMEM_STATUS",
            "1",
            {"3 NVSHMEM's initialisation on rank 0 reached the other ranks but not its GPU (status 1 instead of 2;"}},
        Failure{"SharedGpu",
                "STUB_NVSHMEM_STATUS",
                "3",
                {"1 NVSHMEM found several ranks on one GPU: every rank needs one of its own"}},
        Failure{"SharedGpuWithMps", "STUB_NVSHMEM_STATUS", "4", {"1 NVSHMEM found several ranks on one GPU"}},
        Failure{"AnotherPe", "STUB_NVSHMEM_WRONG_PE", "1", {"3 NVSHMEM made rank 0 of 2 PE 1 of 2"}},
        Failure{"NoMemory",
                "STUB_NVSHMEM_FAIL",
                "malloc",
                {"3 NVSHMEM has no room for an arena of 1048576 bytes (cuda.arenaBytes) on rank 0: the GPU's memory is "
                 "full, or NVSHMEM_SYMMETRIC_SIZE too small"}},
        Failure{"NoPeerAccess",
                "STUB_NVSHMEM_FAR_PE",
                "1",
                {"4 NVSHMEM cannot map the memory of rank 1 for rank 0: there is no peer access between their GPUs"}}),
    [](const auto& way) { return std::string(way.param.name); });

TEST(NvshmemWorld, SaysThatNoUniqueIdCanBeMade) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    ::setenv("STUB_NVSHMEM_FAIL", "id", 1);
    EXPECT_EQ(error_of([] { cuda::make_nvshmem_id(nvshmem_config()); }),
              "4 NVSHMEM could not make a unique id (error 7): it found no network interface to listen on; "
              "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME names one");
  }));
}

TEST(NvshmemWorld, RefusesAProcessInWhichSomebodyElseInitialisedNvshmem) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    ::setenv("STUB_NVSHMEM_INITIALISED", "1", 1);
    const std::string words =
        "4 NVSHMEM was already initialised in this process by other code (perhaps PyTorch), and it supports one world "
        "per process: use CUDA IPC, or another process";
    EXPECT_EQ(error_of([] { cuda::make_nvshmem_id(nvshmem_config()); }), words);
    EXPECT_EQ(error_of([] { cuda::make_symmetric_memory(config_of(0, 2, {})); }), words);
  }));
}

TEST(NvshmemWorld, AnInitialisationThatNeverEndsIsLeftAtItsDeadline) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    own_gpu(process);
    const NvshmemId id = make_id(process);
    // Rank 0's hangs in itself, rank 1's waits for a rank that does not come.
    if (process.rank() == 0) ::setenv("STUB_NVSHMEM_FAIL", "init_waits", 1);
    MemoryConfig config = config_of(process.rank(), 2, id);
    config.nvshmem.deadline_ns = 300 * kMs;
    const auto memory = cuda::make_symmetric_memory(config);
    const std::vector<MemoryAddress> all = process.gather(memory->address());
    const double begin = seconds_now();
    EXPECT_EQ(error_of([&] { memory->map(all); }),
              "6 NVSHMEM's initialisation on rank " + std::to_string(process.rank()) +
                  " did not end within 0.3 s: a member did not come, or cannot be reached from here");
    EXPECT_GE(seconds_now() - begin, 0.3);
    EXPECT_LT(seconds_now() - begin, 5);
    const std::string again = error_of([&] { cuda::make_symmetric_memory(config); });
    EXPECT_TRUE(contains(again, "any more and has to be replaced, or use CUDA IPC (NVSHMEM's initialisation on rank"))
        << again;
    process.meet();
  }));
}

TEST(NvshmemWorld, GroupsNeedOneWorldOfAllTheirMembers) {
  EXPECT_TRUE(run_forked(3, [](Process& process) {
    own_gpu(process);
    const NvshmemId id = make_id(process);
    // Ranks 0 and 1 make a world, rank 2 stays without.
    const bool member = process.rank() < 2;
    std::unique_ptr<SymmetricMemory> first;
    if (member) first = cuda::make_symmetric_memory(config_of(process.rank(), 2, id));
    std::vector<MemoryAddress> pair = process.gather(member ? first->address() : MemoryAddress{});
    pair.pop_back();
    if (member) first->map(pair);
    process.meet();
    EXPECT_EQ(process.spread(cuda::make_nvshmem_id(nvshmem_config())),
              NvshmemId{});  // rank 0 has no second one to give

    const auto all = cuda::make_symmetric_memory(config_of(process.rank(), 3, id));
    const std::string error = error_of([&] { all->map(process.gather(all->address())); });
    EXPECT_TRUE(contains(error, "5 rank " + std::string(member ? "2" : "0"))) << error;
    EXPECT_TRUE(contains(error, " is in an NVSHMEM world of 2")) << error;
    EXPECT_TRUE(contains(error, " is in no NVSHMEM world yet")) << error;
    process.meet();
  }));
}

TEST(NvshmemWorld, AGroupWhoseIdHoldsNoneCannotMakeTheWorld) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    own_gpu(process);
    const auto memory = cuda::make_symmetric_memory(config_of(process.rank(), 2, {}));
    const std::string error = error_of([&] { memory->map(process.gather(memory->address())); });
    EXPECT_TRUE(contains(error, "4 the group's unique id contains no NVSHMEM id")) << error;
  }));
}

TEST(NvshmemWorld, OneGroupOfAProcessIsMadeAtATime) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    auto first = cuda::make_symmetric_memory(config_of(0, 1, cuda::make_nvshmem_id(nvshmem_config())));
    const std::string words =
        "2 another group of this process is being made over NVSHMEM: groups of one process are made one after another, "
        "and a rank needs a process of its own";
    EXPECT_EQ(error_of([] { cuda::make_symmetric_memory(config_of(0, 1, {})); }), words);
    first = nullptr;  // was not made
    first = cuda::make_symmetric_memory(config_of(0, 1, cuda::make_nvshmem_id(nvshmem_config())));
    first->map({first->address()});
    EXPECT_EQ(error_of([] { cuda::make_symmetric_memory(config_of(0, 1, {})); }), "");  // the first one is made
  }));
}

TEST(NvshmemWorld, NoByteIsUsedAgainAfterAMemberWasLost) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    auto memory = cuda::make_symmetric_memory(config_of(0, 1, cuda::make_nvshmem_id(nvshmem_config())));
    memory->map({memory->address()});
    memory->ended(GroupEnd::kMemberLost);
    memory = nullptr;
    EXPECT_EQ(
        error_of([] { cuda::make_symmetric_memory(config_of(0, 1, {})); }),
        "4 this process can make no group over NVSHMEM any more and has to be replaced, or use CUDA IPC (a member "
        "of one of its groups was lost or aborted)");
  }));
}

TEST(NvshmemArena, SaysWhatDoesNotFitAndGivesSlicesAgainOnlyAfterAnOrderlyEnd) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    const NvshmemId id = cuda::make_nvshmem_id(nvshmem_config());
    const auto group_of = [&](uint64_t bytes) {
      auto memory = cuda::make_symmetric_memory(config_of(0, 1, id, bytes));
      memory->map({memory->address()});
      return memory;
    };
    const auto refusal = [&](uint64_t bytes) { return error_of([&] { (void)group_of(bytes); }); };
    EXPECT_EQ(refusal(kArenaBytes + 1),
              "4 a group that needs 1048577 bytes on each rank does not fit NVSHMEM's arena of 1048576 bytes "
              "(cuda.arenaBytes)");
    auto half = group_of(kArenaBytes / 2);
    auto other_half = group_of(kArenaBytes / 2);
    EXPECT_EQ(other_half->of(0), half->of(0) + kArenaBytes / 2);
    EXPECT_EQ(
        refusal(1),
        "4 NVSHMEM's arena of 1048576 bytes (cuda.arenaBytes) has no room for a group that needs 1 bytes on each rank: "
        "free on all of them are at most 0 in one piece");
    const uint64_t at = half->of(0);
    half->ended(GroupEnd::kOrderly);
    half = nullptr;
    half = group_of(kArenaBytes / 2);
    EXPECT_EQ(half->of(0), at);
    half->ended(GroupEnd::kUncertain);
    half = nullptr;
    EXPECT_NE(refusal(1), "");  // for ever
    const auto others_left = std::make_shared<bool>(false);
    other_half->ended(GroupEnd::kUncertain, [others_left] { return *others_left; });
    other_half = nullptr;
    EXPECT_NE(refusal(1), "");
    *others_left = true;
    EXPECT_EQ(group_of(1)->of(0), at + kArenaBytes / 2);
  }));
}

TEST(NvshmemArena, IsNotNeededWhereTheChoiceIsFree) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    own_gpu(process);
    const NvshmemId id = make_id(process);
    const auto whole = join(process, id, kArenaBytes, MemoryProvider::kAutomatic);
    EXPECT_EQ(whole->provider(), MemoryProvider::kNvshmem);
    const auto beside = join(process, id, kPage, MemoryProvider::kAutomatic);
    EXPECT_EQ(beside->provider(), MemoryProvider::kIpc);
    words(*beside, static_cast<uint32_t>(1 - process.rank()))[0] = 5;
    process.meet();
    EXPECT_EQ(words(*beside, static_cast<uint32_t>(process.rank()))[0], 5U);
    process.meet();
  }));
}

TEST(NvshmemArena, MembersWithoutNvshmemTakeTheOthersToCudaIpc) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    own_gpu(process);
    const NvshmemId id = make_id(process);
    MemoryConfig config = config_of(process.rank(), 2, id, kPage, MemoryProvider::kAutomatic);
    if (process.rank() == 1) config.nvshmem.library = "/nonexistent";
    {
      const auto memory = cuda::make_symmetric_memory(config);
      memory->map(process.gather(memory->address()));
      EXPECT_EQ(memory->provider(), MemoryProvider::kIpc);
      process.meet();
    }
    // The reservation of the one that has it was given back.
    const auto memory = join(process, id, kPage, MemoryProvider::kAutomatic);
    EXPECT_EQ(memory->provider(), MemoryProvider::kNvshmem);
    process.meet();
  }));
}

// Random groups over random members are created and destroyed in random order. Every group fills its slices on all
// members with its own number; if any two slices overlapped, a group would find another one's number.
TEST(NvshmemArena, SlicesOfLivingGroupsNeverOverlapWhicheverGroupsAProcessIsIn) {
  constexpr int kProcesses = 4;
  constexpr int kSteps = 12;  // each takes a few of the meetings that a test has
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_TRUE(run_forked(kProcesses, [&](Process& process) {
      own_gpu(process);
      struct Group {
        std::vector<int> members;  // processes, by rank
        uint64_t bytes;
        std::unique_ptr<SymmetricMemory> memory;
      };
      std::map<uint64_t, Group> living;
      const auto rank_in = [&](const Group& group) {
        const auto at = std::find(group.members.begin(), group.members.end(), process.rank());
        return at == group.members.end() ? -1 : static_cast<int>(at - group.members.begin());
      };
      uint64_t random = seed;  // the same on all processes
      const auto draw = [&](uint64_t below) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        return (random >> 33) % below;
      };
      const NvshmemId id = make_id(process);
      uint64_t fitted = 0;
      for (uint64_t step = 1; step <= kSteps; ++step) {
        if (step > 1 && draw(3) == 0 && !living.empty()) {
          auto gone = living.begin();
          std::advance(gone, draw(living.size()));
          if (gone->second.memory != nullptr) gone->second.memory->ended(GroupEnd::kOrderly);
          living.erase(gone);
        }
        Group group{{0, 1, 2, 3}, (1 + draw(80)) * kPage - draw(100), nullptr};
        if (step > 1) {  // the first one makes the world
          for (size_t i = 3; i > 0; --i) std::swap(group.members[i], group.members[draw(i + 1)]);
          group.members.resize(1 + draw(4));
        }
        const int rank = rank_in(group);
        MemoryAddress own{};
        if (rank >= 0) {
          const int world = static_cast<int>(group.members.size());
          group.memory = cuda::make_symmetric_memory(config_of(rank, world, id, group.bytes));
          own = group.memory->address();
        }
        const std::vector<MemoryAddress> all = process.gather(own);
        std::string error;
        if (rank >= 0) {
          std::vector<MemoryAddress> addresses;
          for (const int member : group.members) addresses.push_back(all[static_cast<size_t>(member)]);
          error = error_of([&] { group.memory->map(addresses); });
          process.shared().marks[process.rank()] = error.empty() ? 1 : 2;
        }
        process.meet();
        // All members come to the same end, and non-members learn it from the first.
        const int end = process.shared().marks[group.members[0]];
        if (rank >= 0) {
          EXPECT_EQ(error.empty(), end == 1) << error;
          EXPECT_TRUE(error.empty() || contains(error, "has no room for a group")) << error;
        }
        if (end == 1) {
          ++fitted;
          if (rank == 0) {
            for (uint32_t peer = 0; peer < group.members.size(); ++peer) {
              std::fill_n(words(*group.memory, peer), group.bytes / sizeof(uint64_t), step);
            }
          }
          living[step] = std::move(group);
        }
        process.meet();
        for (const auto& [number, other] : living) {
          const int own_rank = rank_in(other);
          if (own_rank < 0) continue;
          const uint64_t* const begin = words(*other.memory, static_cast<uint32_t>(own_rank));
          const auto wrong = std::find_if(begin, begin + other.bytes / sizeof(uint64_t),
                                          [number = number](uint64_t word) { return word != number; });
          EXPECT_EQ(wrong, begin + other.bytes / sizeof(uint64_t)) << "group " << number << " was overwritten";
        }
      }
      EXPECT_GE(fitted, 6U);
    }));
  }
}

// False and differing descriptions of the members' worlds.
TEST(NvshmemPlan, EveryDifferenceBetweenMembersIsRefusedInWords) {
  const auto blob_of = [](uint8_t number) {
    MemoryBlob blob{};
    blob.bytes = 10 * kPage;
    blob.home.pid = 100 + number;
    blob.device.bytes[0] = number;
    blob.world = {77, number, 4, cuda::WorldState::kMember, kArenaBytes, cuda::UnitMap::all_free()};
    return blob;
  };
  const std::vector<MemoryBlob> good = {blob_of(2), blob_of(0), blob_of(3)};  // a permuted subset
  const cuda::WorldPlan plan = cuda::plan_world(good, 0);
  EXPECT_FALSE(plan.create);
  EXPECT_EQ(plan.pes, (std::vector<uint32_t>{2, 0, 3}));
  EXPECT_EQ(plan.units, 10U);
  const auto refusal = [&](const std::function<void(MemoryBlob&)>& change) {
    std::vector<MemoryBlob> blobs = good;
    change(blobs[1]);
    return error_of([&] { (void)cuda::plan_world(blobs, 0); });
  };
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.home.pid = 102; }),
                       "are in one process: NVSHMEM supports one rank per process"));
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.device.bytes[0] = 2; }), "have the same GPU"));
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.home.host_name_hash = 9; }),
                       "are on one host but see different names of it"));
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.world.id = 78; }), "and these are two"));
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.world.state = cuda::WorldState::kUnusable; }),
                       "4 rank 1 (pid 100, GPU-00000000-0000-0000-0000-000000000000) cannot use NVSHMEM, rank 0"));
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.world.state = cuda::WorldState::kBusy; }),
                       "is making another group"));
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) { blob.world.state = static_cast<cuda::WorldState>(9); }),
                       "is in an unknown state"));
  EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.world.arena_bytes *= 2; }),
            "5 rank 1 gives NVSHMEM an arena of 2097152 bytes (cuda.arenaBytes), this rank (0) one of 1048576");
  EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.world.pe = 2; }),
            "1 ranks 0 and 1 claim to be the same PE of the NVSHMEM world");
  EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.world.pe = 4; }),
            "1 rank 1 says that it is PE 4 of an NVSHMEM world of 4");
  EXPECT_TRUE(contains(refusal([](MemoryBlob& blob) {
                         blob.world.free = {{0x1FF, 0, 0, 0}};
                       }),
                       "free on all of them are at most 36864 in one piece"));
}

}  // namespace
}  // namespace nvrar::test
