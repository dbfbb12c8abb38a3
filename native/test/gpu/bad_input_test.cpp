// Groups that cannot be created, on real GPUs: the messages of cuda_bad_input_test with a real driver, and a check that
// the GPU has as much free memory afterwards. Skipped without a GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "cuda/driver/context.h"
#include "cuda/launch/fatbin.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"

namespace nvrar::test {
namespace {

constexpr double kLimitSeconds = 60;
constexpr size_t kMiB = 1 << 20;
// The driver keeps a small part of memory that it has allocated before.
constexpr size_t kMayStay = 4 * kMiB;

// Asked in a process of its own: this one forks, and a driver that was started does not survive that.
bool has_gpu() {
  return run_forked(1, [](Process&) {
    int count = 0;
    try {
      cuda::check(cuda::driver().cuDeviceGetCount(&count), "counting the GPUs");
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(count > 0 ? 0 : 1);
  });
}

class GpuBadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/nvidiactl", F_OK) != 0) GTEST_SKIP() << "there is no GPU";
    if (cuda::kernels().empty()) GTEST_SKIP() << "the library was built without nvcc";
    ASSERT_TRUE(has_gpu());
  }
};

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  cuda::check(cuda::driver().cuMemGetInfo_v2(&free, &total), "asking for free memory");
  return free;
}

void share(nvrar_config& config) {
  config.device = 0;
  config.shared_devices = 1;
}

// On GPU 0, which has been used before, so that what the driver takes at its first use is not counted.
void on_used_gpu(const std::function<void()>& body) {
  EXPECT_TRUE(run_forked(
      1,
      [&](Process&) {
        cuda::Context context = nullptr;
        cuda::check(cuda::driver().cuDevicePrimaryCtxRetain(&context, 0), "context");
        const cuda::CurrentContext current(context);
        EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, share).error(), "");
        body();
      },
      kLimitSeconds));
}

TEST_F(GpuBadInput, AGroupTakesWhatItSaysAndGivesItBack) {
  on_used_gpu([] {
    const size_t before = free_bytes();
    {
      const Ranks group(1, NVRAR_MEMORY_IPC, [](nvrar_config& config) { config.ring_bytes = 0; });
      EXPECT_EQ(group.error(), "");
      std::printf("a group of one with rings of the default size takes %zu MiB\n", (before - free_bytes()) / kMiB);
    }
    EXPECT_GE(free_bytes() + kMayStay, before);
  });
}

TEST_F(GpuBadInput, AGpuThatIsTakenTwiceOrNotThereIsNamedAndNothingStays) {
  on_used_gpu([] {
    const size_t before = free_bytes();
    const std::string twice = Ranks(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.device = 0; }).error();
    EXPECT_TRUE(contains(twice, "1 ranks 0 and 1 have the same GPU, GPU-")) << twice;
    const std::string none = Ranks(1, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.device = 64; }).error();
    EXPECT_TRUE(contains(none, "4 there is no GPU 64 in this process, it sees ")) << none;
    std::printf("%s\n%s\n", twice.c_str(), none.c_str());
    EXPECT_GE(free_bytes() + kMayStay, before);
  });
}

TEST_F(GpuBadInput, AGpuThatIsFullIsSaidAndNothingStays) {
  on_used_gpu([] {
    const size_t leave = 64 * kMiB;
    cuda::DeviceAddress filler = 0;
    cuda::check(cuda::driver().cuMemAlloc_v2(&filler, free_bytes() - leave), "filling the GPU");
    const size_t before = free_bytes();
    const std::string full =
        Ranks(1, NVRAR_MEMORY_IPC, [](nvrar_config& config) { config.ring_bytes = uint64_t{1} << 30; }).error();
    EXPECT_TRUE(contains(full, "3 allocating ")) << full;
    EXPECT_TRUE(contains(full, "CUDA_ERROR_OUT_OF_MEMORY")) << full;
    std::printf("%s\n", full.c_str());
    EXPECT_GE(free_bytes() + kMayStay, before);
    cuda::check(cuda::driver().cuMemFree_v2(filler), "freeing");
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, share).error(), "");
  });
}

TEST_F(GpuBadInput, AnNvshmemThatIsNamedAndNotThereIsSaid) {
  // In a process that has not made a group: it would have found one.
  EXPECT_TRUE(run_forked(
      1,
      [](Process&) {
        char text[512];
        EXPECT_TRUE(
            contains(last(nvrar_find_nvshmem("/nonexistent", text, sizeof text)), "Tried: /nonexistent: not there"));
        const std::string found = last(nvrar_find_nvshmem(nullptr, text, sizeof text));
        std::printf("NVSHMEM: %s\n", found.empty() ? text : found.c_str());
      },
      kLimitSeconds));
}

}  // namespace
}  // namespace nvrar::test
