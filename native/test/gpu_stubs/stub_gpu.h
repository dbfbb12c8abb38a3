// What the tests of whole groups over the stub of libcuda share.
#ifndef NVRAR_TEST_GPU_STUBS_STUB_GPU_H
#define NVRAR_TEST_GPU_STUBS_STUB_GPU_H

#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/driver/context.h"
#include "cuda/kernels/kernel_args.h"
#include "cuda/launch/fatbin.h"

namespace nvrar::test {

inline void set(const char* name, const char* value) { ::setenv(name, value, 1); }

// A library without kernels reports that before it checks anything else.
class WithKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernels().empty()) GTEST_SKIP() << "the library was built without nvcc";
  }
};

// The last that every warp of a launch does on a GPU: it counts itself. By copies of the stub, which are ordered with
// those of the library.
inline void count_warps_ended(const cuda::KernelArgs& args, const cuda::LaunchConfig& launch) {
  for (uint32_t i = 0; i < launch.grid[0]; ++i) {
    const auto address = reinterpret_cast<cuda::DeviceAddress>(&args.lines[i % cuda::kLaunchLines].ended);
    uint64_t ended = 0;
    cuda::check(cuda::copy_from_gpu(&ended, address, sizeof ended), "reading a count");
    ended += launch.block[0] / cuda::kWarpThreads;
    cuda::check(cuda::copy_to_gpu(address, &ended, sizeof ended), "writing a count");
  }
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_GPU_STUBS_STUB_GPU_H
