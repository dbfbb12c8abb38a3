// Tests of symmetric memory within a process and by CUDA IPC, over the stub of libcuda (test/stub_cuda): which memory
// ranks can access, the messages of refusals, and leaks. NVSHMEM is tested in nvshmem_*_test.cpp.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/error.h"
#include "cuda/memory/device_memory.h"
#include "cuda/memory/memory_blob.h"
#include "cuda/memory/symmetric_memory.h"
#include "support/forked.h"
#include "support/group.h"

extern "C" void stub_cuda_refuse(const char* order);

namespace nvrar::test {
namespace {

using cuda::GroupEnd;
using cuda::MemoryAddress;
using cuda::MemoryBlob;
using cuda::MemoryConfig;
using cuda::MemoryProvider;
using cuda::SymmetricMemory;

constexpr uint64_t kBytes = 3 << 20;

MemoryConfig config_of(MemoryProvider provider, int rank, int world) {
  MemoryConfig config;
  config.provider = provider;
  config.bytes = kBytes;
  config.device = rank;
  config.rank = static_cast<uint32_t>(rank);
  config.world = static_cast<uint32_t>(world);
  config.nvshmem.library = "/nonexistent";
  return config;
}

// The stub's device memory is memory of the process.
uint64_t* word(const SymmetricMemory& memory, int rank, uint64_t index) {
  return reinterpret_cast<uint64_t*>(memory.of(static_cast<uint32_t>(rank))) + index;
}

size_t free_device_bytes() {
  cuda::PrimaryContext context(0);
  const cuda::CurrentContext current(context.get());
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  cuda::check(cuda::driver().cuMemGetInfo_v2(&free_bytes, &total_bytes), "asking for free memory");
  return free_bytes;
}

void set_devices(const char* count) { ::setenv("STUB_CUDA_DEVICES", count, 1); }

MemoryBlob blob_of(const MemoryAddress& address) {
  MemoryBlob blob;
  std::memcpy(&blob, address.bytes, sizeof blob);
  return blob;
}

// Every rank writes to every rank, and all see the right values; with provider kAutomatic, too.
void exchange_words(Process& process, SymmetricMemory& memory) {
  for (int peer = 0; peer < process.count(); ++peer) {
    *word(memory, peer, static_cast<uint64_t>(process.rank())) = static_cast<uint64_t>(100 * peer + process.rank());
  }
  process.meet();
  for (int writer = 0; writer < process.count(); ++writer) {
    EXPECT_EQ(*word(memory, process.rank(), static_cast<uint64_t>(writer)),
              static_cast<uint64_t>(100 * process.rank() + writer));
  }
  process.meet();
}

std::vector<std::unique_ptr<SymmetricMemory>> local_group(int world, MemoryProvider provider, bool shared_devices) {
  std::vector<std::unique_ptr<SymmetricMemory>> members;
  std::vector<MemoryAddress> addresses;
  for (int rank = 0; rank < world; ++rank) {
    MemoryConfig config = config_of(provider, rank, world);
    config.shared_devices = shared_devices;
    if (shared_devices) config.device = 0;
    members.push_back(cuda::make_symmetric_memory(config));
    addresses.push_back(members.back()->address());
  }
  for (const auto& member : members) member->map(addresses);
  return members;
}

TEST(LocalMemory, AllRanksOfAProcessReachEachOtherOnOneGpuAndOnSeveral) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    set_devices("4");
    for (const MemoryProvider provider : {MemoryProvider::kLocal, MemoryProvider::kAutomatic}) {
      for (const bool shared : {false, true}) {
        const auto members = local_group(4, provider, shared);
        for (int writer = 0; writer < 4; ++writer) {
          EXPECT_EQ(members[static_cast<size_t>(writer)]->provider(), MemoryProvider::kLocal);
          for (int of = 0; of < 4; ++of) *word(*members[static_cast<size_t>(writer)], of, 0) += 1;
        }
        for (int of = 1; of < 4; ++of) {
          EXPECT_EQ(*word(*members[0], of, 0), *word(*members[static_cast<size_t>(of)], of, 0));
          EXPECT_NE(members[0]->of(static_cast<uint32_t>(of)), members[0]->of(0));
        }
      }
    }
  }));
}

TEST(LocalMemory, StaysWhileAnyRankMapsItAndIsFreedThen) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    const size_t before = free_device_bytes();
    auto members = local_group(2, MemoryProvider::kLocal, true);
    members[0] = nullptr;
    *word(*members[1], 0, 5) = 7;  // rank 0 is gone, its memory is not
    EXPECT_EQ(*word(*members[1], 0, 5), 7U);
    EXPECT_LT(free_device_bytes(), before);
    members[1] = nullptr;
    EXPECT_EQ(free_device_bytes(), before);
  }));
}

TEST(LocalMemory, ThreadsMakeAndDropGroupsAtOnce) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    const size_t before = free_device_bytes();
    std::vector<std::thread> threads;
    for (uint64_t thread = 1; thread <= 4; ++thread) {
      threads.emplace_back([thread] {
        for (uint64_t i = 0; i < 25; ++i) {
          const auto members = local_group(3, MemoryProvider::kAutomatic, true);
          for (int of = 0; of < 3; ++of) *word(*members[0], of, i) = thread;
          for (int of = 0; of < 3; ++of) EXPECT_EQ(*word(*members[2], of, i), thread);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(free_device_bytes(), before);
  }));
}

TEST(LocalMemory, RefusesMemoryThatNoMemberOfThisProcessHas) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    MemoryConfig config = config_of(MemoryProvider::kLocal, 0, 2);
    config.shared_devices = true;
    const auto own = cuda::make_symmetric_memory(config);
    MemoryBlob stranger = blob_of(own->address());
    stranger.block.id ^= 1;
    EXPECT_EQ(error_of([&] {
                own->map({own->address(), cuda::address_of(stranger)});
              }),
              "3 the memory of rank 1 is gone: no member in this process has it, so that rank has failed or left");
  }));
}

// The rank that detects this is not to blame: with this status it waits for the reason of the other rank.
TEST(LocalMemory, AMemberThatFailedBeforeTheOthersConnectedIsNoMistakeOfTheirs) {
  for (const MemoryProvider provider : {MemoryProvider::kLocal, MemoryProvider::kIpc, MemoryProvider::kAutomatic}) {
    EXPECT_TRUE(run_forked(1, [provider](Process&) {
      set_devices("2");
      auto own = cuda::make_symmetric_memory(config_of(provider, 0, 2));
      auto failed = cuda::make_symmetric_memory(config_of(provider, 1, 2));
      const std::vector<MemoryAddress> addresses = {own->address(), failed->address()};
      failed = nullptr;
      EXPECT_EQ(error_of([&] { own->map(addresses); }),
                "3 the memory of rank 1 is gone: no member in this process has it, so that rank has failed or left");
    }));
  }
}

// Otherwise the others would fail because of that, and report it before the first rank reports the real reason.
TEST(LocalMemory, StaysForTheOthersWhereARankCouldNotMapThem) {
  for (const MemoryProvider provider : {MemoryProvider::kLocal, MemoryProvider::kIpc, MemoryProvider::kAutomatic}) {
    EXPECT_TRUE(run_forked(1, [provider](Process&) {
      set_devices("2");
      ::setenv("STUB_CUDA_FAIL", "cuDeviceCanAccessPeer:999:1", 1);
      auto first = cuda::make_symmetric_memory(config_of(provider, 0, 2));
      auto second = cuda::make_symmetric_memory(config_of(provider, 1, 2));
      const std::vector<MemoryAddress> addresses = {first->address(), second->address()};
      EXPECT_NE(error_of([&] { first->map(addresses); }), "");
      ::unsetenv("STUB_CUDA_FAIL");
      EXPECT_EQ(error_of([&] { second->map(addresses); }), "");
    }));
  }
}

TEST(IpcMemory, RanksOfSeveralProcessesReachEachOther) {
  EXPECT_TRUE(run_forked(4, [](Process& process) {
    set_devices("4");
    for (const MemoryProvider provider : {MemoryProvider::kIpc, MemoryProvider::kAutomatic}) {
      const auto memory = cuda::make_symmetric_memory(config_of(provider, process.rank(), 4));
      memory->map(process.gather(memory->address()));
      EXPECT_EQ(memory->provider(), MemoryProvider::kIpc);
      exchange_words(process, *memory);
      memory->ended(GroupEnd::kOrderly);
    }
  }));
}

// As Ray starts its actors: every process sees one GPU, which it calls 0.
TEST(IpcMemory, RanksThatSeeOnlyTheirOwnGpuReachEachOther) {
  EXPECT_TRUE(run_forked(3, [](Process& process) {
    ::setenv("STUB_CUDA_FIRST_DEVICE", std::to_string(process.rank()).c_str(), 1);
    MemoryConfig config = config_of(MemoryProvider::kIpc, process.rank(), 3);
    config.device = 0;
    const auto memory = cuda::make_symmetric_memory(config);
    memory->map(process.gather(memory->address()));
    exchange_words(process, *memory);
  }));
}

TEST(IpcMemory, ThreadsAndProcessesMixInOneGroup) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    set_devices("4");
    std::vector<std::unique_ptr<SymmetricMemory>> own;
    std::vector<MemoryAddress> addresses(4);
    for (const int thread : {0, 1}) {
      own.push_back(cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, 2 * process.rank() + thread, 4)));
      const std::vector<MemoryAddress> both = process.gather(own.back()->address());
      addresses[static_cast<size_t>(thread)] = both[0];
      addresses[static_cast<size_t>(2 + thread)] = both[1];
    }
    for (const auto& memory : own) memory->map(addresses);
    process.meet();
    for (const auto& memory : own) {
      for (int peer = 0; peer < 4; ++peer) *word(*memory, peer, 0) = static_cast<uint64_t>(peer);
    }
    process.meet();
    for (const auto& memory : own) {
      for (int peer = 0; peer < 4; ++peer) EXPECT_EQ(*word(*memory, peer, 0), static_cast<uint64_t>(peer));
    }
    process.meet();
  }));
}

TEST(IpcMemory, GivesBackAllAfterAnOrderlyEndAndKeepsWhatAPeerMayStillWrite) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    ::setenv("STUB_CUDA_FIRST_DEVICE", std::to_string(process.rank()).c_str(), 1);
    MemoryConfig config = config_of(MemoryProvider::kIpc, process.rank(), 2);
    config.device = 0;
    const size_t before = free_device_bytes();
    const size_t descriptors = open_descriptors();
    for (const GroupEnd end : {GroupEnd::kOrderly, GroupEnd::kUncertain, GroupEnd::kMemberLost}) {
      {
        const auto memory = cuda::make_symmetric_memory(config);
        memory->map(process.gather(memory->address()));
        process.meet();  // as a group begins only when all have mapped
        memory->ended(end);
      }
      if (end == GroupEnd::kOrderly) {
        EXPECT_EQ(free_device_bytes(), before);
        EXPECT_EQ(open_descriptors(), descriptors);
      } else {
        EXPECT_LE(free_device_bytes(), before - kBytes);
      }
      process.meet();
    }
    // Memory whose handle was never sent cannot have been mapped.
    const size_t now = free_device_bytes();
    { const auto memory = cuda::make_symmetric_memory(config); }
    EXPECT_EQ(free_device_bytes(), now);
  }));
}

// The rank that closes first cannot know when the others close.
TEST(IpcMemory, IsFreedWhenALaterGroupIsMadeAndAllHaveLeftByThen) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    ::setenv("STUB_CUDA_FIRST_DEVICE", std::to_string(process.rank()).c_str(), 1);
    MemoryConfig config = config_of(MemoryProvider::kIpc, process.rank(), 2);
    config.device = 0;
    const size_t before = free_device_bytes();
    auto memory = cuda::make_symmetric_memory(config);
    const size_t block_bytes = before - free_device_bytes();
    memory->map(process.gather(memory->address()));
    process.meet();
    const auto others_left = std::make_shared<bool>(false);
    memory->ended(GroupEnd::kUncertain, [others_left] { return *others_left; });
    memory = nullptr;
    memory = cuda::make_symmetric_memory(config);
    EXPECT_EQ(free_device_bytes(), before - 2 * block_bytes);  // the new one's and the one that is left behind
    *others_left = true;
    const auto third = cuda::make_symmetric_memory(config);
    EXPECT_EQ(free_device_bytes(), before - 2 * block_bytes);  // both new ones'
    EXPECT_EQ(others_left.use_count(), 1);
    process.meet();
  }));
}

TEST(IpcMemory, IsKeptWhereAPeerHasMappedItAndThisRankCouldNotMapThePeers) {
  for (const MemoryProvider provider : {MemoryProvider::kIpc, MemoryProvider::kAutomatic}) {
    EXPECT_TRUE(run_forked(2, [provider](Process& process) {
      ::setenv("STUB_CUDA_FIRST_DEVICE", std::to_string(process.rank()).c_str(), 1);
      MemoryConfig config = config_of(provider, process.rank(), 2);
      config.device = 0;
      const size_t before = free_device_bytes();
      const auto peer_left = std::make_shared<bool>(false);
      auto memory = cuda::make_symmetric_memory(config);
      const std::vector<MemoryAddress> addresses = process.gather(memory->address());
      if (process.rank() == 0) stub_cuda_refuse("cuIpcOpenMemHandle_v2:201:1");
      EXPECT_EQ(error_of([&] { memory->map(addresses); }).empty(), process.rank() == 1);
      process.meet();
      if (process.rank() == 0) {
        memory->ended(GroupEnd::kUncertain, [peer_left] { return *peer_left; });
        memory = nullptr;
        EXPECT_LE(free_device_bytes(), before - kBytes) << "memory was freed that a peer has mapped";
        *peer_left = true;
        (void)cuda::make_symmetric_memory(config);
        EXPECT_EQ(free_device_bytes(), before);
      }
      process.meet();
    }));
  }
}

TEST(IpcMemory, NamesBothRanksWhoseGpusHaveNoPeerAccess) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    set_devices("2");
    ::setenv("STUB_CUDA_PEER_ACCESS", "0", 1);
    const auto memory = cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, process.rank(), 2));
    const std::string error = error_of([&] { memory->map(process.gather(memory->address())); });
    EXPECT_TRUE(contains(error, "4 the GPU of rank 0 (pid ")) << error;
    EXPECT_TRUE(contains(error, "cannot access the memory of the GPU of rank 1 (pid ")) << error;
    EXPECT_TRUE(contains(error, "GPU-abababab-abab-abab-abab-ababababab01")) << error;
    process.meet();
  }));
}

// The words of a packet that crosses PCIe may come one after the other, and nobody would notice. All ranks refuse it,
// also one that has NVLink to both.
TEST(IpcMemory, RefusesAPairOfGpusWithoutNvlinkAndNamesIt) {
  EXPECT_TRUE(run_forked(3, [](Process& process) {
    set_devices("3");
    ::setenv("STUB_CUDA_PCIE", "2-1", 1);
    for (const MemoryProvider provider : {MemoryProvider::kIpc, MemoryProvider::kAutomatic}) {
      const auto memory = cuda::make_symmetric_memory(config_of(provider, process.rank(), 3));
      const std::string error = error_of([&] { memory->map(process.gather(memory->address())); });
      EXPECT_TRUE(contains(error, "4 the GPU of rank 1 (pid ")) << error;
      EXPECT_TRUE(contains(error, ") and that of rank 2 (pid ")) << error;
      EXPECT_TRUE(contains(error, "GPU-abababab-abab-abab-abab-ababababab02) have no NVLink between them")) << error;
      process.meet();
    }
  }));
}

TEST(IpcMemory, TakesGpusWithNvlinkBesideOthersThatHaveNone) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    set_devices("3");
    ::setenv("STUB_CUDA_PCIE", "0-2,1-2", 1);
    const auto memory = cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, process.rank(), 2));
    memory->map(process.gather(memory->address()));
    exchange_words(process, *memory);
    memory->ended(GroupEnd::kOrderly);
  }));
}

TEST(LocalMemory, NeedsNoNvlinkBetweenRanksOfOneGpu) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    set_devices("2");
    ::setenv("STUB_CUDA_PCIE", "0-1", 1);
    for (const MemoryProvider provider : {MemoryProvider::kLocal, MemoryProvider::kIpc}) {
      EXPECT_EQ(error_of([&] { local_group(3, provider, true); }), "");
      EXPECT_TRUE(contains(error_of([&] { local_group(2, provider, false); }), "have no NVLink between them"));
    }
  }));
}

TEST(IpcMemory, SaysThatItDoesNotSeeTheGpuWhoseMemoryTheDriverRefusesToMap) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    ::setenv("STUB_CUDA_FIRST_DEVICE", std::to_string(process.rank()).c_str(), 1);
    ::setenv("STUB_CUDA_PEER_ACCESS", "0", 1);
    MemoryConfig config = config_of(MemoryProvider::kIpc, process.rank(), 2);
    config.device = 0;
    const auto memory = cuda::make_symmetric_memory(config);
    const std::string error = error_of([&] { memory->map(process.gather(memory->address())); });
    EXPECT_TRUE(contains(error, "whose GPU this process does not see: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED")) << error;
    process.meet();
  }));
}

// The handle of memory that was freed may lead to what was allocated at its place.
TEST(IpcMemory, RefusesAHandleThatLeadsToOtherMemoryAndMapsNothing) {
  EXPECT_TRUE(run_forked(2, [](Process& process) {
    set_devices("2");
    const size_t descriptors = open_descriptors();
    auto memory = cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, process.rank(), 2));
    MemoryAddress stale = memory->address();
    if (process.rank() == 1) {
      memory = nullptr;
      memory = cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, process.rank(), 2));
      const MemoryBlob before = blob_of(stale);
      const MemoryBlob now = blob_of(memory->address());
      ASSERT_EQ(std::memcmp(&before.block.handle, &now.block.handle, sizeof now.block.handle), 0)
          << "the stub gave another handle: this test shows nothing";
    }
    const std::vector<MemoryAddress> all = process.gather(stale);
    if (process.rank() == 0) {
      const std::string error = error_of([&] { memory->map(all); });
      EXPECT_TRUE(contains(error, "3 rank 0 (pid ")) << error;
      EXPECT_TRUE(contains(error, "maps the memory of rank 1 (pid ")) << error;
      EXPECT_TRUE(contains(error, "the handle leads to other memory, or to less")) << error;
      memory->ended(GroupEnd::kOrderly);  // rank 1 maps nothing of it either
      memory = nullptr;
      EXPECT_EQ(open_descriptors(), descriptors);
    }
    process.meet();
  }));
}

// Hostile descriptions: every field is changed, one at a time.
TEST(MemoryAddress, EveryFieldThatDiffersIsRefusedInWordsThatNameBothSides) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    set_devices("2");
    const auto own = cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, 0, 2));
    MemoryBlob good = blob_of(own->address());
    good.device.bytes[15] = 1;
    good.home.pid += 1;
    const auto refusal = [&](const std::function<void(MemoryBlob&)>& change) {
      MemoryBlob blob = good;
      change(blob);
      return error_of([&] { own->map({own->address(), cuda::address_of(blob)}); });
    };
    EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.magic = 0; }), "1 the memory address of rank 1 is none");
    EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.provider = MemoryProvider::kNvshmem; }),
              "5 rank 1 shares its memory by NVSHMEM, this rank (0) by CUDA IPC");
    EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.provider = static_cast<MemoryProvider>(77); }),
              "5 rank 1 shares its memory by a provider 77 that is none, this rank (0) by CUDA IPC");
    EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.bytes += 1; }),
              "5 rank 1 has 3145729 bytes of symmetric memory, this rank (0) has 3145728");
    EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.flags = 1; }),
              "5 rank 1 lets ranks share a GPU, this rank (0) does not");
    EXPECT_EQ(refusal([](MemoryBlob& blob) { blob.home.boot_id[0] ^= 1; }),
              "4 rank 1 is on another host than this rank (0): GPUs of several hosts cannot be one group");
    EXPECT_EQ(
        refusal([](MemoryBlob& blob) { blob.device.bytes[15] = 0; }),
        "1 ranks 0 and 1 have the same GPU, GPU-abababab-abab-abab-abab-ababababab00: every rank needs one of its "
        "own");
    const std::string elsewhere = refusal([](MemoryBlob& blob) { blob.home.pid_namespace ^= 1; });
    EXPECT_TRUE(contains(elsewhere, "from another PID namespace (containers need one --ipc and --pid namespace)"))
        << elsewhere;
    const std::string no_handle = refusal([](MemoryBlob& blob) { blob.block.handle = {}; });
    EXPECT_TRUE(contains(no_handle, "CUDA_ERROR_INVALID_VALUE")) << no_handle;
    EXPECT_EQ(error_of([&] { own->map({own->address()}); }),
              "1 there are memory addresses of 1 ranks for a group of 2");
    EXPECT_EQ(error_of([&] {
                own->map({cuda::address_of(good), own->address()});
              }),
              "1 the memory address of rank 0 is not the one that this member made");
  }));
}

// Whatever an address contains, it leads to memory that a member created for this group, or is refused.
TEST(MemoryAddress, AnyBytesAreRefusedOrHarmless) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    set_devices("2");
    int refused = 0;
    for (const MemoryProvider provider : {MemoryProvider::kLocal, MemoryProvider::kIpc, MemoryProvider::kAutomatic}) {
      for (size_t byte = 0; byte < sizeof(MemoryAddress); ++byte) {
        for (const int flip : {1, 0x80, 0xFF}) {
          const auto own = cuda::make_symmetric_memory(config_of(provider, 0, 2));
          MemoryBlob peer = blob_of(own->address());
          peer.device.bytes[0] ^= 2;
          MemoryAddress address = cuda::address_of(peer);
          address.bytes[byte] = static_cast<uint8_t>(address.bytes[byte] ^ flip);
          if (!error_of([&] { own->map({own->address(), address}); }).empty()) {
            ++refused;
          } else {
            EXPECT_EQ(own->of(1), own->of(0)) << "byte " << byte;
          }
        }
      }
    }
    EXPECT_GT(refused, 3 * 3 * 40);  // magic, provider, home, flags, size, block
  }));
}

TEST(SymmetricMemory, SaysWhatIsMissingHere) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    MemoryConfig config = config_of(MemoryProvider::kIpc, 0, 2);
    config.device = 3;
    EXPECT_EQ(error_of([&] { cuda::make_symmetric_memory(config); }),
              "4 there is no GPU 3 in this process, it sees 1, from 0 to 0");
    config.device = 0;
    config.bytes = 0;
    EXPECT_TRUE(contains(error_of([&] { cuda::make_symmetric_memory(config); }), "1 0 bytes of symmetric memory"));
    config.bytes = 2ULL << 30;  // the stub's device has 1 GiB
    EXPECT_EQ(
        error_of([&] { cuda::make_symmetric_memory(config); }),
        "3 allocating 2149580800 bytes on GPU-abababab-abab-abab-abab-ababababab00: CUDA_ERROR_OUT_OF_MEMORY (out "
        "of memory)");
  }));
  EXPECT_TRUE(run_forked(1, [](Process&) {
    set_devices("0");
    EXPECT_EQ(error_of([&] { cuda::make_symmetric_memory(config_of(MemoryProvider::kIpc, 0, 2)); }),
              "4 the CUDA backend cannot run here: NVIDIA's driver is installed, but this process sees no GPU");
  }));
}

TEST(UnitMap, FindsTheFirstRunThatIsFreeForAll) {
  using cuda::UnitMap;
  UnitMap map = UnitMap::all_free();
  EXPECT_EQ(map.first_fit(UnitMap::kUnits), 0U);
  map.take(0, 60);
  map.take(70, 58);
  EXPECT_EQ(map.first_fit(10), 60U);  // across two words
  EXPECT_EQ(map.first_fit(11), 128U);
  EXPECT_EQ(map.first_fit(129), UnitMap::kNone);
  EXPECT_EQ(map.longest_run(), 128U);
  UnitMap other = UnitMap::all_free();
  other.take(61, 1);
  map.intersect(other);
  EXPECT_EQ(map.first_fit(8), 62U);
  map.give(0, 70);
  EXPECT_EQ(map.first_fit(70), 0U);
}

}  // namespace
}  // namespace nvrar::test
