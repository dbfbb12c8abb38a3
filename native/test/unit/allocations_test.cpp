// What the library allocates: a call of a kind that there was before allocates nothing, and where there is no memory,
// what a peer may still write to is kept. This program counts and refuses by operators new of its own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "cuda/launch/fatbin.h"
#include "cuda/memory/leftovers.h"
#include "cuda/nvshmem/nvshmem_world.h"
#include "support/abi.h"
#include "support/cuda_ranks.h"
#include "support/forked.h"
#include "support/group.h"

namespace {

thread_local uint64_t allocations = 0;
thread_local bool has_memory = true;

}  // namespace

// Not inlined, or GCC finds the free of what its own operator new had made.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* const memory = has_memory ? std::malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new[](size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace nvrar::test {
namespace {

constexpr int kWorld = 2;
constexpr size_t kCount = 512;
constexpr int kCalls = 20;

struct Kind {
  std::string name;
  std::function<nvrar_status(int rank, nvrar_comm* comm)> call;
};

struct Buffers {
  alignas(16) float send[kWorld * kCount] = {};
  alignas(16) float recv[kWorld * kCount] = {};
  alignas(16) float more[4][kCount] = {};
};

uint64_t at(const float* memory) { return reinterpret_cast<uint64_t>(memory); }

nvrar_transfer transfer(int32_t kind, int peer, float* memory, uint64_t count = kCount / 4) {
  return {sizeof(nvrar_transfer), kind, peer, NVRAR_FLOAT32, at(memory), count};
}

std::vector<Kind> kinds_of_calls(std::vector<Buffers>& buffers, bool nodes) {
  std::vector<Kind> kinds;
  const auto add = [&](const std::string& name, auto call) {
    kinds.push_back({name, [&buffers, call](int rank, nvrar_comm* comm) {
                       return call(rank, comm, buffers[static_cast<size_t>(rank)]);
                     }});
  };
  for (int32_t algorithm = NVRAR_ALGORITHM_AUTO; algorithm <= NVRAR_ALGORITHM_HIERARCHICAL; ++algorithm) {
    if (algorithm == NVRAR_ALGORITHM_HIERARCHICAL && !nodes) continue;
    add("all-reduce by algorithm " + std::to_string(algorithm), [algorithm](int, nvrar_comm* comm, Buffers& of) {
      return nvrar_all_reduce(comm, at(of.send), at(of.recv), kCount, NVRAR_FLOAT32, NVRAR_SUM, algorithm, 0);
    });
  }
  add("reduce", [](int, nvrar_comm* comm, Buffers& of) {
    return nvrar_reduce(comm, at(of.send), at(of.recv), kCount, NVRAR_FLOAT32, NVRAR_MAX, 1, 0);
  });
  add("reduce-scatter", [](int, nvrar_comm* comm, Buffers& of) {
    return nvrar_reduce_scatter(comm, at(of.send), at(of.recv), kCount, NVRAR_FLOAT32, NVRAR_SUM, 0);
  });
  add("all-gather", [](int, nvrar_comm* comm, Buffers& of) {
    return nvrar_all_gather(comm, at(of.send), at(of.recv), kCount, NVRAR_FLOAT32, 0);
  });
  add("all-to-all", [](int, nvrar_comm* comm, Buffers& of) {
    return nvrar_all_to_all(comm, at(of.send), at(of.recv), kCount, NVRAR_FLOAT32, 0);
  });
  add("broadcast", [](int, nvrar_comm* comm, Buffers& of) {
    return nvrar_broadcast(comm, at(of.send), at(of.recv), kCount, NVRAR_FLOAT32, 0, 0);
  });
  add("barrier", [](int, nvrar_comm* comm, Buffers&) { return nvrar_barrier(comm, 0); });
  for (int32_t form = NVRAR_FUSION_RESIDUAL; form <= NVRAR_FUSION_RMS_FOLD; ++form) {
    add("fused all-reduce of form " + std::to_string(form), [form](int, nvrar_comm* comm, Buffers& of) {
      nvrar_fused_all_reduce call{};
      call.size = sizeof call;
      call.form = form;
      call.data_type = NVRAR_FLOAT32;
      call.rows = 2;
      call.hidden = kCount / 2;
      call.input = at(of.send);
      call.output = at(of.recv);
      if (form != NVRAR_FUSION_BIAS) call.residual = at(of.more[0]);
      if (form != NVRAR_FUSION_RESIDUAL) call.weight = at(of.more[1]);
      if (form >= NVRAR_FUSION_RMS_NORM) call.residual_out = at(of.more[2]);
      if (form == NVRAR_FUSION_RMS_FOLD) call.squares = at(of.more[3]);
      return nvrar_all_reduce_fused(comm, &call, 0);
    });
  }
  add("top-k", [](int rank, nvrar_comm* comm, Buffers& of) {
    nvrar_selection call{};
    call.size = sizeof call;
    call.data_type = NVRAR_FLOAT32;
    call.rows = 2;
    call.k = 5;
    call.columns = kCount / 2;
    call.first_index = static_cast<uint64_t>(rank) * call.columns;
    call.input = at(of.send);
    call.values = at(of.more[0]);
    call.indices = at(of.more[1]);
    return nvrar_top_k(comm, &call, 0);
  });
  add("a send or a recv", [](int rank, nvrar_comm* comm, Buffers& of) {
    const nvrar_transfer one = transfer(rank == 0 ? NVRAR_SEND : NVRAR_RECV, 1 - rank, of.send);
    return nvrar_batch(comm, &one, 1, 0);
  });
  add("a batch", [](int rank, nvrar_comm* comm, Buffers& of) {
    const nvrar_transfer all[] = {
        transfer(NVRAR_SEND, 1 - rank, of.send),    transfer(NVRAR_RECV, 1 - rank, of.recv),
        transfer(NVRAR_SEND, rank, of.more[0]),     transfer(NVRAR_RECV, rank, of.more[1]),
        transfer(NVRAR_SEND, 1 - rank, of.more[2]), transfer(NVRAR_RECV, 1 - rank, of.more[3])};
    return nvrar_batch(comm, all, 6, 0);
  });
  return kinds;
}

class Allocations : public ::testing::TestWithParam<bool> {};

TEST_P(Allocations, NoCallMakesAnyAfterTheFirstOfItsKind) {
  std::vector<Buffers> buffers(kWorld);
  ThreadGroup group(kWorld, {.ranks_per_node = GetParam() ? 1 : 0, .linked = GetParam()});
  const std::vector<Kind> kinds = kinds_of_calls(buffers, GetParam());
  group.run([&](int rank, nvrar_comm* comm) {
    for (const Kind& kind : kinds) {
      // Over links, what is read and sent at once varies a little.
      for (int i = 0; i < (GetParam() ? kCalls : 1); ++i)
        ASSERT_EQ(kind.call(rank, comm), NVRAR_OK) << nvrar_last_error();
      const uint64_t before = allocations;
      for (int i = 0; i < kCalls; ++i) ASSERT_EQ(kind.call(rank, comm), NVRAR_OK) << nvrar_last_error();
      EXPECT_EQ(allocations - before, 0U) << kind.name << " of rank " << rank;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, Allocations, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Linked" : "OnAHost"; });

TEST(Leftovers, StayWhereThereIsNoMemoryToNoteThem) {
  bool is_freed = false;
  std::shared_ptr<void> memory(&is_freed, [](void* flag) { *static_cast<bool*>(flag) = true; });
  std::function<bool()> all_left = [] { return true; };
  has_memory = false;
  cuda::leave_behind(std::move(all_left), std::move(memory));
  has_memory = true;
  cuda::sweep_leftovers();
  EXPECT_FALSE(is_freed);
}

// A destructor that needed memory would end the process.
TEST(Leftovers, OfAGroupOnGpusNeedNoMemoryWhenItIsDestroyed) {
  if (cuda::kernels().empty()) GTEST_SKIP() << "the library was built without nvcc";
  EXPECT_TRUE(run_forked(1, [](Process&) {
    ::setenv("STUB_CUDA_DEVICES", "2", 1);
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    uint8_t descriptors[2 * NVRAR_DESCRIPTOR_BYTES];
    nvrar_comm* comms[2] = {};
    ASSERT_EQ(last(nvrar_unique_id(NVRAR_BACKEND_CUDA, id)), "");
    for (int rank = 0; rank < 2; ++rank) {
      const nvrar_config config = config_of(rank, 2, NVRAR_MEMORY_LOCAL);
      ASSERT_EQ(last(nvrar_prepare(&config, nullptr, 0, id, descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comms[rank])),
                "");
    }
    for (nvrar_comm* comm : comms) ASSERT_EQ(last(nvrar_connect(comm, descriptors)), "");
    for (nvrar_comm* comm : comms) {
      has_memory = false;
      const nvrar_status status = nvrar_destroy(comm);
      has_memory = true;
      EXPECT_EQ(status, NVRAR_OK);
    }
  }));
}

TEST(NvshmemWorld, IsLostAlsoWhereThereIsNoMemoryToNoteWhy) {
  EXPECT_TRUE(run_forked(1, [](Process&) {
    cuda::NvshmemWorld& world = cuda::NvshmemWorld::of_process();
    has_memory = false;
    world.lose("a member of one of its groups was lost or aborted");
    has_memory = true;
    EXPECT_EQ(error_of([&] { (void)world.settle(0, 1); }),
              "4 this process can make no group over NVSHMEM any more and has to be replaced, or use CUDA IPC");
  }));
}

TEST(Leftovers, AreFreedOnceAllHaveLeft) {
  bool is_freed = false;
  bool has_left = false;
  cuda::leave_behind([&] { return has_left; },
                     std::shared_ptr<void>(&is_freed, [](void* flag) { *static_cast<bool*>(flag) = true; }));
  cuda::sweep_leftovers();
  EXPECT_FALSE(is_freed);
  has_left = true;
  has_memory = false;  // sweeping needs none
  cuda::sweep_leftovers();
  has_memory = true;
  EXPECT_TRUE(is_freed);
}

}  // namespace
}  // namespace nvrar::test
