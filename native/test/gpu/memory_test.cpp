// Symmetric memory on real GPUs, by every provider: what the stubs of cuda_memory_test cannot show. Ranks are
// processes, rank r on GPU r, and reach each other by the driver's own stores and copies; no kernel of ours is needed.
// Without GPUs the tests are skipped, and without NVSHMEM those that need it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cuda/memory/device_memory.h"
#include "cuda/memory/symmetric_memory.h"
#include "cuda/nvshmem/nvshmem.h"
#include "support/forked.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

using cuda::GroupEnd;
using cuda::MemoryAddress;
using cuda::MemoryConfig;
using cuda::MemoryProvider;
using cuda::NvshmemId;
using cuda::SymmetricMemory;

constexpr uint64_t kBytes = uint64_t{16} << 20;
constexpr uint64_t kArenaBytes = uint64_t{64} << 20;
constexpr uint64_t kWords = 1024;  // of a store
constexpr double kLimitSeconds = 120;

// NVRAR_TEST_GPUS, or all. Without the driver: a process that has started it cannot be forked.
int gpus() {
  if (const char* asked = std::getenv("NVRAR_TEST_GPUS")) return std::min(std::atoi(asked), kMaxForked);
  int count = 0;
  while (count < kMaxForked && std::filesystem::exists("/dev/nvidia" + std::to_string(count))) ++count;
  return count;
}

bool has_nvshmem() {
  const std::vector<std::string> candidates = cuda::nvshmem_candidates({});
  return std::any_of(candidates.begin(), candidates.end(),
                     [](const std::string& path) { return std::filesystem::exists(path); });
}

enum class Sees { kAll, kItsOwn };  // as Ray starts an actor with one GPU: which it then calls 0

// A rank's GPU.
class Gpu {
 public:
  explicit Gpu(int32_t ordinal) : context_(ordinal) {
    const cuda::CurrentContext current(context_.get());
    cuda::check(cuda::driver().cuStreamCreate(&stream_, cuda::kStreamNonBlocking), "creating a stream");
  }
  void store(uint64_t address, uint32_t value) const {
    const cuda::CurrentContext current(context_.get());
    cuda::check(cuda::driver().cuMemsetD32Async(address, value, kWords, stream_), "storing to a peer");
    cuda::check(cuda::driver().cuStreamSynchronize(stream_), "storing to a peer");
  }
  uint32_t load(uint64_t address) const {
    const cuda::CurrentContext current(context_.get());
    uint32_t value = 0;
    cuda::check(cuda::copy_from_gpu(&value, address, sizeof value), "loading");
    return value;
  }
  uint64_t free_bytes() const {
    const cuda::CurrentContext current(context_.get());
    size_t free = 0;
    size_t total = 0;
    cuda::check(cuda::driver().cuMemGetInfo_v2(&free, &total), "asking for free memory");
    return free;
  }

 private:
  cuda::PrimaryContext context_;
  cuda::Stream stream_ = nullptr;
};

MemoryConfig config_of(MemoryProvider provider, int rank, int world, Sees sees, const NvshmemId& id = {}) {
  if (sees == Sees::kItsOwn) ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
  MemoryConfig config;
  config.provider = provider;
  config.bytes = kBytes;
  config.device = sees == Sees::kItsOwn ? 0 : rank;
  config.rank = static_cast<uint32_t>(rank);
  config.world = static_cast<uint32_t>(world);
  config.nvshmem.arena_bytes = kArenaBytes;
  config.nvshmem.deadline_ns = 60'000 * kMs;
  config.nvshmem_id = id;
  return config;
}

uint32_t value_of(uint32_t writer, uint32_t to) { return 1000 * writer + to + 1; }

// Every rank stores at its place in every rank's memory, the last of them at the very end; all find what they must.
void exchange(Process& process, const Gpu& gpu, const SymmetricMemory& memory, uint32_t rank, uint32_t world) {
  const auto place = [&](uint32_t writer) {
    return writer + 1 == world ? kBytes - kWords * sizeof(uint32_t) : writer * kWords * sizeof(uint32_t);
  };
  for (uint32_t to = 0; to < world; ++to) gpu.store(memory.of(to) + place(rank), value_of(rank, to));
  process.meet();
  for (uint32_t writer = 0; writer < world; ++writer) {
    const uint64_t begin = memory.of(rank) + place(writer);
    EXPECT_EQ(gpu.load(begin), value_of(writer, rank)) << "from rank " << writer;
    EXPECT_EQ(gpu.load(begin + (kWords - 1) * sizeof(uint32_t)), value_of(writer, rank)) << "from rank " << writer;
    EXPECT_EQ(gpu.load(memory.of(writer) + place(rank)), value_of(rank, writer)) << "read back from rank " << writer;
  }
  process.meet();
}

void expect_local_group(const std::vector<int32_t>& devices) {
  const auto world = static_cast<uint32_t>(devices.size());
  std::vector<std::unique_ptr<SymmetricMemory>> members;
  std::vector<MemoryAddress> addresses;
  for (uint32_t rank = 0; rank < world; ++rank) {
    MemoryConfig config =
        config_of(MemoryProvider::kLocal, static_cast<int>(rank), static_cast<int>(world), Sees::kAll);
    config.device = devices[rank];
    config.shared_devices = true;
    members.push_back(cuda::make_symmetric_memory(config));
    addresses.push_back(members.back()->address());
  }
  for (const auto& member : members) member->map(addresses);
  for (uint32_t writer = 0; writer < world; ++writer) {
    const Gpu gpu(devices[writer]);
    for (uint32_t to = 0; to < world; ++to) gpu.store(members[writer]->of(to), value_of(writer, to));
    for (uint32_t to = 0; to < world; ++to) {
      EXPECT_EQ(Gpu(devices[to]).load(members[to]->of(to)), value_of(writer, to)) << writer << " to " << to;
    }
  }
}

TEST(GpuMemory, RanksOfOneProcessReachEachOtherOnOneGpuAndOnAll) {
  if (gpus() == 0) GTEST_SKIP() << "there is no GPU";
  EXPECT_TRUE(run_forked(
      1,
      [](Process&) {
        expect_local_group({0, 0, 0, 0});
      },
      kLimitSeconds));
  EXPECT_TRUE(run_forked(
      1,
      [](Process&) {
        std::vector<int32_t> devices;
        for (int device = 0; device < gpus(); ++device) devices.push_back(device);
        expect_local_group(devices);
      },
      kLimitSeconds));
}

class GpuMemoryOfProcesses : public ::testing::TestWithParam<Sees> {};

TEST_P(GpuMemoryOfProcesses, IsReachedByCudaIpc) {
  if (gpus() < 2) GTEST_SKIP() << "there are fewer than 2 GPUs";
  EXPECT_TRUE(run_forked(
      gpus(),
      [](Process& process) {
        const MemoryConfig config = config_of(MemoryProvider::kIpc, process.rank(), process.count(), GetParam());
        const Gpu gpu(config.device);
        for (int round = 0; round < 3; ++round) {
          const uint64_t before = gpu.free_bytes();
          auto memory = cuda::make_symmetric_memory(config);
          memory->map(process.gather(memory->address()));
          process.meet();
          exchange(process, gpu, *memory, config.rank, config.world);
          memory->ended(GroupEnd::kOrderly);
          memory = nullptr;
          process.meet();
          if (round > 0) {  // the first one also makes what the driver keeps
            EXPECT_EQ(gpu.free_bytes(), before);
          }
        }
      },
      kLimitSeconds));
}

NvshmemId make_id(Process& process, const MemoryConfig& config) {
  return process.spread(process.rank() == 0 ? cuda::make_nvshmem_id(config.nvshmem) : NvshmemId{});
}

TEST_P(GpuMemoryOfProcesses, IsReachedByNvshmemInSlicesOfOneArena) {
  if (gpus() < 2) GTEST_SKIP() << "there are fewer than 2 GPUs";
  if (!has_nvshmem()) GTEST_SKIP() << "there is no NVSHMEM";
  EXPECT_TRUE(run_forked(
      gpus(),
      [](Process& process) {
        MemoryConfig config = config_of(MemoryProvider::kNvshmem, process.rank(), process.count(), GetParam());
        const Gpu gpu(config.device);
        config.nvshmem_id = make_id(process, config);
        const uint64_t free_before = gpu.free_bytes();
        auto first = cuda::make_symmetric_memory(config);
        const std::vector<MemoryAddress> all = process.gather(first->address());
        const double begin = seconds_now();
        first->map(all);
        const double seconds = seconds_now() - begin;
        if (process.rank() == 0) {
          const cuda::Nvshmem& library = cuda::nvshmem(config.nvshmem);
          std::printf(
              "[ MEASURED ] NVSHMEM %s (%s): %.2f s to begin, %.1f MiB of GPU memory with an arena of %.1f MiB\n",
              library.version.text().c_str(), library.path.c_str(), seconds,
              static_cast<double>(free_before - gpu.free_bytes()) / (1 << 20),
              static_cast<double>(kArenaBytes) / (1 << 20));
        }
        process.meet();
        exchange(process, gpu, *first, config.rank, config.world);

        // The same processes in the opposite order, beside the first group.
        config.rank = config.world - 1 - config.rank;
        const auto second = cuda::make_symmetric_memory(config);
        std::vector<MemoryAddress> turned = process.gather(second->address());
        std::reverse(turned.begin(), turned.end());
        second->map(turned);
        process.meet();
        exchange(process, gpu, *second, config.rank, config.world);
        const auto own = static_cast<uint32_t>(process.rank());
        EXPECT_EQ(gpu.load(first->of(own)), value_of(0, own)) << "the second group wrote to the first one's slice";
        EXPECT_EQ(first->of(own) + kBytes, second->of(config.rank));
        process.meet();
      },
      kLimitSeconds));
}

INSTANTIATE_TEST_SUITE_P(Sees, GpuMemoryOfProcesses, ::testing::Values(Sees::kAll, Sees::kItsOwn),
                         [](const auto& sees) {
                           return std::string(sees.param == Sees::kAll ? "AllGpus" : "ItsOwnGpu");
                         });

TEST(GpuMemory, AProcessInAnNvshmemWorldEndsByItselfAfterAPeerWasKilled) {
  if (gpus() < 2) GTEST_SKIP() << "there are fewer than 2 GPUs";
  if (!has_nvshmem()) GTEST_SKIP() << "there is no NVSHMEM";
  const int victim = gpus() - 1;
  EXPECT_TRUE(run_forked(
      gpus(),
      [&](Process& process) {
        MemoryConfig config = config_of(MemoryProvider::kNvshmem, process.rank(), process.count(), Sees::kItsOwn);
        config.nvshmem_id = make_id(process, config);
        auto memory = cuda::make_symmetric_memory(config);
        memory->map(process.gather(memory->address()));
        process.meet();
        if (process.rank() == victim) ::kill(::getpid(), SIGKILL);
        memory->ended(GroupEnd::kMemberLost);
        memory = nullptr;
        EXPECT_TRUE(contains(error_of([&] { cuda::make_symmetric_memory(config); }), "was lost or aborted"));
        std::fflush(nullptr);
        std::exit(HasFailure() ? 1 : 0);  // with what NVSHMEM has put into atexit
      },
      kLimitSeconds, victim));
}

TEST(GpuMemory, AnNvshmemInitialisationThatAMemberMissesIsLeftAtItsDeadline) {
  if (gpus() < 2) GTEST_SKIP() << "there are fewer than 2 GPUs";
  if (!has_nvshmem()) GTEST_SKIP() << "there is no NVSHMEM";
  EXPECT_TRUE(run_forked(
      gpus(),
      [](Process& process) {
        MemoryConfig config = config_of(MemoryProvider::kNvshmem, process.rank(), process.count(), Sees::kItsOwn);
        config.nvshmem_id = make_id(process, config);
        config.nvshmem.deadline_ns = 5'000 * kMs;
        const auto memory = cuda::make_symmetric_memory(config);
        const std::vector<MemoryAddress> all = process.gather(memory->address());
        if (process.rank() != process.count() - 1) {
          const std::string error = error_of([&] { memory->map(all); });
          EXPECT_TRUE(contains(error, "6 NVSHMEM's initialisation on rank")) << error;
        }
        process.meet();
        std::fflush(nullptr);
        std::exit(HasFailure() ? 1 : 0);  // beside the thread that still waits
      },
      kLimitSeconds));
}

}  // namespace
}  // namespace nvrar::test
