// Replaces launched.cuh in a test build of the kernels.
#pragma once

#include "device/test_launch.h"

namespace nvrar::test {

struct TestBlock {
  uint32_t index;
  uint32_t blocks;  // of its rank
  uint32_t stood_still;
  Switches switches;
};
__shared__ TestBlock test_block;

}  // namespace nvrar::test

namespace nvrar::protocol {

NVRAR_HD bool planted(Defect defect) { return test::test_block.switches.planted == defect; }

}  // namespace nvrar::protocol

namespace nvrar::cuda {

template <class Args>
using Launched = test::Launch<Args>;

// All threads of the block.
template <class Args>
__device__ __forceinline__ const Args& args_of(const test::Launch<Args>& launched) {
  const uint32_t rank = launched.of_ranks == nullptr ? 0 : blockIdx.x / launched.blocks_per_rank;
  if (threadIdx.x == 0) {
    test::test_block.index = launched.of_ranks == nullptr ? blockIdx.x : blockIdx.x % launched.blocks_per_rank;
    test::test_block.blocks = launched.of_ranks == nullptr ? gridDim.x : launched.blocks[rank];
    test::test_block.stood_still = 0;
    test::test_block.switches = launched.switches;
  }
  __syncthreads();
  if (test::test_block.index >= test::test_block.blocks) asm volatile("exit;");
  return launched.of_ranks == nullptr ? launched.own : launched.of_ranks[rank];
}
__device__ __forceinline__ uint32_t block_index() { return test::test_block.index; }
__device__ __forceinline__ uint32_t grid_blocks() { return test::test_block.blocks; }

__device__ __forceinline__ void wait_ns(uint64_t ns) {
  const auto now_ns = [] {
    uint64_t value;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
    return value;
  };
  const uint64_t begin_ns = now_ns();
  while (now_ns() - begin_ns < ns) {
  }
}

// Not inlined: it is in every send and every wait.
static __device__ __noinline__ void stand_still(const KernelArgs& args, protocol::Moment moment,
                                                const protocol::Packet* at) {
  const test::Stall& stall = test::test_block.switches.stall;
  if (args.launch.rank != stall.rank || moment != stall.moment) return;
  const protocol::RingLayout& layout = args.launch.layout;
  const auto address = reinterpret_cast<uint64_t>(at);
  for (uint32_t rank = 0; rank < layout.topology.world; ++rank) {
    const auto rings = reinterpret_cast<uint64_t>(args.rings[rank]);
    if (address < rings || address - rings >= layout.total_bytes()) continue;
    if (test::part_of(layout, (address - rings) / protocol::kPacketBytes) != stall.part) return;
    if (atomicExch(&test::test_block.stood_still, 1u) != 0) return;
    *reinterpret_cast<volatile uint32_t*>(test::test_block.switches.stalled) = 1;
    wait_ns(stall.ns);
    return;
  }
}
__device__ __forceinline__ void pass_moment(const KernelArgs& args, protocol::Moment moment,
                                            const protocol::Packet* at) {
  if (test::test_block.switches.stall.ns != 0) stand_still(args, moment, at);
}

// What shows that a packet has come before a part of what it carries; none that a header has.
static __device__ __noinline__ void store_torn(protocol::Packet* slot, protocol::Packet packet) {
  for (const int word : {0, 3, 2, 1}) {
    *reinterpret_cast<volatile uint32_t*>(&slot->words[word]) = packet[word];
    if (word == 2) wait_ns(3000);
  }
}

}  // namespace nvrar::cuda
