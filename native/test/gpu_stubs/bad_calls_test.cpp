// Invalid calls of a group on GPUs, over the stub of libcuda (as part of cuda_bad_input_test) and on real GPUs (as part
// of gpu_bad_input_test). If there is only one GPU, both ranks use it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "cuda/driver/context.h"
#include "cuda/launch/fatbin.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"

namespace nvrar::test {
namespace {

int gpus() {
  int count = 0;
  cuda::check(cuda::driver().cuDeviceGetCount(&count), "counting the GPUs");
  return count;
}

struct OnGpu {
  explicit OnGpu(int ordinal) {
    const cuda::Driver& driver = cuda::driver();
    cuda::check(driver.cuDevicePrimaryCtxRetain(&context, ordinal), "context");
    const cuda::CurrentContext current(context);
    cuda::check(driver.cuMemAlloc_v2(&memory, 4096), "memory");
    cuda::check(driver.cuMemHostAlloc(&pinned, 4096, 0), "pinned memory");
    cuda::check(driver.cuStreamCreate(&stream, cuda::kStreamNonBlocking), "stream");
  }
  cuda::Context context = nullptr;
  cuda::DeviceAddress memory = 0;
  void* pinned = nullptr;
  cuda::Stream stream = nullptr;
};

// A refused call leaves the group unchanged and has no number, and its message names the given and the required value.
TEST(BadCall, IsRefusedInWordsThatNameBothSidesAndHasNoNumber) {
  if (cuda::kernels().empty()) GTEST_SKIP() << "the library was built without nvcc";
  const bool stub = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr;  // it is linked
  if (!stub && ::access("/dev/nvidiactl", F_OK) != 0) GTEST_SKIP() << "there is no GPU";
  EXPECT_TRUE(run_forked(1, [](Process&) {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    ASSERT_GT(gpus(), 0);
    const bool one = gpus() < 2;
    const Ranks group(2, NVRAR_MEMORY_LOCAL, [one](nvrar_config& config) {
      if (!one) return;
      config.device = 0;
      config.shared_devices = 1;
    });
    ASSERT_EQ(group.error(), "");
    const OnGpu gpu(0);
    const auto stream = reinterpret_cast<uint64_t>(gpu.stream);
    std::vector<float> values(1024);
    const auto on_host = reinterpret_cast<uint64_t>(values.data());
    const auto pinned = reinterpret_cast<uint64_t>(gpu.pinned);
    const cuda::DeviceAddress own = gpu.memory;
    const auto reduce = [&](uint64_t send, uint64_t recv, uint64_t on, int32_t type = NVRAR_FLOAT32,
                            int32_t op = NVRAR_SUM) {
      return last(nvrar_all_reduce(group.comm(0), send, recv, 4, type, op, NVRAR_ALGORITHM_AUTO, on));
    };
    EXPECT_EQ(reduce(on_host, own, stream), "1 send is not memory of a GPU, and this group is on GPU 0");
    EXPECT_EQ(reduce(own, on_host, stream), "1 recv is not memory of a GPU, and this group is on GPU 0");
    EXPECT_EQ(reduce(pinned, own, stream), "1 send is not memory of a GPU, and this group is on GPU 0");
    EXPECT_EQ(reduce(own, own, 0), "1 stream is 0: a GPU call needs a stream");
    EXPECT_EQ(reduce(own, own, stream, NVRAR_INT32, NVRAR_AVG), "1 AVG is for floats, and the elements are int32");
    EXPECT_EQ(reduce(own, own, stream, 5), "1 there is no data type 5");
    EXPECT_EQ(last(nvrar_barrier(group.comm(0), 0)), "1 stream is 0: a GPU call needs a stream");
    const nvrar_transfer transfer = send_to(1, on_host, 4);
    EXPECT_EQ(last(nvrar_batch(group.comm(0), &transfer, 1, stream)),
              "1 a transfer's buffer is not memory of a GPU, and this group is on GPU 0");
    if (!one) {
      const OnGpu other(1);
      EXPECT_EQ(reduce(other.memory, own, stream), "1 send is memory of GPU 1, this group is on GPU 0");
      EXPECT_EQ(reduce(own, other.memory, stream), "1 recv is memory of GPU 1, this group is on GPU 0");
      EXPECT_EQ(reduce(own, own, reinterpret_cast<uint64_t>(other.stream)),
                "1 stream is one of GPU 1, this group is on GPU 0");
    }

    EXPECT_EQ(nvrar_async_error(group.comm(0)), NVRAR_OK);
    nvrar_call call{};
    call.size = sizeof call;
    EXPECT_EQ(nvrar_call_of(group.comm(0), 0, &call), NVRAR_OK);
    EXPECT_EQ(call.state, NVRAR_CALL_NONE) << call.sequence;
    EXPECT_EQ(nvrar_all_reduce(group.comm(0), own, own, 0, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, stream),
              NVRAR_OK);
    EXPECT_EQ(nvrar_call_of(group.comm(0), 0, &call), NVRAR_OK);
    EXPECT_EQ(call.sequence, 1U);
  }));
}

}  // namespace
}  // namespace nvrar::test
