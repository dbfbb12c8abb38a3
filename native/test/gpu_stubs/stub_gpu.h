// What the tests of whole groups over the stub of libcuda share.
#ifndef NVRAR_TEST_GPU_STUBS_STUB_GPU_H
#define NVRAR_TEST_GPU_STUBS_STUB_GPU_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "cuda/driver/context.h"
#include "cuda/kernels/launch/kernel_args.h"
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

inline cuda::LaunchConfig launch_config(const void* given) {
  cuda::LaunchConfig config;
  std::memcpy(&config, given, sizeof config);
  return config;
}
inline bool is_programmatic(const cuda::LaunchConfig& launch) {
  bool programmatic = false;
  for (unsigned i = 0; i < launch.attribute_count; ++i) {
    const cuda::LaunchAttribute& attribute = launch.attributes[i];
    if (attribute.id == cuda::kProgrammaticStreamSerialization) programmatic = attribute.value == 1;
  }
  return programmatic;
}

// A stream and memory of the first GPU, whose context is current until they are freed.
class StubStream {
 public:
  explicit StubStream(uint64_t bytes) : device_(std::make_shared<cuda::PrimaryContext>(0)), current_(device_->get()) {
    cuda::check(cuda::driver().cuStreamCreate(&stream_, cuda::kStreamNonBlocking), "creating a stream");
    cuda::check(cuda::driver().cuMemAlloc_v2(&buffer_, bytes), "allocating");
  }
  ~StubStream() {
    EXPECT_EQ(cuda::driver().cuMemFree_v2(buffer_), cuda::kSuccess);
    EXPECT_EQ(cuda::driver().cuStreamDestroy_v2(stream_), cuda::kSuccess);
  }
  StubStream(const StubStream&) = delete;
  StubStream& operator=(const StubStream&) = delete;
  uint64_t handle() const { return reinterpret_cast<uint64_t>(stream_); }
  cuda::DeviceAddress buffer() const { return buffer_; }

 private:
  std::shared_ptr<cuda::PrimaryContext> device_;
  cuda::CurrentContext current_;
  cuda::Stream stream_ = nullptr;
  cuda::DeviceAddress buffer_ = 0;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_GPU_STUBS_STUB_GPU_H
