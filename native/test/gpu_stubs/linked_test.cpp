// Groups on GPUs whose nodes are linked, over the stub of libcuda: how they are made, refused and launched. No kernel
// runs, so nothing crosses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernels/crossing/crossing_args.h"
#include "cuda/kernels/launch/fused_args.h"
#include "gpu_stubs/stub_gpu.h"
#include "member/descriptor.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"

extern "C" {
extern nvrar::cuda::Result (*stub_cuda_kernel)(const void* config, void** arguments);
unsigned stub_cuda_living(void);
void stub_cuda_refuse(const char* order);
}

namespace nvrar::test {
namespace {

constexpr uint32_t kHidden = 8192;
constexpr uint32_t kRowBytes = kHidden * 2;
constexpr uint64_t kRoom = uint64_t{32} << 20;

struct Launched {
  uint32_t blocks;
  uint32_t threads;
  cuda::FusedArgs args;  // of a launch that crosses only what all kernels have
};
std::vector<Launched> launched;
std::vector<cuda::CrossingTransferArgs> batches;

bool notes_batches = false;  // only launches of transfers then

cuda::Result note_launch(const void* config, void** arguments) {
  const cuda::LaunchConfig launch = launch_config(config);
  Launched seen{launch.grid[0], launch.block[0], {}};
  std::memcpy(&seen.args, arguments[0], sizeof seen.args);
  count_warps_ended(seen.args, launch);
  launched.push_back(seen);
  if (seen.threads == cuda::kTransferThreads && notes_batches) {
    std::memcpy(&batches.emplace_back(), arguments[0], sizeof(cuda::CrossingTransferArgs));
  }
  return cuda::kSuccess;
}

size_t threads_of_this_process() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

void link_nodes(nvrar_config& config) {
  config.ranks_per_node = 1;
  config.links = NVRAR_LINKS_BETWEEN_NODES;
  std::strcpy(config.link_address, "127.0.0.1");
  config.ring_bytes = 0;
}

class LinkedGroups : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    set("STUB_CUDA_DEVICES", "2");
    stub_cuda_kernel = note_launch;
  }
  static nvrar_fused_all_reduce norm(cuda::DeviceAddress buffer, uint32_t rows) {
    nvrar_fused_all_reduce call{};
    call.size = sizeof call;
    call.form = NVRAR_FUSION_RMS_NORM;
    call.data_type = NVRAR_BFLOAT16;
    call.rows = rows;
    call.hidden = kHidden;
    call.eps = 1e-6F;
    call.input = buffer;
    call.residual = buffer + kRoom;
    call.weight = buffer + 2 * kRoom;
    call.residual_out = call.residual;
    call.output = buffer;
    return call;
  }
};

TEST_F(LinkedGroups, AreMadeAndLeaveNothing) {
  for (const uint32_t threads : {0u, 1u, 2u, 4u}) {
    for (const uint32_t security : {NVRAR_LINK_PLAIN, NVRAR_LINK_ENCRYPTED}) {
      in_a_process([&] {
        (void)cuda::driver();
        const size_t before = threads_of_this_process();
        {
          const Ranks group(2, NVRAR_MEMORY_LOCAL, [&](nvrar_config& config) {
            link_nodes(config);
            config.link_threads = threads;
            config.link_security = security;
          });
          EXPECT_EQ(group.error(), "");
          nvrar_link link{};
          link.size = sizeof link;
          EXPECT_EQ(last(nvrar_link_of(group.comm(0), 1, &link)), "");
          EXPECT_EQ(link.state, NVRAR_LINK_OPEN);
          // A watcher and the proxy's threads of each rank.
          EXPECT_EQ(threads_of_this_process() - before, 2 * (1 + std::max(threads, 1u)));
        }
        EXPECT_EQ(stub_cuda_living(), 0U);
      });
    }
  }
}

TEST_F(LinkedGroups, RefuseWhatTheyCannotDoInASentence) {
  in_a_process([] {
    const auto with_threads = [](uint32_t threads) {
      return Ranks(2, NVRAR_MEMORY_LOCAL,
                   [&](nvrar_config& config) {
                     link_nodes(config);
                     config.link_threads = threads;
                   })
          .error();
    };
    EXPECT_EQ(with_threads(3), "1 link_threads 3 is none of 0, 1, 2 and 4");
    EXPECT_EQ(with_threads(8), "1 link_threads 8 is none of 0, 1, 2 and 4");
    const auto with_more_on_rank_1 = [](nvrar_config& config) {
      link_nodes(config);
      config.link_threads = config.rank == 0 ? 1 : 2;
    };
    EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, with_more_on_rank_1).error(),
              "5 rank 1 has link_threads 2, this rank (0) has 1");
    const auto on_one_gpu = [](nvrar_config& config) {
      link_nodes(config);
      config.ring_bytes = uint64_t{1} << 20;
      config.device = 0;
      config.shared_devices = 1;
    };
    EXPECT_EQ(Ranks(9, NVRAR_MEMORY_LOCAL, on_one_gpu).error(),
              "1 a group on GPUs has at most 8 nodes, and these ranks are in 9");
    EXPECT_EQ(stub_cuda_living(), 0U);
  });
}

// Whatever the driver refuses while such a group is made, there is one sentence, and nothing is left.
TEST_F(LinkedGroups, LeaveNothingWhereTheDriverHasNoMemory) {
  for (const char* function : {"cuMemHostAlloc", "cuMemAlloc_v2"}) {
    in_a_process([&] {
      int failures = 0;
      for (const int call : {1, 2, 3, 4, 6, 8, 12}) {
        set("STUB_CUDA_FAIL", (std::string(function) + ":2:" + std::to_string(call)).c_str());
        {
          const Ranks group(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) {
            link_nodes(config);
            config.join_timeout_ns = 2000 * kMs;
          });
          if (!group.error().empty()) ++failures;
          EXPECT_EQ(group.error().find('\n'), std::string::npos) << group.error();
        }
        EXPECT_EQ(stub_cuda_living(), 0U) << function << " " << call;
      }
      EXPECT_GE(failures, 3) << function << " is not called so often: this shows nothing";
      ::unsetenv("STUB_CUDA_FAIL");
      EXPECT_EQ(Ranks(2, NVRAR_MEMORY_LOCAL, link_nodes).error(), "");
    });
  }
}

TEST_F(LinkedGroups, FinishTheRowsOfAFusedCallInALaunchBehindEachThatCrosses) {
  in_a_process([] {
    const Ranks group(2, NVRAR_MEMORY_LOCAL, link_nodes);
    ASSERT_EQ(group.error(), "");
    const StubStream stream(3 * kRoom);
    constexpr uint32_t kRows = 300;
    const nvrar_fused_all_reduce call = norm(stream.buffer(), kRows);
    launched.clear();
    ASSERT_EQ(last(nvrar_all_reduce_fused(group.comm(0), &call, stream.handle())), "");
    // 2 MiB cross in a launch.
    ASSERT_EQ(launched.size(), 2 * 3U);
    uint32_t row = 0;
    for (size_t i = 0; i < launched.size(); i += 2) {
      const cuda::KernelArgs& crossing = launched[i].args;
      const cuda::FusedArgs& rows = launched[i + 1].args;
      const uint32_t count = static_cast<uint32_t>(crossing.launch.bytes) / kRowBytes;
      EXPECT_EQ(crossing.launch.bytes % kRowBytes, 0U);
      EXPECT_EQ(reinterpret_cast<uint64_t>(crossing.launch.send), call.input + row * kRowBytes);
      EXPECT_NE(reinterpret_cast<uint64_t>(crossing.launch.recv), call.output + row * kRowBytes);
      EXPECT_EQ(rows.launch.send, crossing.launch.recv);
      EXPECT_EQ(reinterpret_cast<uint64_t>(rows.launch.recv), call.output + row * kRowBytes);
      EXPECT_EQ(reinterpret_cast<uint64_t>(rows.residual), call.residual + row * kRowBytes);
      EXPECT_EQ(reinterpret_cast<uint64_t>(rows.residual_out), call.residual_out + row * kRowBytes);
      EXPECT_EQ(rows.row_bytes, kRowBytes);
      EXPECT_EQ(rows.blocks_per_row, 1U);
      EXPECT_EQ(rows.header_blocks, 0U);
      EXPECT_EQ(launched[i + 1].blocks, count);
      EXPECT_EQ(launched[i + 1].threads, cuda::kRowThreads);
      EXPECT_EQ(rows.tag, crossing.tag);
      row += count;
    }
    EXPECT_EQ(row, kRows);
  });
}

// Ranks on hosts of their own, as their descriptors say: nobody has told the library how many a host has.
class Hosts {
 public:
  explicit Hosts(const std::vector<int>& host_of) : comms_(host_of.size()) {
    const auto world = static_cast<int>(host_of.size());
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    EXPECT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, id)), "");
    std::vector<Descriptor> descriptors(host_of.size());
    for (int rank = 0; rank < world; ++rank) {
      nvrar_config config = config_of(rank, world, NVRAR_MEMORY_LOCAL);
      link_nodes(config);
      config.ranks_per_node = 0;
      config.device = (rank + 2) % world;  // streams of tests are on the first one, of rank 2
      config.links = NVRAR_LINKS_BETWEEN_HOSTS;
      auto* const descriptor = reinterpret_cast<uint8_t*>(&descriptors[static_cast<size_t>(rank)]);
      EXPECT_EQ(last(nvrar_prepare(&config, nullptr, 0, id, descriptor, &comms_[static_cast<size_t>(rank)])), "");
    }
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < comms_.size(); ++rank) {
      // As each sees it: its own descriptor has to be the one that it has made.
      std::vector<Descriptor> seen = descriptors;
      for (size_t other = 0; other < seen.size(); ++other) {
        if (host_of[other] != host_of[rank]) seen[other].host.boot_id[0] = static_cast<char>('G' + host_of[other]);
      }
      threads.emplace_back([seen = std::move(seen), comm = comms_[rank]] {
        EXPECT_EQ(last(nvrar_connect(comm, reinterpret_cast<const uint8_t*>(seen.data()))), "");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ~Hosts() {
    for (nvrar_comm* comm : comms_) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK) << nvrar_last_error();
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  nvrar_comm* operator[](size_t rank) const { return comms_[rank]; }

 private:
  std::vector<nvrar_comm*> comms_;
};

// Within a host, too: one launch has all transfers of a batch.
TEST_F(LinkedGroups, RunABatchInOneLaunch) {
  in_a_process([] {
    set("STUB_CUDA_DEVICES", "4");
    const Hosts group({0, 0, 1, 1});
    const StubStream stream(kRoom);
    std::vector<nvrar_transfer> transfers;
    for (const int32_t peer : {3, 0, 0}) {
      const auto next = [&] { return stream.buffer() + transfers.size() * 4096; };
      transfers.push_back(send_to(peer, next(), 1000));
      transfers.push_back(recv_from(peer, next(), 1000));
    }
    notes_batches = true;
    EXPECT_EQ(last(nvrar_batch(group[2], transfers.data(), static_cast<uint32_t>(transfers.size()), stream.handle())),
              "");
    notes_batches = false;
    ASSERT_EQ(batches.size(), 1U);
    const cuda::CrossingTransferArgs& batch = batches[0];
    EXPECT_EQ(launched.back().blocks, 4U);
    EXPECT_EQ(batch.member.launch.rank, 0U) << "the place in the host";
    // The layout that all ranks of the group have found when they connected, not that of one host.
    EXPECT_EQ(batch.member.launch.layout.topology.largest, 2U);
    EXPECT_EQ(batch.member.launch.layout.topology.world, 4U);
    constexpr uint8_t kSends = 1;
    const cuda::TransferQueue expected[] = {
        {1, kSends, 0}, {1, 0, 1}, {0, kSends | cuda::kFarQueue, 2}, {0, cuda::kFarQueue, 3}};
    for (size_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(batch.queues[i].peer, expected[i].peer);
      EXPECT_EQ(batch.queues[i].sends, expected[i].sends);
      EXPECT_EQ(batch.queues[i].first, expected[i].first);
    }
    EXPECT_EQ(batch.items[2].next, 4);
    EXPECT_EQ(batch.items[3].next, 5);
    EXPECT_EQ(batch.items[4].next, cuda::kNoTransfer);
    EXPECT_EQ(batch.memory.layout.first, 2U);
  });
}

TEST_F(LinkedGroups, RefuseFusedRowsThatDoNotFitARing) {
  in_a_process([] {
    const Ranks group(2, NVRAR_MEMORY_LOCAL, [](nvrar_config& config) {
      link_nodes(config);
      config.ring_bytes = 32768;
    });
    ASSERT_EQ(group.error(), "");
    const StubStream stream(3 * kRoom);
    nvrar_fused_all_reduce call = norm(stream.buffer(), 1);
    call.data_type = NVRAR_FLOAT32;
    call.hidden = NVRAR_MAX_HIDDEN;
    launched.clear();
    EXPECT_EQ(last(nvrar_all_reduce_fused(group.comm(0), &call, stream.handle())),
              "1 a row of 65536 bytes of 2 ranks does not fit into ring_bytes 32768");
    EXPECT_TRUE(launched.empty());
  });
}

TEST_F(LinkedGroups, EndWhereTheDriverTakesOnlyTheFirstHalfOfAFusedCall) {
  in_a_process([] {
    const Ranks group(2, NVRAR_MEMORY_LOCAL, link_nodes);
    ASSERT_EQ(group.error(), "");
    const StubStream stream(3 * kRoom);
    const nvrar_fused_all_reduce call = norm(stream.buffer(), 1);
    stub_cuda_refuse("cuLaunchKernelEx:2:2");
    const std::string error = last(nvrar_all_reduce_fused(group.comm(0), &call, stream.handle()));
    stub_cuda_refuse("");
    EXPECT_EQ(
        error,
        "3 allReduce #1 bfloat16[1 x 8192] SUM + residual + RMS norm (one-shot) was enqueued in part, which ended "
        "the group: launching a GPU kernel: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    EXPECT_NE(last(nvrar_barrier(group.comm(0), stream.handle())), "");
  });
}

}  // namespace
}  // namespace nvrar::test
