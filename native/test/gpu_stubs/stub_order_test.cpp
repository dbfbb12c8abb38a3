// That what waits for streams of the stub of libcuda waits for what was submitted by then, and for nothing later, and
// what cannot wait is refused: tests of other code rest on it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "cuda/driver/context.h"
#include "gpu_stubs/stub_gpu.h"
#include "support/forked.h"

extern "C" {
extern void (*stub_cuda_before)(const char* function);
nvrar::cuda::Result stub_cuda_hold(nvrar::cuda::Stream, int held);
nvrar::cuda::Result cuMemcpyHtoD_v2(nvrar::cuda::DeviceAddress, const void*, size_t bytes);
nvrar::cuda::Result cuEventCreate(void** event, unsigned flags);
nvrar::cuda::Result cuEventRecord(void* event, nvrar::cuda::Stream);
nvrar::cuda::Result cuEventSynchronize(void* event);
nvrar::cuda::Result cuStreamWaitEvent(nvrar::cuda::Stream, void* event, unsigned flags);
nvrar::cuda::Result cuStreamBeginCapture_v2(nvrar::cuda::Stream, int mode);
nvrar::cuda::Result cuStreamEndCapture(nvrar::cuda::Stream, void** graph);
nvrar::cuda::Result cuEventDestroy_v2(void* event);
}

namespace nvrar::test {
namespace {

using namespace std::chrono_literals;

constexpr cuda::Result kNotReady = 600;
constexpr cuda::Result kCaptureIsolation = 905;
constexpr cuda::Result kCaptureInvalidated = 901;
constexpr unsigned kBlocking = 0;  // for the legacy stream
constexpr uint32_t kValue = 7;
std::atomic<bool> synchronizes{false};

// Two streams of a GPU, and a thread that waits for one of them while the other one is held.
struct Two {
  Two() {
    cuda::check(cuda::driver().cuStreamCreate(&first, kBlocking), "creating a stream");
    cuda::check(cuda::driver().cuStreamCreate(&later, kBlocking), "creating a stream");
    hold(first, 1);
  }
  ~Two() {
    hold(later, 0);
    EXPECT_EQ(cuda::driver().cuStreamDestroy_v2(first), cuda::kSuccess);
    EXPECT_EQ(cuda::driver().cuStreamDestroy_v2(later), cuda::kSuccess);
  }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;
  static void hold(cuda::Stream stream, int held) { EXPECT_EQ(stub_cuda_hold(stream, held), cuda::kSuccess); }

  const StubStream memory{sizeof kValue};
  cuda::Stream first = nullptr;
  cuda::Stream later = nullptr;
};

std::thread on_the_gpu(const std::function<void()>& body) {
  return std::thread([body] {
    const cuda::PrimaryContext context(0);
    const cuda::CurrentContext current(context.get());
    body();
  });
}

TEST(StubOrder, ACopyThatReturnsHasBeenMade) {
  in_a_process([] {
    Two streams;
    std::thread copier = on_the_gpu([&] {
      EXPECT_EQ(cuMemcpyHtoD_v2(streams.memory.buffer(), &kValue, sizeof kValue), cuda::kSuccess);
      uint32_t copied = 0;
      std::memcpy(&copied, reinterpret_cast<const void*>(streams.memory.buffer()), sizeof copied);
      EXPECT_EQ(copied, kValue);
    });
    while (cuda::driver().cuStreamQuery(nullptr) != kNotReady) std::this_thread::sleep_for(1ms);
    Two::hold(streams.later, 1);
    Two::hold(streams.first, 0);
    copier.join();
  });
}

TEST(StubOrder, WhoWaitsForAnEventWaitsForThePlaceWhereItWasRecordedByThen) {
  in_a_process([] {
    Two streams;
    void* event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, 0), cuda::kSuccess);
    EXPECT_EQ(cuEventRecord(event, streams.first), cuda::kSuccess);
    stub_cuda_before = [](const char* function) {
      if (std::strcmp(function, "cuEventSynchronize") == 0) synchronizes = true;
    };
    std::atomic<bool> over{false};
    std::thread waiter = on_the_gpu([&] {
      EXPECT_EQ(cuEventSynchronize(event), cuda::kSuccess);
      over = true;
    });
    while (!synchronizes) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
    Two::hold(streams.later, 1);
    EXPECT_EQ(cuEventRecord(event, streams.later), cuda::kSuccess);
    EXPECT_FALSE(over);
    Two::hold(streams.first, 0);
    for (int i = 0; i < 2000 && !over; ++i) std::this_thread::sleep_for(1ms);
    Two::hold(streams.later, 0);
    waiter.join();
    EXPECT_EQ(cuEventDestroy_v2(event), cuda::kSuccess);
  });
}

// A graph would know nothing of the wait.
TEST(StubOrder, ACaptureRefusesToWaitForWhatItHasNotCaptured) {
  in_a_process([] {
    const StubStream stream(sizeof kValue);
    const auto captured = reinterpret_cast<cuda::Stream>(stream.handle());
    void* event = nullptr;
    void* graph = nullptr;
    EXPECT_EQ(cuEventCreate(&event, 0), cuda::kSuccess);
    EXPECT_EQ(cuStreamBeginCapture_v2(captured, 0), cuda::kSuccess);
    EXPECT_EQ(cuStreamWaitEvent(captured, event, 0), cuda::kSuccess) << "it was recorded nowhere";
    EXPECT_EQ(cuEventRecord(event, nullptr), cuda::kSuccess);
    EXPECT_EQ(cuStreamWaitEvent(captured, event, 0), kCaptureIsolation);
    EXPECT_EQ(cuStreamEndCapture(captured, &graph), kCaptureInvalidated);
    EXPECT_EQ(cuEventDestroy_v2(event), cuda::kSuccess);
  });
}

}  // namespace
}  // namespace nvrar::test
