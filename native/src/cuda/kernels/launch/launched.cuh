// The position of a block in its launch, and the kernel's arguments. All kernels obtain them here, because in a test
// build (NVRAR_TEST_ADVERSE; test/device/test_block.cuh) one launch may run the blocks of all ranks, a defect may be
// planted, and a block may stop at a chosen moment. In any other build all of this compiles to nothing.
#pragma once

#include "cuda/kernels/launch/kernel_args.h"

#if defined(NVRAR_TEST_ADVERSE)
#include "device/test_block.cuh"
#else
namespace nvrar::cuda {

template <class Args>
using Launched = Args;

template <class Args>
__device__ __forceinline__ const Args& args_of(const Args& launched) {
  return launched;
}
__device__ __forceinline__ uint32_t block_index() { return blockIdx.x; }
__device__ __forceinline__ uint32_t grid_blocks() { return gridDim.x; }

// slot: where a packet is sent, awaited or emptied, in the rings of some rank.
__device__ __forceinline__ void pass_moment(const KernelArgs&, protocol::Moment, const protocol::Packet*) {}
__device__ __forceinline__ void store_torn(protocol::Packet*, const protocol::Packet&) {}

}  // namespace nvrar::cuda
#endif

// Defines a kernel of that name, whose body is a function of its arguments. blocks: how many blocks must fit on a
// multiprocessor; 0: no requirement.
#define NVRAR_KERNEL_OF(Args, name, threads, blocks, ...)             \
  extern "C" __global__ void __launch_bounds__(threads, blocks)       \
      nvrar_##name(const __grid_constant__ Launched<Args> launched) { \
    __VA_ARGS__(args_of(launched));                                   \
  }
#define NVRAR_KERNEL(name, threads, blocks, ...) NVRAR_KERNEL_OF(KernelArgs, name, threads, blocks, __VA_ARGS__)
