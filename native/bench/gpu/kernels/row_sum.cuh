// The sum of a number of each thread of the blocks that have a row: those of a cluster, the same in all of them.
#pragma once

#include <cstdint>

namespace nvrar::bench {

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// In shared memory, for one sum; all threads of the blocks call it.
template <uint32_t kBlocks>
struct RowSum {
  float of_warps[32];
  float of_blocks[kBlocks];

  // First of all, and early: until each block of the cluster has begun, the others must not write its shared memory.
  __device__ __forceinline__ void begin() const {
    if constexpr (kBlocks > 1) asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }

  __device__ __forceinline__ float of(float value) {
    const float block = of_block(value);
    if constexpr (kBlocks == 1) {
      return block;
    } else {
      return of_cluster(block);
    }
  }

 private:
  __device__ __forceinline__ float of_block(float value) {
    const uint32_t lane = threadIdx.x % 32;
    value = warp_sum(value);
    if (lane == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? of_warps[lane] : 0.0f);
  }

  // For sm_90 and above only.
  __device__ __forceinline__ float of_cluster(float block) {
    asm volatile("barrier.cluster.wait;" ::: "memory");
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x < kBlocks) {
      asm volatile("{.reg .b32 to; mapa.shared::cluster.u32 to, %0, %1; st.shared::cluster.f32 [to], %2;}" ::"r"(
                       static_cast<uint32_t>(__cvta_generic_to_shared(of_blocks + rank))),
                   "r"(threadIdx.x), "f"(block)
                   : "memory");
    }
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kBlocks; ++i) sum += of_blocks[i];
    return sum;
  }
};

}  // namespace nvrar::bench
