// Whole groups of the CUDA backend over the stub of libcuda (test/stub_cuda), which runs no kernels: tests the message
// for each thing that is missing or wrong, and that a group whose creation fails leaks nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/launch/device.h"
#include "cuda/launch/fatbin.h"
#include "gpu_stubs/stub_gpu.h"
#include "member/descriptor.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"
#include "support/group.h"

extern "C" size_t stub_cuda_living(void);

namespace nvrar::test {
namespace {

class WholeGroup : public WithKernels {};

TEST(CudaProbe, SaysWhatThisMachineLacks) {
  if (cuda::kernels().empty()) {
    EXPECT_EQ(
        last(nvrar_probe(NVRAR_BACKEND_CUDA)),
        "4 the CUDA backend cannot run here: this build of libnvrar holds no GPU kernels, it was made without nvcc "
        "(bin/nvrar setup --cuda gets one)");
    return;
  }
  struct Case {
    const char* variable;
    const char* value;
    const char* sentence;
  };
  for (const Case& lacking : std::vector<Case>{
           {"STUB_CUDA_DEVICES", "0", "NVIDIA's driver is installed, but this process sees no GPU"},
           {"STUB_CUDA_DRIVER_VERSION", "11080",
            "NVIDIA's driver is too old, it supports CUDA 11.8 and 12.0 is needed; update the driver"},
           {"STUB_CUDA_FAIL", "cuInit:803:1",
            "cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported display driver / cuda driver "
            "combination)"}}) {
    in_a_process([&] {
      set(lacking.variable, lacking.value);
      EXPECT_EQ(last(nvrar_probe(NVRAR_BACKEND_CUDA)),
                std::string("4 the CUDA backend cannot run here: ") + lacking.sentence);
      EXPECT_EQ(nvrar_probe(NVRAR_BACKEND_CPU), NVRAR_OK);
    });
  }
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "0");
    set("CUDA_VISIBLE_DEVICES", "");
    EXPECT_TRUE(contains(last(nvrar_probe(NVRAR_BACKEND_CUDA)), "sees no GPU; CUDA_VISIBLE_DEVICES is \"\""));
  });
}

TEST_F(WholeGroup, IsMadeOnTheStubAndLeavesNothingBehind) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "4");
    const size_t descriptors = open_descriptors();
    for (int i = 0; i < 3; ++i) {
      {
        const Ranks group(4);
        EXPECT_EQ(group.error(), "");
        EXPECT_GT(stub_cuda_living(), 4U * 5);
      }
      EXPECT_EQ(stub_cuda_living(), 0U);
      EXPECT_EQ(open_descriptors(), descriptors);
    }
  });
}

TEST_F(WholeGroup, SaysWhichGpuIsNotThereOrTooOldOrWithoutKernels) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    EXPECT_EQ(Ranks(3).error(), "4 there is no GPU 2 in this process, it sees 2, from 0 to 1");
    set("STUB_CUDA_COMPUTE_CAPABILITY", "75");
    EXPECT_EQ(Ranks(2).error(), "4 GPU 0 has compute capability 7.5, needed is 8.0 or newer");
    set("STUB_CUDA_COMPUTE_CAPABILITY", "120");
    set("STUB_CUDA_FAIL", "cuModuleLoadData:209:1");
    EXPECT_EQ(Ranks(2).error(),
              "4 GPU 0 (compute capability 12.0) cannot run the kernels of this build of libnvrar: "
              "CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is available for execution on the device)");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

TEST_F(WholeGroup, RefusesAGpuThatIsTakenTwiceUnlessGpusAreShared) {
  in_a_process([] {
    const auto on_one = [](nvrar_config& config) { config.device = 0; };
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, on_one).error(),
              "1 ranks 0 and 1 have the same GPU, GPU-abababab-abab-abab-abab-ababababab00: every rank needs one of "
              "its own");
    EXPECT_EQ(stub_cuda_living(), 0U);
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL,
                    [&](nvrar_config& config) {
                      on_one(config);
                      config.shared_devices = 1;
                    })
                  .error(),
              "");
  });
}

TEST_F(WholeGroup, RefusesRanksOnSeveralHosts) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CUDA, id), NVRAR_OK);
    Descriptor descriptors[2];
    nvrar_comm* comms[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      const nvrar_config config = config_of(rank, 2, NVRAR_MEMORY_LOCAL);
      ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(&descriptors[rank]), &comms[rank]),
                NVRAR_OK)
          << nvrar_last_error();
    }
    ++descriptors[1].host.pid_namespace;
    EXPECT_EQ(last(nvrar_connect(comms[0], reinterpret_cast<const uint8_t*>(descriptors))),
              "4 rank 1 is in another PID or user namespace of the host of rank 0 (containers need to share both), and "
              "rank 0 has no address for links (link_address)");
    ++descriptors[1].host.boot_id[0];
    EXPECT_EQ(last(nvrar_connect(comms[0], reinterpret_cast<const uint8_t*>(descriptors))),
              "4 rank 1 is on another host than rank 0, and rank 0 has no address for links (link_address)");
    for (nvrar_comm* comm : comms) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

TEST_F(WholeGroup, NamesBothRanksWhoseGpusHaveNoPeerAccess) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    set("STUB_CUDA_PEER_ACCESS", "0");
    for (const int32_t memory : {NVRAR_MEMORY_LOCAL, NVRAR_MEMORY_IPC, NVRAR_MEMORY_AUTO}) {
      const std::string error = Ranks(2, memory).error();
      EXPECT_TRUE(contains(error, "4 the GPU of rank 0 (pid ")) << error;
      EXPECT_TRUE(contains(error, ") cannot access the memory of the GPU of rank 1 (pid ")) << error;
      EXPECT_TRUE(contains(error, "there is no peer access between them (see nvidia-smi topo -p2p rw)")) << error;
      EXPECT_EQ(stub_cuda_living(), 0U);
    }
  });
}

TEST_F(WholeGroup, RefusesGpusWithoutNvlinkBetweenThem) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "3");
    set("STUB_CUDA_PCIE", "1-2");
    for (const int32_t memory : {NVRAR_MEMORY_LOCAL, NVRAR_MEMORY_IPC, NVRAR_MEMORY_AUTO}) {
      const std::string error = Ranks(3, memory).error();
      EXPECT_TRUE(contains(error, "4 the GPU of rank 1 (pid ")) << error;
      EXPECT_TRUE(contains(error, "GPU-abababab-abab-abab-abab-ababababab01) and that of rank 2 (pid ")) << error;
      EXPECT_TRUE(contains(error,
                           "GPU-abababab-abab-abab-abab-ababababab02) have no NVLink between them, and over PCIe a "
                           "packet may not arrive whole: they cannot be in one group (see nvidia-smi topo -m)"))
          << error;
      EXPECT_EQ(stub_cuda_living(), 0U);
      EXPECT_EQ(Ranks(2, memory).error(), "");
    }
  });
}

// The driver's occupancy determines how many blocks a launch may have.
TEST_F(WholeGroup, RefusesGpusThatHoldOtherNumbersOfBlocks) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CUDA, id), NVRAR_OK);
    Descriptor descriptors[2];
    nvrar_comm* comms[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      const nvrar_config config = config_of(rank, 2, NVRAR_MEMORY_LOCAL);
      ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(&descriptors[rank]), &comms[rank]),
                NVRAR_OK);
    }
    EXPECT_EQ(descriptors[0].places_per_multiprocessor, 4U);  // a block takes a fourth of the shared memory
    descriptors[1].places_per_multiprocessor = 5;
    EXPECT_EQ(
        last(nvrar_connect(comms[0], reinterpret_cast<const uint8_t*>(descriptors))),
        "5 rank 1's GPU holds 5 blocks per multiprocessor, this rank's (0) holds 4: a group needs GPUs of one kind");
    descriptors[1].multiprocessors = 114;
    EXPECT_EQ(last(nvrar_connect(comms[0], reinterpret_cast<const uint8_t*>(descriptors))),
              "5 rank 1's GPU has 114 multiprocessors, this rank's (0) has 132: a group needs GPUs of one kind");
    EXPECT_EQ(descriptors[0].compute_capability, 90U);
    descriptors[1].compute_capability = 80;
    EXPECT_EQ(last(nvrar_connect(comms[0], reinterpret_cast<const uint8_t*>(descriptors))),
              "5 rank 1's GPU has compute capability 8.0, this rank's (0) has 9.0: a group needs GPUs of one kind");
    for (nvrar_comm* comm : comms) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  });
}

TEST_F(WholeGroup, RefusesMoreGroupsThanAGpuHoldsBlocks) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    set("STUB_CUDA_MULTIPROCESSORS", "2");
    const auto groups = [](uint32_t count) {
      return [count](nvrar_config& config) { config.concurrent_groups = count; };
    };
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, groups(4)).error(), "");
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, groups(5)).error(),
              "1 GPU 0 holds 8 blocks of kernels at once, too few for calls of 5 groups (concurrent_groups) with 1 "
              "ranks on a GPU");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

// The blocks of a batch wait for different peers, so a block that is not resident could block all of them.
TEST_F(WholeGroup, RefusesABatchThatHasMoreBlocksThanPlaces) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "3");
    set("STUB_CUDA_MULTIPROCESSORS", "2");
    const Ranks group(3, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) { config.concurrent_groups = 4; });
    ASSERT_EQ(group.error(), "");
    const nvrar_transfer transfers[] = {send_to(1, 64, 1, NVRAR_INT32), recv_from(1, 128, 1, NVRAR_INT32),
                                        recv_from(2, 192, 1, NVRAR_INT32)};
    constexpr uint64_t kNoStream = 16;  // 1 and 2 are the default streams
    std::string error = last(nvrar_batch(group.comm(0), transfers, 3, kNoStream));
    EXPECT_EQ(error,
              "1 a batch that sends to 1 ranks and receives from 2 needs 3 blocks of a GPU at once, and with "
              "concurrent_groups 4 a call has 2");
    error = last(nvrar_batch(group.comm(0), transfers, 2, kNoStream));
    EXPECT_TRUE(contains(error, "stream is not a stream of this process")) << error;
  });
}

TEST_F(WholeGroup, SaysWhatIsWrongWithNvshmem) {
  in_a_process([] {
    char text[256];
    set("STUB_NVSHMEM_VERSION", "3.3.9");
    std::string error = last(nvrar_find_nvshmem(NVRAR_STUB_NVSHMEM, text, sizeof text));
    EXPECT_TRUE(contains(error, "4 NVSHMEM 3.3.20 or newer is not here (")) << error;
    EXPECT_TRUE(contains(error, "libnvshmem_host.so.3: is NVSHMEM 3.3.9")) << error;
    error = last(nvrar_find_nvshmem("/nonexistent", text, sizeof text));
    EXPECT_TRUE(contains(error, "Tried: /nonexistent: not there")) << error;
    set("STUB_NVSHMEM_VERSION", "3.4.5");
    EXPECT_EQ(last(nvrar_find_nvshmem(NVRAR_STUB_NVSHMEM, text, sizeof text)), "");
    EXPECT_EQ(std::string(text), std::string("3.4.5, ") + NVRAR_STUB_NVSHMEM);
    EXPECT_EQ(nvrar_find_nvshmem(NVRAR_STUB_NVSHMEM, text, 8), NVRAR_OK);
    EXPECT_STREQ(text, "3.4.5, ");
    EXPECT_EQ(nvrar_find_nvshmem(NVRAR_STUB_NVSHMEM, nullptr, 0), NVRAR_INVALID_ARGUMENT);
    set("STUB_NVSHMEM_INITIALISED", "1");
    EXPECT_EQ(Ranks(1, NVRAR_MEMORY_NVSHMEM).error(),
              "4 NVSHMEM was already initialised in this process by other code (perhaps PyTorch), and it supports one "
              "world per process: use CUDA IPC, or another process");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

std::atomic<int> g_signals{0};

// A program expects its signals on its own threads; a thread of ours could be inside the driver at that moment.
TEST_F(WholeGroup, LeavesSignalsToTheThreadsOfTheProgram) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "2");
    const auto tasks = [] {
      std::set<std::string> found;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) found.insert(entry.path());
      return found;
    };
    std::thread([] {}).join();  // with the first one the thread sanitizer starts one of its own
    const std::set<std::string> before = tasks();
    const Ranks group(2);
    ASSERT_EQ(group.error(), "");
    int ours = 0;
    for (const std::string& task : tasks()) {
      if (before.count(task) != 0) continue;
      ++ours;
      uint64_t blocked = 0;
      const auto blocks = [&](int signal) { return (blocked >> (signal - 1) & 1) != 0; };
      const double begin = seconds_now();
      do {  // a thread begins with all of them blocked
        std::ifstream file(task + "/status");
        for (std::string line; std::getline(file, line);) {
          if (line.rfind("SigBlk:", 0) == 0) blocked = std::stoull(line.substr(7), nullptr, 16);
        }
      } while (blocks(SIGSEGV) && seconds_now() - begin < 5);
      for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGPROF, SIGCHLD}) {
        EXPECT_TRUE(blocks(signal)) << "signal " << signal;
      }
      EXPECT_FALSE(blocks(SIGSEGV));
    }
    EXPECT_EQ(ours, 2);
    // If this thread does not take it, none does.
    std::signal(SIGUSR1, [](int) { ++g_signals; });
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGUSR1);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &one, nullptr), 0);
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(g_signals, 0);
    const timespec limit{5, 0};
    EXPECT_EQ(::sigtimedwait(&one, nullptr, &limit), SIGUSR1);
  });
}

// Not the timeout of a call, which may be long: the first call of a model may compile for minutes.
TEST_F(WholeGroup, WaitsForNvshmemAsLongAsItMayForJoining) {
  in_a_process([] {
    char text[256];
    ASSERT_EQ(last(nvrar_find_nvshmem(NVRAR_STUB_NVSHMEM, text, sizeof text)), "");
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CUDA, id), NVRAR_OK);
    set("STUB_NVSHMEM_FAIL", "init_waits");
    nvrar_config config = config_of(0, 1, NVRAR_MEMORY_NVSHMEM);
    config.join_timeout_ns = 300 * kMs;
    uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
    nvrar_comm* comm = nullptr;
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptor, &comm), NVRAR_OK) << nvrar_last_error();
    const double begin = seconds_now();
    EXPECT_EQ(last(nvrar_connect(comm, descriptor)),
              "6 NVSHMEM's initialisation on rank 0 did not end within 0.3 s: a member did not come, or cannot be "
              "reached from here");
    EXPECT_LT(seconds_now() - begin, 5);
    EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  });
}

// Each driver call of the creation fails in turn.
TEST_F(WholeGroup, ThatFailsHalfwayLeavesNothingBehind) {
  for (const char* function :
       {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemHostAlloc",
        "cuMemHostGetDevicePointer_v2", "cuStreamCreate", "cuMemcpyHtoDAsync_v2", "cuMemsetD32Async",
        "cuStreamSynchronize", "cuDeviceGetUuid_v2", "cuIpcGetMemHandle", "cuCtxEnablePeerAccess"}) {
    in_a_process([&] {
      set("STUB_CUDA_DEVICES", "2");
      (void)cuda::driver();
      std::thread([] {}).join();  // with the first one the thread sanitizer starts one of its own
      const size_t descriptors = open_descriptors();
      const size_t threads = threads_of_this_process();
      bool fails = true;
      int failures = 0;
      // Modules have hundreds of functions: some of them are enough.
      for (int call = 1; fails; call = call < 8 ? call + 1 : 2 * call) {
        set("STUB_CUDA_FAIL", (std::string(function) + ":2:" + std::to_string(call)).c_str());
        const std::string error = Ranks(2, NVRAR_MEMORY_AUTO).error();
        fails = !error.empty();
        if (!fails) break;
        ++failures;
        EXPECT_TRUE(contains(error, ": CUDA_ERROR_OUT_OF_MEMORY (out of memory)")) << error;
        EXPECT_EQ(stub_cuda_living(), 0U) << function << " " << call << ": " << error;
        EXPECT_EQ(open_descriptors(), descriptors) << function << " " << call << ": " << error;
        EXPECT_TRUE(comes_to(threads)) << function << " " << call << ": " << error;
      }
      EXPECT_GE(failures, 2) << function << " is not called in a group of two: this shows nothing";
      // The member whose creation failed can create it once the cause is removed.
      ::unsetenv("STUB_CUDA_FAIL");
      EXPECT_EQ(Ranks(2, NVRAR_MEMORY_AUTO).error(), "") << function;
    });
  }
}

}  // namespace
}  // namespace nvrar::test
