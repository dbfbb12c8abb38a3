// Tests what happens to enqueued GPU work when its communicator is destroyed, when a launch fails and when a peer
// aborts, over the stub of libcuda, whose kernels are controlled by these tests.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/context.h"
#include "cuda/kernels/launch/kernel_args.h"
#include "cuda/launch/fatbin.h"
#include "gpu_stubs/stub_gpu.h"
#include "shared/control_block.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"
#include "support/group.h"

extern "C" {
size_t stub_cuda_living(void);
void stub_cuda_refuse(const char* order);
extern void (*stub_cuda_before)(const char* function);
extern nvrar::cuda::Result (*stub_cuda_kernel)(const void* config, void** arguments);
nvrar::cuda::Result cuStreamBeginCapture_v2(nvrar::cuda::Stream, int mode);
nvrar::cuda::Result cuStreamEndCapture(nvrar::cuda::Stream, void** graph);
nvrar::cuda::Result cuGraphDestroy(void* graph);
}

namespace nvrar::test {
namespace {

using namespace std::chrono_literals;

// The behaviour of the stub's kernels, like that of all kernels of the library: they publish their launch, and a warp
// counts itself when it ends.
enum class Kernels { kEnd, kWaitForAPeer, kAreHeld };
std::atomic<Kernels> kernels{Kernels::kEnd};
std::atomic<int> running{0};
std::atomic<cuda::HostPage*> page_of_rank_0{nullptr};
std::atomic<const char*> slow_function{""};
std::atomic<bool> is_slow{false};

// Uses copies by the stub, which are ordered with those of the library.
void count_ended(cuda::Context context, const cuda::KernelArgs& args, const cuda::LaunchConfig& launch) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const cuda::CurrentContext current(context);
  cuda::LatestLaunch latest{};
  const auto place = reinterpret_cast<cuda::DeviceAddress>(&args.state->latest);
  cuda::check(cuda::copy_from_gpu(&latest, place, sizeof latest), "reading which launch is the latest");
  ++latest.epoch;
  latest.tag = args.tag;
  cuda::check(cuda::copy_to_gpu(place, &latest, sizeof latest), "writing which launch is the latest");
  count_warps_ended(args, launch);
}

void run_kernel(cuda::Context context, const cuda::KernelArgs& args, const cuda::LaunchConfig& launch) {
  const auto is_aborted = [&] { return __atomic_load_n(&args.page->abort, __ATOMIC_RELAXED) != 0; };
  while (kernels == Kernels::kAreHeld || (kernels == Kernels::kWaitForAPeer && !is_aborted())) {
    std::this_thread::sleep_for(1ms);
  }
  --running;
  count_ended(context, args, launch);
}

std::mutex launched_mutex;
std::vector<std::pair<uint32_t, uint32_t>> launched;  // blocks and threads of every launch

cuda::Result launch_kernel(const void* config, void** arguments) {
  cuda::LaunchConfig launch;
  std::memcpy(&launch, config, sizeof launch);
  {
    const std::lock_guard lock(launched_mutex);
    launched.emplace_back(launch.grid[0], launch.block[0]);
  }
  cuda::KernelArgs args;
  std::memcpy(&args, arguments[0], sizeof args);  // those of a batch begin with them
  if (args.launch.rank == 0) page_of_rank_0 = args.page;
  cuda::Context context = nullptr;
  cuda::check(cuda::driver().cuCtxGetCurrent(&context), "asking for the context");
  ++running;
  std::thread([context, args, launch] { run_kernel(context, args, launch); }).detach();
  return cuda::kSuccess;
}

// Simulates a driver that waits for other work of the host program.
void slow_down(const char* function) {
  while (is_slow && std::strcmp(function, slow_function) == 0) std::this_thread::sleep_for(1ms);
}

// Two ranks of a process on two GPUs, with a stream and memory for rank 0.
class Pair {
 public:
  Pair() {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    stub_cuda_kernel = launch_kernel;
    stub_cuda_before = slow_down;
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    EXPECT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, id)), "");
    std::vector<uint8_t> descriptors(2 * NVRAR_DESCRIPTOR_BYTES);
    for (int rank = 0; rank < 2; ++rank) {
      const nvrar_config config = config_of(rank, 2, NVRAR_MEMORY_LOCAL);
      EXPECT_EQ(last(nvrar_prepare(&config, nullptr, 0, id, descriptors.data() + rank * NVRAR_DESCRIPTOR_BYTES,
                                   &comms_[rank])),
                "");
    }
    for (nvrar_comm* comm : comms_) EXPECT_EQ(last(nvrar_connect(comm, descriptors.data())), "");
    const cuda::Driver& driver = cuda::driver();
    cuda::check(driver.cuDevicePrimaryCtxRetain(&context_, 0), "context");
    const cuda::CurrentContext current(context_);
    cuda::check(driver.cuMemAlloc_v2(&memory_, kBytes), "memory");
    cuda::check(driver.cuStreamCreate(&stream_, cuda::kStreamNonBlocking), "stream");
    cuda::check(driver.cuStreamCreate(&other_, kBlocking), "stream");
  }
  ~Pair() {
    for (nvrar_comm* comm : comms_) EXPECT_EQ(last(nvrar_destroy(comm)), "");
    {
      const cuda::CurrentContext current(context_);
      (void)cuda::driver().cuMemFree_v2(memory_);
      (void)cuda::driver().cuStreamDestroy_v2(stream_);
      (void)cuda::driver().cuStreamDestroy_v2(other_);
    }
    (void)cuda::driver().cuDevicePrimaryCtxRelease_v2(0);
    EXPECT_EQ(stub_cuda_living(), 0U);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  nvrar_comm* comm(int rank) const { return comms_[rank]; }
  std::string all_reduce(uint64_t count = 64) const {
    return last(nvrar_all_reduce(comms_[0], memory_, memory_, count, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_ONE_SHOT,
                                 reinterpret_cast<uint64_t>(stream_)));
  }
  // To rank 1, and from this rank to itself.
  std::string batch() const {
    const nvrar_transfer transfers[] = {send_to(0, memory_, 4, NVRAR_FLOAT32),
                                        recv_from(0, memory_ + 64, 4, NVRAR_FLOAT32),
                                        send_to(1, memory_, 4, NVRAR_FLOAT32)};
    return last(nvrar_batch(comms_[0], transfers, 3, reinterpret_cast<uint64_t>(stream_)));
  }
  // Of rank 0.
  std::string destroy() {
    const std::string error = last(nvrar_destroy(comms_[0]));
    if (error.empty()) comms_[0] = nullptr;
    return error;
  }
  void begin_capture(bool of_calls, int mode = cuda::kCaptureRelaxed) {
    const cuda::CurrentContext current(context_);
    cuda::check(cuStreamBeginCapture_v2(of_calls ? stream_ : other_, mode), "capture");
  }
  cuda::Result end_capture(bool of_calls) {
    const cuda::CurrentContext current(context_);
    void* graph = nullptr;
    const cuda::Result result = cuStreamEndCapture(of_calls ? stream_ : other_, &graph);
    if (result == cuda::kSuccess) cuda::check(cuGraphDestroy(graph), "graph");
    return result;
  }

 private:
  static constexpr uint64_t kBytes = 1 << 20;
  static constexpr unsigned kBlocking = 0;  // as programs make their streams that say nothing
  nvrar_comm* comms_[2] = {};
  cuda::Context context_ = nullptr;
  cuda::DeviceAddress memory_ = 0;
  cuda::Stream stream_ = nullptr;
  cuda::Stream other_ = nullptr;
};

constexpr int kGlobalMode = 0;
// More than one launch holds with the smallest rings.
constexpr uint64_t kSeveralLaunches = 100'000;

void on_the_stub(const std::function<void(Pair&)>& body) {
  if (cuda::kernels().empty()) GTEST_SKIP() << "the library was built without nvcc";
  EXPECT_TRUE(run_forked(1, [&](Process&) {
    Pair pair;
    body(pair);
  }));
}

TEST(DestroyOnAGpu, OfCompleteWorkIsInOrder) {
  on_the_stub([](Pair& pair) {
    EXPECT_EQ(pair.all_reduce(kSeveralLaunches), "");
    EXPECT_EQ(pair.batch(), "");
    EXPECT_EQ(pair.destroy(), "");
    EXPECT_EQ(last(nvrar_async_error(pair.comm(1))), "") << "the peer was told of an abort";
  });
}

TEST(DestroyOnAGpu, WaitsForItsLaunchesAndBreaksNoCaptureOfOthers) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kAreHeld;
    EXPECT_EQ(pair.all_reduce(), "");
    EXPECT_EQ(pair.batch(), "");
    pair.begin_capture(false);
    std::thread release([] {
      std::this_thread::sleep_for(300ms);
      kernels = Kernels::kEnd;
    });
    EXPECT_EQ(pair.destroy(), "");
    EXPECT_EQ(running, 0) << "memory was freed under kernels that run";
    release.join();
    EXPECT_EQ(pair.end_capture(false), cuda::kSuccess) << "the capture on another stream is broken";
    EXPECT_EQ(last(nvrar_async_error(pair.comm(1))), "");
  });
}

TEST(DestroyOnAGpu, EndsALaunchThatWaitsForAnAbsentPeer) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kWaitForAPeer;
    EXPECT_EQ(pair.all_reduce(), "");
    const double begin = seconds_now();
    EXPECT_EQ(pair.destroy(), "");
    EXPECT_LT(seconds_now() - begin, 5);
    EXPECT_EQ(running, 0);
    EXPECT_EQ(last(nvrar_async_error(pair.comm(1))), "7 rank 0 aborted the group");
  });
}

TEST(DestroyOnAGpu, ThatFailedCanBeMadeAgain) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kAreHeld;
    EXPECT_EQ(pair.all_reduce(), "");
    EXPECT_EQ(pair.destroy(),
              "8 what this rank has enqueued or runs did not end within 10 s of being aborted: nothing is freed, and "
              "nvrar_destroy may be called again");
    EXPECT_EQ(pair.all_reduce(), "7 the group was aborted by this rank (rank 0)");
    kernels = Kernels::kEnd;
    EXPECT_EQ(pair.destroy(), "");
    EXPECT_EQ(running, 0);
  });
}

TEST(DestroyOnAGpu, DoesNotWaitForTheCallersOwnWork) {
  on_the_stub([](Pair& pair) {
    EXPECT_EQ(pair.all_reduce(), "");
    slow_function = "cuCtxSynchronize";
    is_slow = true;
    const double begin = seconds_now();
    EXPECT_EQ(pair.destroy(), "");
    EXPECT_LT(seconds_now() - begin, 1);
    is_slow = false;
  });
}

// In CUDA's global mode, what is unsafe in a capture is refused to all threads, and breaks it.
TEST(DestroyOnAGpu, FreesAllAndBreaksNoCaptureWhileAnotherThreadCaptures) {
  on_the_stub([](Pair& pair) {
    EXPECT_EQ(pair.all_reduce(), "");
    const size_t living = stub_cuda_living();
    std::thread([&] { pair.begin_capture(false, kGlobalMode); }).join();
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL).error(), "");
    EXPECT_EQ(pair.destroy(), "");
    // A stream, its state, a page, pairs.
    EXPECT_LE(stub_cuda_living() + 4, living) << "its memory was not freed";
    EXPECT_EQ(pair.end_capture(false), cuda::kSuccess) << "the capture on another stream is broken";
  });
}

TEST(DestroyOnAGpu, SucceedsWhenAPeersGpuHasFailed) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kAreHeld;
    EXPECT_EQ(pair.all_reduce(), "");
    pair.begin_capture(true);
    EXPECT_EQ(pair.all_reduce(), "");
    EXPECT_EQ(pair.end_capture(true), cuda::kSuccess);
    stub_cuda_refuse("cuMemcpyDtoHAsync_v2:226:1");  // CUDA_ERROR_CONTAINED: whatever is asked from now on
    EXPECT_EQ(pair.destroy(), "");
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);  // in a broken context nothing can be freed
  });
}

// Its own abort does not mean that a member was lost, so NVSHMEM remains usable for the others.
TEST(DestroyOnAGpu, ThatEndsItsOwnCallsIsToldFromAnAbort) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kWaitForAPeer;
    EXPECT_EQ(pair.all_reduce(), "");
    EXPECT_EQ(pair.destroy(), "");
    nvrar_failure failure{};
    failure.size = sizeof failure;
    EXPECT_EQ(nvrar_failure_of(pair.comm(1), &failure), NVRAR_OK);
    EXPECT_EQ(failure.status, NVRAR_ABORTED);
    EXPECT_EQ(failure.missing[0], 0U);
  });
  const auto leaving = shared::Poison::of_leaving(3, 7);
  const auto of_leaving = shared::Poison::of(leaving.word(), leaving.ranks);
  EXPECT_TRUE(of_leaving.is_of_leaving());
  EXPECT_EQ(of_leaving.origin, 3U);
  EXPECT_EQ(of_leaving.sequence, 7U);
  EXPECT_FALSE((shared::Poison{NVRAR_ABORTED, 3, {}, 7}).is_of_leaving());
  EXPECT_FALSE((shared::Poison{NVRAR_TIMEOUT, 3, RankSet::of(0), 7}).is_of_leaving());
}

// The host cannot know how often a graph runs.
TEST(DestroyOnAGpu, OfAGroupWhoseCallsWereCapturedTellsItsKernelsToLeave) {
  on_the_stub([](Pair& pair) {
    EXPECT_EQ(pair.all_reduce(), "");
    pair.begin_capture(true);
    EXPECT_EQ(pair.all_reduce(), "");
    EXPECT_EQ(pair.end_capture(true), cuda::kSuccess);
    pair.begin_capture(false);
    EXPECT_EQ(pair.destroy(), "");
    EXPECT_EQ(pair.end_capture(false), cuda::kSuccess);
    EXPECT_EQ(last(nvrar_async_error(pair.comm(1))), "");
  });
}

TEST(LaunchError, BeforeAnythingIsEnqueuedLeavesTheGroupAsItWas) {
  on_the_stub([](Pair& pair) {
    stub_cuda_refuse("cuLaunchKernelEx:2:1");
    const std::string refused = "3 launching a GPU kernel: CUDA_ERROR_OUT_OF_MEMORY (out of memory)";
    EXPECT_EQ(pair.all_reduce(kSeveralLaunches), refused);
    stub_cuda_refuse("");
    EXPECT_EQ(last(nvrar_async_error(pair.comm(0))), "");
    EXPECT_EQ(last(nvrar_async_error(pair.comm(1))), "");
    EXPECT_EQ(pair.all_reduce(), "");
    nvrar_call call{};
    call.size = sizeof call;
    EXPECT_EQ(nvrar_call_of(pair.comm(0), 0, &call), NVRAR_OK);
    EXPECT_EQ(call.sequence, 1U);
    // The refused one stays what it is, whatever becomes of later ones.
    for (int turns = 0; call.state != NVRAR_CALL_DONE && turns < 1000; ++turns) {
      std::this_thread::sleep_for(1ms);
      EXPECT_EQ(nvrar_call_of(pair.comm(0), 0, &call), NVRAR_OK);
    }
    nvrar_call records[2] = {};
    uint32_t count = 0;
    records[0].size = sizeof records[0];
    EXPECT_EQ(nvrar_flight_record(pair.comm(0), 0, records, 2, &count), NVRAR_OK);
    EXPECT_EQ(count, 2U);
    EXPECT_EQ(records[0].state, NVRAR_CALL_FAILED);
    EXPECT_EQ(records[1].state, NVRAR_CALL_DONE);
  });
}

// A repeated call would be matched with different launches of the peers.
TEST(Launches, OfACallAreOfOneShapeButForTheLast) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kEnd;
    launched.clear();
    ASSERT_EQ(pair.all_reduce(kSeveralLaunches), "");
    const std::lock_guard lock(launched_mutex);
    ASSERT_GT(launched.size(), 2u);
    for (size_t i = 1; i + 1 < launched.size(); ++i) EXPECT_EQ(launched[i], launched[0]) << i;
    EXPECT_LT(launched.back().first, launched[0].first) << "the last one has less to do";
  });
}

TEST(LaunchError, InTheMidstOfACallEndsTheGroup) {
  on_the_stub([](Pair& pair) {
    stub_cuda_refuse("cuLaunchKernelEx:2:3");
    const std::string sentence = pair.all_reduce(kSeveralLaunches);
    EXPECT_TRUE(contains(sentence, "3 allReduce #1 float32[100000] SUM (one-shot, ")) << sentence;
    EXPECT_TRUE(contains(sentence,
                         " launches) was enqueued in part, which ended the group: launching a GPU kernel: "
                         "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"))
        << sentence;
    stub_cuda_refuse("");
    EXPECT_EQ(pair.all_reduce(kSeveralLaunches), sentence);
    const std::string of_peer = last(nvrar_async_error(pair.comm(1)));
    EXPECT_TRUE(contains(of_peer, "3 rank 0 could enqueue only a part of its call #1, which ended the group"))
        << of_peer;
  });
}

TEST(LaunchError, InTheMidstOfABatchEndsTheGroup) {
  on_the_stub([](Pair& pair) {
    stub_cuda_refuse("cuLaunchKernelEx:2:1");
    const std::string sentence = pair.batch();
    EXPECT_TRUE(contains(sentence, " was enqueued in part, which ended the group: launching a GPU kernel")) << sentence;
    stub_cuda_refuse("");
    EXPECT_EQ(pair.batch(), sentence);
    EXPECT_EQ(nvrar_async_error(pair.comm(1)), NVRAR_SYSTEM);
  });
}

TEST(LaunchError, InACaptureEndsNothing) {
  on_the_stub([](Pair& pair) {
    pair.begin_capture(true);
    stub_cuda_refuse("cuLaunchKernelEx:2:3");
    EXPECT_TRUE(contains(pair.all_reduce(kSeveralLaunches), "3 launching a GPU kernel"));
    stub_cuda_refuse("");
    EXPECT_EQ(pair.end_capture(true), cuda::kSuccess);
    EXPECT_EQ(pair.all_reduce(), "");
    EXPECT_EQ(last(nvrar_async_error(pair.comm(1))), "");
  });
}

TEST(Abort, OfAPeerReachesKernelsThatWaitWhileTheDriverIsBusy) {
  on_the_stub([](Pair& pair) {
    kernels = Kernels::kWaitForAPeer;
    EXPECT_EQ(pair.all_reduce(), "");
    slow_function = "cuMemcpyDtoHAsync_v2";
    is_slow = true;
    EXPECT_EQ(nvrar_abort(pair.comm(1)), NVRAR_OK);
    const double begin = seconds_now();
    while (running != 0 && seconds_now() - begin < 3) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(running, 0) << "kernels are not told before the driver has answered";
    EXPECT_NE(__atomic_load_n(&page_of_rank_0.load()->abort, __ATOMIC_RELAXED), 0U);
    is_slow = false;
  });
}

}  // namespace
}  // namespace nvrar::test
