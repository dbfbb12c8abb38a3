// What ranks of a group on GPUs do at its end and at its edges, over the stub of libcuda (as part of
// cuda_bad_input_test) and on real GPUs (as part of gpu_bad_input_test). If there is only one GPU, all ranks use it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "cuda/driver/context.h"
#include "cuda/launch/fatbin.h"
#include "gpu_stubs/stub_gpu.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"

namespace nvrar::test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

using StubKernel = cuda::Result (*)(const void* config, void** arguments);

StubKernel* stub_kernel() { return static_cast<StubKernel*>(::dlsym(RTLD_DEFAULT, "stub_cuda_kernel")); }

cuda::Result end_at_once(const void* config, void** arguments) {
  count_warps_ended(*static_cast<const cuda::KernelArgs*>(arguments[0]), launch_config(config));
  return cuda::kSuccess;
}

class AtTheEdges : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernels().empty()) GTEST_SKIP() << "the library was built without nvcc";
    if (stub_kernel() == nullptr && ::access("/dev/nvidiactl", F_OK) != 0) GTEST_SKIP() << "there is no GPU";
  }
};

int gpus() {
  int count = 0;
  cuda::check(cuda::driver().cuDeviceGetCount(&count), "counting the GPUs");
  return count;
}

void share_if_few(nvrar_config& config) {
  if (gpus() >= config.world_size) return;
  config.device = 0;
  config.shared_devices = 1;
}

size_t free_bytes(int ordinal) {
  const cuda::PrimaryContext context(ordinal);
  const cuda::CurrentContext current(context.get());
  size_t free = 0;
  size_t total = 0;
  cuda::check(cuda::driver().cuMemGetInfo_v2(&free, &total), "asking for free memory");
  return free;
}

struct Meeting {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  uint8_t descriptors[4 * NVRAR_DESCRIPTOR_BYTES];
};

constexpr double kLeavingSeconds = 1;  // how long a rank waits for those of other processes

// The rings are much larger than what the driver keeps for itself. Ranks that are further apart than they wait for each
// other leave memory to the next group of their process.
TEST_F(AtTheEdges, RanksThatCloseTogetherLeaveNoMemoryOfGpus) {
  void* const memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const meeting = static_cast<Meeting*>(memory);
  EXPECT_TRUE(run_forked(2, [meeting](Process& process) {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    nvrar_config config = config_of(process.rank(), 2, NVRAR_MEMORY_IPC);
    config.ring_bytes = 8 * kMiB;
    share_if_few(config);
    const cuda::PrimaryContext kept(config.device);  // the driver's own memory is allocated from here on
    if (process.rank() == 0) {
      ASSERT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, meeting->id)), "");
    }
    process.meet();
    const size_t before = free_bytes(config.device);
    process.meet();
    nvrar_comm* comm = nullptr;
    ASSERT_EQ(last(nvrar_prepare(&config, nullptr, 0, meeting->id,
                                 meeting->descriptors + process.rank() * NVRAR_DESCRIPTOR_BYTES, &comm)),
              "");
    process.meet();
    ASSERT_EQ(last(nvrar_connect(comm, meeting->descriptors)), "");
    process.meet();
    const size_t meanwhile = free_bytes(config.device);
    EXPECT_LT(meanwhile + 32 * kMiB, before) << "the rings take so much that it would be missed";
    process.meet();
    const double begin = seconds_now();
    EXPECT_EQ(last(nvrar_destroy(comm)), "");
    if (seconds_now() - begin >= kLeavingSeconds) process.shared().marks[0] = 1;
    process.meet();
    if (process.shared().marks[0] != 0) {
      const Ranks next(1, NVRAR_MEMORY_LOCAL, [&](nvrar_config& other) { other.device = config.device; });
      EXPECT_EQ(next.error(), "");
    }
    EXPECT_GT(free_bytes(config.device) + 16 * kMiB, before);
    process.meet();
  }));
  ::munmap(memory, sizeof(Meeting));
}

// A rank that leaves alone waits a second for the others, and the last one has nobody to wait for.
TEST_F(AtTheEdges, ARankThatLeavesAloneDoesNotWaitForLong) {
  void* const memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const meeting = static_cast<Meeting*>(memory);
  EXPECT_TRUE(run_forked(2, [meeting](Process& process) {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    nvrar_config config = config_of(process.rank(), 2, NVRAR_MEMORY_IPC);
    share_if_few(config);
    if (process.rank() == 0) {
      ASSERT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, meeting->id)), "");
    }
    process.meet();
    nvrar_comm* comm = nullptr;
    ASSERT_EQ(last(nvrar_prepare(&config, nullptr, 0, meeting->id,
                                 meeting->descriptors + process.rank() * NVRAR_DESCRIPTOR_BYTES, &comm)),
              "");
    process.meet();
    ASSERT_EQ(last(nvrar_connect(comm, meeting->descriptors)), "");
    process.meet();
    if (process.rank() == 1) process.meet();
    const double begin = seconds_now();
    EXPECT_EQ(last(nvrar_destroy(comm)), "");
    if (process.rank() == 0) {
      EXPECT_GE(seconds_now() - begin, 0.9 * kLeavingSeconds);
    }
    EXPECT_LT(seconds_now() - begin, 8);
    if (process.rank() == 0) process.meet();
  }));
  ::munmap(memory, sizeof(Meeting));
}

// Two ranks in each of two processes, whose threads destroy them one after the other: the first of each would wait for
// ranks that come only after its like in the other process.
TEST_F(AtTheEdges, OnlyTheLastRankOfAProcessWaitsForThoseOfOthers) {
  void* const memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const meeting = static_cast<Meeting*>(memory);
  EXPECT_TRUE(run_forked(2, [meeting](Process& process) {
    ::setenv("STUB_CUDA_DEVICES", "4", 1);
    if (process.rank() == 0) {
      ASSERT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, meeting->id)), "");
    }
    process.meet();
    nvrar_comm* comms[2] = {};
    for (int i = 0; i < 2; ++i) {
      const int rank = 2 * process.rank() + i;
      nvrar_config config = config_of(rank, 4, NVRAR_MEMORY_IPC);
      share_if_few(config);
      ASSERT_EQ(last(nvrar_prepare(&config, nullptr, 0, meeting->id,
                                   meeting->descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comms[i])),
                "");
    }
    process.meet();
    for (nvrar_comm* comm : comms) ASSERT_EQ(last(nvrar_connect(comm, meeting->descriptors)), "");
    process.meet();
    const double begin = seconds_now();
    EXPECT_EQ(last(nvrar_destroy(comms[0])), "");
    EXPECT_LT(seconds_now() - begin, 0.9 * kLeavingSeconds);
    EXPECT_EQ(last(nvrar_destroy(comms[1])), "");
    process.meet();
  }));
  ::munmap(memory, sizeof(Meeting));
}

TEST_F(AtTheEdges, ARankThatLeavesWaitsForNobodyOnceTheGroupIsAborted) {
  void* const memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const meeting = static_cast<Meeting*>(memory);
  EXPECT_TRUE(run_forked(2, [meeting](Process& process) {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    nvrar_config config = config_of(process.rank(), 2, NVRAR_MEMORY_IPC);
    share_if_few(config);
    if (process.rank() == 0) {
      ASSERT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, meeting->id)), "");
    }
    process.meet();
    nvrar_comm* comm = nullptr;
    ASSERT_EQ(last(nvrar_prepare(&config, nullptr, 0, meeting->id,
                                 meeting->descriptors + process.rank() * NVRAR_DESCRIPTOR_BYTES, &comm)),
              "");
    process.meet();
    ASSERT_EQ(last(nvrar_connect(comm, meeting->descriptors)), "");
    process.meet();
    const double begin = seconds_now();
    if (process.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_EQ(last(nvrar_abort(comm)), "");
      process.meet();
    }
    EXPECT_EQ(last(nvrar_destroy(comm)), "");
    if (process.rank() == 0) {
      EXPECT_LT(seconds_now() - begin, 0.9 * kLeavingSeconds);
      process.meet();
    }
  }));
  ::munmap(memory, sizeof(Meeting));
}

// Each rank calls from a thread of its own, because a launch on a real GPU waits for the others'.
TEST_F(AtTheEdges, ABufferThatARankDoesNotUseIsNotLookedAt) {
  in_a_process([] {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    if (StubKernel* const kernel = stub_kernel()) *kernel = end_at_once;
    const Ranks group(2, NVRAR_MEMORY_LOCAL, share_if_few);
    ASSERT_EQ(group.error(), "");
    alignas(16) static uint8_t host[4096];
    const auto unused = reinterpret_cast<uint64_t>(host);
    const auto on_rank = [&](int rank) {
      const cuda::PrimaryContext context(rank < gpus() ? rank : 0);
      const cuda::CurrentContext current(context.get());
      cuda::Stream stream = nullptr;
      cuda::DeviceAddress used = 0;
      cuda::check(cuda::driver().cuStreamCreate(&stream, cuda::kStreamNonBlocking), "creating a stream");
      cuda::check(cuda::driver().cuMemAlloc_v2(&used, 4096), "allocating");
      const auto on = reinterpret_cast<uint64_t>(stream);
      nvrar_comm* const comm = group.comm(rank);
      const bool root = rank == 1;
      EXPECT_EQ(last(nvrar_broadcast(comm, root ? used : unused, used, 64, NVRAR_FLOAT32, 1, on)), "");
      EXPECT_EQ(last(nvrar_broadcast(comm, root ? used : used + 4, used, 64, NVRAR_FLOAT32, 1, on)), "") << "overlap";
      EXPECT_EQ(last(nvrar_reduce(comm, used, root ? used : unused, 64, NVRAR_FLOAT32, NVRAR_SUM, 1, on)), "");
      cuda::check(cuda::driver().cuStreamSynchronize(stream), "waiting for the calls");
      EXPECT_EQ(last(nvrar_async_error(comm)), "");
      EXPECT_EQ(cuda::driver().cuMemFree_v2(used), cuda::kSuccess);
      EXPECT_EQ(cuda::driver().cuStreamDestroy_v2(stream), cuda::kSuccess);
    };
    std::thread other([&] { on_rank(1); });
    on_rank(0);
    other.join();
  });
}

TEST_F(AtTheEdges, ABufferThatEndsBeforeItsElementsIsRefused) {
  in_a_process([] {
    ::setenv("STUB_CUDA_DEVICES", "1", 1);
    const Ranks group(1);
    ASSERT_EQ(group.error(), "");
    const cuda::PrimaryContext context(0);
    const cuda::CurrentContext current(context.get());
    cuda::Stream stream = nullptr;
    cuda::DeviceAddress whole = 0;
    constexpr uint64_t kBytes = 64 * kMiB;
    cuda::check(cuda::driver().cuStreamCreate(&stream, cuda::kStreamNonBlocking), "creating a stream");
    cuda::check(cuda::driver().cuMemAlloc_v2(&whole, kBytes), "allocating");
    const auto on = reinterpret_cast<uint64_t>(stream);
    constexpr uint64_t kFar = uint64_t{1} << 46;  // bytes, more than any GPU has
    const auto text = [](uint64_t bytes, uint64_t room) {
      return " has " + std::to_string(bytes) + " bytes, and the memory of the GPU that it is in ends after " +
             std::to_string(room);
    };
    EXPECT_EQ(last(nvrar_all_reduce(group.comm(0), whole, whole, kFar / 4, NVRAR_FLOAT32, NVRAR_SUM,
                                    NVRAR_ALGORITHM_AUTO, on)),
              "1 send" + text(kFar, kBytes));
    const nvrar_transfer transfers[] = {{sizeof(nvrar_transfer), NVRAR_SEND, 0, NVRAR_INT8, whole, 16},
                                        {sizeof(nvrar_transfer), NVRAR_RECV, 0, NVRAR_INT8, whole + kBytes - 8, 16}};
    // The next allocation, if there is one, may be mapped directly behind this one.
    const std::string batch = last(nvrar_batch(group.comm(0), transfers, 2, on));
    EXPECT_TRUE(batch.empty() || batch == "1 a transfer's buffer" + text(16, 8)) << batch;
    EXPECT_EQ(cuda::driver().cuMemFree_v2(whole), cuda::kSuccess);
    EXPECT_EQ(cuda::driver().cuStreamDestroy_v2(stream), cuda::kSuccess);
  });
}

}  // namespace
}  // namespace nvrar::test
