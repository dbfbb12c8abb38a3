// What is launched for fused all-reduces, over the stub of libcuda, whose clusters have at most 8 blocks.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "call/algorithm.h"
#include "cuda/kernels/launch/fused_args.h"
#include "gpu_stubs/stub_gpu.h"
#include "protocol/fusion.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"

extern "C" {
extern nvrar::cuda::Result (*stub_cuda_kernel)(const void* config, void** arguments);
}

namespace nvrar::test {
namespace {

struct Launched {
  uint32_t blocks;
  uint32_t cluster;  // 1: none
  bool programmatic;
  cuda::FusedArgs args;
};
std::vector<Launched> launched;  // for a fused call
bool in_fused_call = false;

cuda::Result note_launch(const void* config, void** arguments) {
  const cuda::LaunchConfig launch = launch_config(config);
  cuda::KernelArgs common;
  std::memcpy(&common, arguments[0], sizeof common);
  count_warps_ended(common, launch);
  if (!in_fused_call) return cuda::kSuccess;
  Launched seen{launch.grid[0], 1, is_programmatic(launch), {}};
  std::memcpy(&seen.args, arguments[0], sizeof seen.args);
  for (unsigned i = 0; i < launch.attribute_count; ++i) {
    const cuda::LaunchAttribute& attribute = launch.attributes[i];
    if (attribute.id == cuda::kClusterDimension) seen.cluster = attribute.cluster[0];
  }
  launched.push_back(seen);
  return cuda::kSuccess;
}

class FusedLaunches : public WithKernels {
 protected:
  using Fill = std::function<void(nvrar_fused_all_reduce&)>;
  // The error of a rank for a call that `fill` has changed; "" for none. `launched` has its launches.
  static std::string call(const Ranks::Change& change, const Fill& fill, int devices = 2, int rank = 0, int ranks = 2) {
    set("STUB_CUDA_DEVICES", std::to_string(devices).c_str());
    stub_cuda_kernel = note_launch;
    launched.clear();
    const Ranks group(ranks, NVRAR_MEMORY_LOCAL, [&](nvrar_config& config) {
      config.ring_bytes = uint64_t{16} << 20;
      change(config);
    });
    EXPECT_EQ(group.error(), "");
    constexpr uint64_t kRoom = uint64_t{32} << 20;
    const StubStream stream(6 * kRoom);
    const cuda::DeviceAddress buffer = stream.buffer();
    nvrar_fused_all_reduce call{};
    call.size = sizeof call;
    call.form = NVRAR_FUSION_RMS_NORM;
    call.data_type = NVRAR_BFLOAT16;
    call.rows = 3;
    call.hidden = 8192;
    call.eps = 1e-6F;
    call.input = buffer;
    call.residual = buffer + kRoom;
    call.weight = buffer + 2 * kRoom;
    call.residual_out = buffer + 3 * kRoom;
    call.output = buffer + 4 * kRoom;
    fill(call);
    in_fused_call = true;
    const std::string error = last(nvrar_all_reduce_fused(group.comm(rank), &call, stream.handle()));
    in_fused_call = false;
    // A refused call leaves the group as it was.
    EXPECT_EQ(last(nvrar_barrier(group.comm(rank), stream.handle())), "");
    return error;
  }
  static void exclusive(nvrar_config& config) {
    config.exclusive = 1;
    config.programmatic_launch = 1;
  }
};

TEST_F(FusedLaunches, OfANormAreWholeClusters) {
  in_a_process([] {
    EXPECT_EQ(call(exclusive, [](nvrar_fused_all_reduce&) {}), "");
    ASSERT_EQ(launched.size(), 1U);
    EXPECT_EQ(launched[0].cluster, 8U);
    EXPECT_EQ(launched[0].blocks, 8 + 3 * 8U) << "a cluster with the headers, and one for each row";
    EXPECT_TRUE(launched[0].programmatic);
    EXPECT_EQ(launched[0].args.row_bytes, 16384U);
    EXPECT_EQ(launched[0].args.header_blocks, 8U);
    EXPECT_EQ(launched[0].args.eps, 1e-6F);
  });
}

// Blocks of teams have so few tiles that those of a one-shot of a long row would repeat.
TEST_F(FusedLaunches, AreTwoShotsWhereTheBlocksOfAOneShotWouldRepeat) {
  const auto algorithm_of = [](uint32_t hidden, int32_t algorithm) {
    EXPECT_EQ(call(
                  exclusive,
                  [&](nvrar_fused_all_reduce& given) {
                    given.hidden = hidden;
                    given.rows = 1;
                    given.algorithm = algorithm;
                  },
                  4, 0, 4),
              "");
    return launched.size() == 1 ? static_cast<Algorithm>(launched[0].args.algorithm) : Algorithm::kBarrier;
  };
  in_a_process([&] {
    EXPECT_EQ(algorithm_of(4096, NVRAR_ALGORITHM_AUTO), Algorithm::kOneShot);
    EXPECT_EQ(algorithm_of(8192, NVRAR_ALGORITHM_AUTO), Algorithm::kTwoShot);
    EXPECT_EQ(algorithm_of(8192, NVRAR_ALGORITHM_ONE_SHOT), Algorithm::kOneShot) << "the caller's own choice";
  });
}

// A two-shot between two ranks sends as much in two hops.
TEST_F(FusedLaunches, OfTwoRanksAreOneShotsEvenIfTheirBlocksRepeat) {
  in_a_process([] {
    const auto repeats = [](nvrar_fused_all_reduce& given) {
      given.data_type = NVRAR_FLOAT32;
      given.rows = 22;
      given.hidden = 5120;
    };
    EXPECT_EQ(call([](nvrar_config&) {}, repeats), "");
    ASSERT_EQ(launched.size(), 1U);
    const cuda::FusedArgs& args = launched[0].args;
    EXPECT_EQ(static_cast<Algorithm>(args.algorithm), Algorithm::kOneShot);
    EXPECT_EQ(args.blocks_per_row, 3U) << "of 8 tiles, and a row has 40";
  });
}

TEST_F(FusedLaunches, OfManyRowsTakeWhatADefaultGroupMayHoldOfAGpu) {
  in_a_process([] {
    EXPECT_EQ(call([](nvrar_config&) {}, [](nvrar_fused_all_reduce& given) { given.rows = 600; }), "");
    ASSERT_GT(launched.size(), 1U);
    uint64_t rows = 0;
    for (const Launched& launch : launched) {
      EXPECT_LE(launch.blocks, 264U);
      EXPECT_EQ(launch.blocks % launch.cluster, 0U);
      EXPECT_EQ(reinterpret_cast<uint64_t>(launch.args.residual_out) -
                    reinterpret_cast<uint64_t>(launched[0].args.residual_out),
                rows * launch.args.row_bytes);
      rows += launch.args.launch.bytes / launch.args.row_bytes;
    }
    EXPECT_EQ(rows, 600U);
  });
}

TEST_F(FusedLaunches, OfTheOtherFormsHaveNoClusters) {
  in_a_process([] {
    const std::string error = call(exclusive, [](nvrar_fused_all_reduce& given) {
      given.form = NVRAR_FUSION_RMS_FOLD;
      given.eps = 0;
      given.squares = given.output + (uint64_t{32} << 20);
    });
    EXPECT_EQ(error, "");
    ASSERT_EQ(launched.size(), 1U);
    EXPECT_EQ(launched[0].cluster, 1U);
    EXPECT_EQ(launched[0].blocks, 1 + 3 * 16U);
  });
}

TEST_F(FusedLaunches, BelowComputeCapability9HaveABlockForEachRow) {
  in_a_process([] {
    set("STUB_CUDA_COMPUTE_CAPABILITY", "80");
    EXPECT_EQ(call([](nvrar_config& config) { config.exclusive = 1; }, [](nvrar_fused_all_reduce&) {}), "");
    ASSERT_EQ(launched.size(), 1U);
    EXPECT_EQ(launched[0].cluster, 1U);
    EXPECT_EQ(launched[0].args.blocks_per_row, 1U);
  });
}

// Its kernels are for older GPUs, whatever this one has.
TEST_F(FusedLaunches, OfOldPtxHaveNoClusters) {
  in_a_process([] {
    set("STUB_CUDA_OLD_PTX", "1");
    EXPECT_EQ(call([](nvrar_config&) {}, [](nvrar_fused_all_reduce&) {}), "");
    ASSERT_EQ(launched.size(), 1U);
    EXPECT_EQ(launched[0].cluster, 1U);
    EXPECT_EQ(launched[0].args.blocks_per_row, 1U);
  });
}

TEST_F(FusedLaunches, OfNoRowsAreNone) {
  for (const int32_t form : {NVRAR_FUSION_RESIDUAL, NVRAR_FUSION_BIAS, NVRAR_FUSION_RMS_NORM}) {
    in_a_process([form] {
      const std::string error = call([](nvrar_config&) {},
                                     [form](nvrar_fused_all_reduce& given) {
                                       given.form = form;
                                       given.rows = 0;
                                       if (form == NVRAR_FUSION_RMS_NORM) return;
                                       given.eps = 0;
                                       given.residual_out = 0;
                                       (form == NVRAR_FUSION_RESIDUAL ? given.weight : given.residual) = 0;
                                     });
      EXPECT_EQ(error, "");
      EXPECT_TRUE(launched.empty());
    });
  }
}

// How many rows a launch has depends on how many launches a GPU may have to hold; all ranks have the same.
TEST_F(FusedLaunches, AreTheSameOnRanksOfWhichOnlySomeStartEarly) {
  in_a_process([] {
    std::vector<uint32_t> hashes;
    for (const int rank : {0, 1}) {
      const auto change = [](nvrar_config& config) {
        config.exclusive = 1;
        config.device = 0;
        config.shared_devices = 1;
        config.programmatic_launch = config.rank == 1 ? 1 : 0;
      };
      EXPECT_EQ(call(
                    change, [](nvrar_fused_all_reduce& given) { given.rows = 300; }, 1, rank),
                "");
      ASSERT_FALSE(launched.empty());
      hashes.push_back(launched[0].args.launch.header_hash);
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  });
}

TEST_F(FusedLaunches, AreRefusedWhereARowDoesNotFitTheRings) {
  in_a_process([] {
    EXPECT_EQ(call([](nvrar_config& config) { config.ring_bytes = 8192; }, [](nvrar_fused_all_reduce&) {}),
              "1 a row of 16384 bytes of 2 ranks does not fit into ring_bytes 8192");
    EXPECT_TRUE(launched.empty());
  });
}

TEST_F(FusedLaunches, AreRefusedInSeveralNodes) {
  in_a_process([] {
    EXPECT_EQ(call([](nvrar_config& config) { config.ranks_per_node = 1; }, [](nvrar_fused_all_reduce&) {}),
              "1 a fused all-reduce on GPUs of one host needs all ranks in one node, and this group has 2");
    EXPECT_TRUE(launched.empty());
  });
}

}  // namespace
}  // namespace nvrar::test
