// Numbers that the blocks of a cluster give each other. Below sm_90 there are no clusters, and a block is alone.
#pragma once

#include "cuda/kernels/launch/kernel_args.h"

namespace nvrar::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* of) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(of));
}

// kCount numbers, of which each block of the cluster gets all. Every number is given once by a thread of some block.
// In shared memory; all threads of the block call every function together but for give().
template <uint32_t kCount>
struct ClusterNumbers {
  alignas(16) float numbers[kCount];
  uint64_t barrier;

  // First of all, and early: what the threads have to wait for below comes while they do other things. blocks: of the
  // cluster. count: how many numbers there will be.
  __device__ __forceinline__ void begin(uint32_t blocks, uint32_t count) {
#if __CUDA_ARCH__ >= 900
    if (blocks == 1) return;
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
                   "r"(count * static_cast<uint32_t>(sizeof(float)))
                   : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
  }
  // Before the first give(): until the barriers of all blocks are there.
  __device__ __forceinline__ void await_others(uint32_t blocks) const {
#if __CUDA_ARCH__ >= 900
    if (blocks != 1) asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
  }
  // By one thread: to one block of the cluster.
  __device__ __forceinline__ void give(uint32_t blocks, uint32_t block, uint32_t index, float number) {
#if __CUDA_ARCH__ >= 900
    if (blocks != 1) {
      asm volatile(
          "{.reg .b32 to, at; mapa.shared::cluster.u32 to, %0, %2; mapa.shared::cluster.u32 at, %1, %2;"
          " st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %3, [at];}" ::"r"(
              shared_address(numbers + index)),
          "r"(shared_address(&barrier)), "r"(block), "r"(__float_as_uint(number))
          : "memory");
      return;
    }
#endif
    numbers[index] = number;
  }
  // Until all numbers are there. Every block gives its own whatever fails, so this ends.
  __device__ __forceinline__ void await(uint32_t blocks) const {
#if __CUDA_ARCH__ >= 900
    if (blocks != 1) {
      uint32_t done;
      do {
        asm volatile(
            "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;"
            " selp.u32 %0, 1, 0, p;}"
            : "=r"(done)
            : "r"(shared_address(&barrier))
            : "memory");
      } while (done == 0);
      return;
    }
#endif
    __syncthreads();
  }
};

}  // namespace nvrar::cuda
