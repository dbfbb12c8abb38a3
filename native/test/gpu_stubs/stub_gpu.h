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

// The last that every block of a launch does on a GPU: it counts itself. By copies of the stub, which are ordered with
// those of the library.
inline void count_blocks_ended(const cuda::KernelArgs& args, uint32_t blocks) {
  for (uint32_t i = 0; i < blocks; ++i) {
    const auto address = reinterpret_cast<cuda::DeviceAddress>(&args.state->blocks[i].ended);
    uint64_t ended = 0;
    cuda::check(cuda::copy_from_gpu(&ended, address, sizeof ended), "reading a count");
    ++ended;
    cuda::check(cuda::copy_to_gpu(address, &ended, sizeof ended), "writing a count");
  }
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_GPU_STUBS_STUB_GPU_H
