// Tests how the options exclusive and programmatic_launch change what is launched, over the stub of libcuda.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gpu_stubs/stub_gpu.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"

extern "C" {
size_t stub_cuda_living(void);
extern nvrar::cuda::Result (*stub_cuda_kernel)(const void* config, void** arguments);
}

namespace nvrar::test {
namespace {

struct Launched {
  uint32_t blocks;
  uint32_t threads;
  bool programmatic;
  cuda::NextLaunch next;
};
std::vector<Launched> launched;

// All calls of these tests are made by one thread, and their kernels end at once.
cuda::Result note_launch(const void* config, void** arguments) {
  const cuda::LaunchConfig launch = launch_config(config);
  cuda::KernelArgs args;
  std::memcpy(&args, arguments[0], sizeof args);  // those of a batch begin with them
  launched.push_back({launch.grid[0], launch.block[0], is_programmatic(launch), args.next});
  count_warps_ended(args, launch);
  return cuda::kSuccess;
}

class LaunchOptions : public WithKernels {
 protected:
  // What rank 0 of two launches for an all-reduce of bfloat16, a barrier and a send, under these options.
  static std::vector<Launched> launches(uint64_t bytes, const Ranks::Change& change) {
    set("STUB_CUDA_DEVICES", "2");
    stub_cuda_kernel = note_launch;
    launched.clear();
    const Ranks group(2, NVRAR_MEMORY_LOCAL, [&](nvrar_config& config) {
      config.ring_bytes = uint64_t{16} << 20;
      change(config);
    });
    EXPECT_EQ(group.error(), "");
    const StubStream stream(bytes);
    const cuda::DeviceAddress buffer = stream.buffer();
    EXPECT_EQ(last(nvrar_all_reduce(group.comm(0), buffer, buffer, bytes / 2, NVRAR_BFLOAT16, NVRAR_SUM,
                                    NVRAR_ALGORITHM_ONE_SHOT, stream.handle())),
              "");
    EXPECT_EQ(last(nvrar_barrier(group.comm(0), stream.handle())), "");
    const nvrar_transfer transfer = send_to(1, buffer, 1, NVRAR_INT32);
    EXPECT_EQ(last(nvrar_batch(group.comm(0), &transfer, 1, stream.handle())), "");
    return launched;
  }
};

constexpr uint64_t kLarge = uint64_t{8} << 20;

TEST_F(LaunchOptions, AreOffByDefault) {
  in_a_process([] {
    const std::vector<Launched> seen = launches(kLarge, [](nvrar_config&) {});
    ASSERT_EQ(seen.size(), 3U);
    for (const Launched& launch : seen) {
      EXPECT_FALSE(launch.programmatic);
      EXPECT_EQ(launch.next, cuda::NextLaunch::kAfterThis);
      EXPECT_LE(launch.blocks, 264U);  // of two groups at once
    }
  });
}

// A batch waits for nothing that the launch before it has begun, and its kernel has no wait.
TEST_F(LaunchOptions, ProgrammaticLaunchIsForCollectivesOnly) {
  in_a_process([] {
    const std::vector<Launched> seen = launches(kLarge, [](nvrar_config& config) { config.programmatic_launch = 1; });
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_TRUE(seen[0].programmatic);
    EXPECT_TRUE(seen[1].programmatic);
    EXPECT_FALSE(seen[2].programmatic);
    EXPECT_EQ(seen[0].next, cuda::NextLaunch::kOnceAllHaveIt);
    EXPECT_LE(seen[0].blocks, 264U);
  });
  in_a_process([] {
    const std::vector<Launched> seen = launches(kLarge, [](nvrar_config& config) {
      config.programmatic_launch = 1;
      config.exclusive = 1;
    });
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_TRUE(seen[0].programmatic);
    EXPECT_EQ(seen[0].next, cuda::NextLaunch::kOnceAllHaveClaimed);
  });
}

TEST_F(LaunchOptions, AnExclusiveGroupHasABlockForEveryTile) {
  in_a_process([] {
    const std::vector<Launched> seen = launches(kLarge, [](nvrar_config& config) { config.exclusive = 1; });
    ASSERT_EQ(seen.size(), 3U);
    // A caller's kernel that starts early would otherwise have to wait for a launch that is not programmatic.
    EXPECT_EQ(seen[0].next, cuda::NextLaunch::kAfterThis);
    EXPECT_EQ(seen[0].blocks, kLarge / 512 / 8 + 1);  // tiles of 512 bytes, 8 to a block; and the headers
  });
}

// One block more than the rule says, that of the headers.
TEST_F(LaunchOptions, ARuleOfTheTableShapesTheLaunchesOfItsSize) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    stub_cuda_kernel = note_launch;
    const Ranks group(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.ring_bytes = uint64_t{16} << 20; });
    ASSERT_EQ(group.error(), "");
    const StubStream stream(kLarge);
    const auto shape = [&](uint64_t bytes, int32_t algorithm) {
      launched.clear();
      EXPECT_EQ(last(nvrar_all_reduce(group.comm(0), stream.buffer(), stream.buffer(), bytes / 2, NVRAR_BFLOAT16,
                                      NVRAR_SUM, algorithm, stream.handle())),
                "");
      EXPECT_EQ(launched.size(), 1U);
      return launched.at(0);
    };
    const Launched plain = shape(1 << 20, NVRAR_ALGORITHM_TWO_SHOT);
    nvrar_tuning_rule rules[] = {rule_of(NVRAR_BFLOAT16, NVRAR_ALGORITHM_TWO_SHOT, 1 << 20),
                                 rule_of(NVRAR_BFLOAT16, NVRAR_ALGORITHM_TWO_SHOT, kLarge)};
    rules[0].blocks = 24;
    rules[0].tiles = 2;
    rules[1].threads = 64;
    ASSERT_EQ(last(nvrar_set_tuning(group.comm(0), rules, 2)), "");
    const Launched tuned = shape(1 << 20, NVRAR_ALGORITHM_AUTO);
    EXPECT_EQ(tuned.blocks, 25U);
    EXPECT_EQ(tuned.threads, 2 * 2 * 32U) << "a tile takes a warp for each rank";
    EXPECT_NE(plain.blocks, tuned.blocks);
    EXPECT_EQ(shape(kLarge, NVRAR_ALGORITHM_AUTO).threads, 64U);
    EXPECT_NE(shape(1 << 20, NVRAR_ALGORITHM_ONE_SHOT).blocks, 25U) << "another algorithm than the rule's";

    rules[0].architecture = rules[1].architecture = NVRAR_ARCHITECTURE_X86_64;
    const std::string refused = last(nvrar_set_tuning(group.comm(0), rules, 2));
    EXPECT_NE(refused.find("the tuning table was made for x86-64, and rank 0 has compute capability"),
              std::string::npos)
        << refused;
    EXPECT_EQ(shape(1 << 20, NVRAR_ALGORITHM_AUTO).blocks, 25U) << "the table before it is still there";
    ASSERT_EQ(last(nvrar_set_tuning(group.comm(0), nullptr, 0)), "");
    EXPECT_EQ(shape(1 << 20, NVRAR_ALGORITHM_TWO_SHOT).blocks, plain.blocks);
  });
}

TEST_F(LaunchOptions, ProgrammaticLaunchIsRefusedOnOlderGpus) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    set("STUB_CUDA_COMPUTE_CAPABILITY", "80");
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.programmatic_launch = 1; }).error(),
              "1 programmatic_launch needs compute capability 9.0 or newer, GPU 0 has 8.0");
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.exclusive = 1; }).error(), "");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

// PTX for an older GPU, which a build without an image for this one runs here, has no such kernels.
TEST_F(LaunchOptions, ProgrammaticLaunchIsRefusedWithoutKernelsForIt) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    set("STUB_CUDA_OLD_PTX", "1");
    EXPECT_EQ(Ranks(2).error(), "");
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.programmatic_launch = 1; }).error(),
              "1 this build of libnvrar has no kernels with programmatic_launch for GPU 0 (compute capability 9.0)");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

TEST_F(LaunchOptions, RanksOfAGroupAreExclusiveTogether) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    EXPECT_EQ(
        Ranks(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.exclusive = config.rank == 1 ? 1 : 0; }).error(),
        "5 the group is exclusive on rank 1 and not exclusive on this rank (0)");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

}  // namespace
}  // namespace nvrar::test
