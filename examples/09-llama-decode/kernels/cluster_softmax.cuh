// The softmax of a row's scores and the weighted sum of its values: by warps, merged by the block, then by the cluster.
// See attention.cu.
#pragma once

#include "attention_args.cuh"

namespace llama {

__device__ __forceinline__ float load_peer(const float* of, uint32_t block) {
  float value;
  asm volatile("{.reg .u32 at; mapa.shared::cluster.u32 at, %1, %2; ld.shared::cluster.f32 %0, [at];}"
               : "=f"(value)
               : "r"(shared_address(of)), "r"(block)
               : "memory");
  return value;
}
// All threads of all blocks of the cluster.
__device__ __forceinline__ void meet_cluster(uint32_t blocks) {
  if (blocks == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
}

// What one warp or one block knows of the softmax of a head: the greatest score, the sum of the weights relative to it,
// and the sum of the weighted values.
template <uint32_t kDim>
struct Partial {
  float greatest[kMaxGroup];
  float weight[kMaxGroup];
  alignas(16) float values[kMaxGroup][kDim];
};

template <class T, uint32_t kDim>
struct Shared {
  Barrier full[kMaxStages];
  Barrier empty[kMaxStages];
  alignas(16) T queries[kMaxGroup][kDim + 8];
  alignas(16) T newest[2][kDim];  // key, value
  float warp_greatest[kAttendWarps][kMaxGroup];
  float warp_weight[kAttendWarps][kMaxGroup];
  Partial<kDim> block;
};

// A warp's part of the softmax: of the heads `row` and `row` + 8 of the group, by the four lanes of a row.
template <class T, uint32_t kDim>
struct WarpSoftmax {
  static constexpr uint32_t kColumnBlocks = kDim / kBlockColumns;
  static constexpr uint32_t kValueTiles = kDim / 8;

  // [row, row + 8][columns][piece]: a lane's pieces of a row as in gemm.cu.
  uint4 queries[2][kColumnBlocks][2];
  float greatest[2] = {kNoScore, kNoScore};
  float weight[2] = {};
  float sums[kValueTiles][4] = {};

  __device__ __forceinline__ explicit WarpSoftmax(const Shared<T, kDim>& shared) {
    const uint32_t row = threadIdx.x % 32 / 4;
    const uint32_t pair = threadIdx.x % 4;
#pragma unroll
    for (uint32_t eight = 0; eight < 2; ++eight) {
#pragma unroll
      for (uint32_t block = 0; block < kColumnBlocks; ++block) {
#pragma unroll
        for (uint32_t piece = 0; piece < 2; ++piece) {
          queries[eight][block][piece] = *reinterpret_cast<const uint4*>(
              &shared.queries[row + eight * 8][block * kBlockColumns + pair * 16 + piece * 8]);
        }
      }
    }
  }

  // 16 positions of a tile, `first` and those behind it. count: how many positions of the tile there are.
  __device__ __forceinline__ void add(uint32_t keys, uint32_t values, uint32_t first, uint32_t count) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = lane / 4;
    const uint32_t pair = lane % 4;
    // In two sets, which do not wait for each other.
    float scores[2][4] = {};
    float others[2][4] = {};
#pragma unroll
    for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
      for (uint32_t block = 0; block < kColumnBlocks; ++block) {
#pragma unroll
        for (uint32_t piece = 0; piece < 2; ++piece) {
          const uint32_t position = first + n * 8 + row;
          const uint4 key = load_piece(keys + block * kColumnBlockBytes + position * kTileRowBytes +
                                       (((2 * pair + piece) ^ (position & 7)) << 4));
          const uint4 low = queries[0][block][piece];
          const uint4 high = queries[1][block][piece];
          multiply_add<T>(scores[n], low.x, high.x, low.y, high.y, key.x, key.y);
          multiply_add<T>(others[n], low.z, high.z, low.w, high.w, key.z, key.w);
        }
      }
    }
    // Weights are powers of two.
    const float log2_scale = rsqrtf(static_cast<float>(kDim)) * 1.4426950408889634f;
    float most[2] = {greatest[0], greatest[1]};
#pragma unroll
    for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const bool exists = first + n * 8 + 2 * pair + i % 2 < count;
        scores[n][i] = exists ? (scores[n][i] + others[n][i]) * log2_scale : kNoScore;
        most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
      }
    }
#pragma unroll
    for (uint32_t eight = 0; eight < 2; ++eight) {
      most[eight] = fmaxf(most[eight], __shfl_xor_sync(~0u, most[eight], 1));
      most[eight] = fmaxf(most[eight], __shfl_xor_sync(~0u, most[eight], 2));
      const float factor = exp2f(greatest[eight] - most[eight]);
      greatest[eight] = most[eight];
      weight[eight] *= factor;
#pragma unroll
      for (uint32_t n = 0; n < kValueTiles; ++n) {
        sums[n][2 * eight] *= factor;
        sums[n][2 * eight + 1] *= factor;
      }
    }
#pragma unroll
    for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        scores[n][i] = exp2f(scores[n][i] - greatest[i / 2]);
        weight[i / 2] += scores[n][i];
      }
    }
    // The weights lie as the tensor cores take their operand.
    const uint32_t a0 = packed<T>(scores[0][0], scores[0][1]);
    const uint32_t a1 = packed<T>(scores[0][2], scores[0][3]);
    const uint32_t a2 = packed<T>(scores[1][0], scores[1][1]);
    const uint32_t a3 = packed<T>(scores[1][2], scores[1][3]);
    const uint32_t position = first + lane % 16;
#pragma unroll
    for (uint32_t n = 0; n < kValueTiles; n += 2) {
      const uint32_t piece = n + lane / 16;
      const uint32_t at =
          values + piece / 8 * kColumnBlockBytes + position * kTileRowBytes + (((piece % 8) ^ (position & 7)) << 4);
      uint32_t b[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(at)
                   : "memory");
      multiply_add<T>(sums[n], a0, a1, a2, a3, b[0], b[1]);
      multiply_add<T>(sums[n + 1], a0, a1, a2, a3, b[2], b[3]);
    }
  }

  // For the block: the greatest scores and weights into `shared`, the sums to `to`, [warp][head][kStride].
  static constexpr uint32_t kStride = kDim + 8;
  __device__ __forceinline__ void give(uint32_t group, Shared<T, kDim>& shared, float* to) {
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t pair = threadIdx.x % 4;
#pragma unroll
    for (uint32_t eight = 0; eight < 2; ++eight) {
      weight[eight] += __shfl_xor_sync(~0u, weight[eight], 1);
      weight[eight] += __shfl_xor_sync(~0u, weight[eight], 2);
      const uint32_t head = threadIdx.x % 32 / 4 + eight * 8;
      if (head >= group) continue;
      if (pair == 0) {
        shared.warp_greatest[warp][head] = greatest[eight];
        shared.warp_weight[warp][head] = weight[eight];
      }
#pragma unroll
      for (uint32_t n = 0; n < kValueTiles; ++n) {
        *reinterpret_cast<float2*>(to + (warp * group + head) * kStride + n * 8 + 2 * pair) =
            make_float2(sums[n][2 * eight], sums[n][2 * eight + 1]);
      }
    }
  }
};

// The sum of the warps' results, four numbers of a head a thread.
template <class T, uint32_t kDim>
__device__ __forceinline__ void merge_warps(uint32_t group, const float* from, Shared<T, kDim>& shared) {
  for (uint32_t i = threadIdx.x; i < group * (kDim / 4); i += kAttendThreads) {
    const uint32_t head = i / (kDim / 4);
    const uint32_t at = i % (kDim / 4) * 4;
    float greatest = kNoScore;
#pragma unroll
    for (uint32_t warp = 0; warp < kAttendWarps; ++warp) greatest = fmaxf(greatest, shared.warp_greatest[warp][head]);
    float weight = 0;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (uint32_t warp = 0; warp < kAttendWarps; ++warp) {
      const float factor = exp2f(shared.warp_greatest[warp][head] - greatest);
      const float4 values =
          *reinterpret_cast<const float4*>(from + (warp * group + head) * WarpSoftmax<T, kDim>::kStride + at);
      weight += shared.warp_weight[warp][head] * factor;
      sum.x += values.x * factor;
      sum.y += values.y * factor;
      sum.z += values.z * factor;
      sum.w += values.w * factor;
    }
    *reinterpret_cast<float4*>(&shared.block.values[head][at]) = sum;
    if (at == 0) {
      shared.block.greatest[head] = greatest;
      shared.block.weight[head] = weight;
    }
  }
}

// The part of the group's numbers that a block writes.
struct OutPart {
  uint32_t begin;
  uint32_t end;

  __device__ __forceinline__ OutPart(uint32_t group, uint32_t dim) {
    const uint32_t size = group * dim / gridDim.x;
    begin = blockIdx.x * size;
    end = begin + size;
  }
};

// The sum of the blocks' results. kBlocks: of the cluster.
template <class T, uint32_t kDim, uint32_t kBlocks>
__device__ __forceinline__ void merge_blocks(uint32_t group, const Partial<kDim>& block, T* out) {
  const OutPart part(group, kDim);
  for (uint32_t i = part.begin + threadIdx.x; i < part.end; i += kAttendThreads) {
    const uint32_t head = i / kDim;
    float greatest[kBlocks];
    float most = kNoScore;
#pragma unroll
    for (uint32_t peer = 0; peer < kBlocks; ++peer) {
      greatest[peer] = load_peer(&block.greatest[head], peer);
      most = fmaxf(most, greatest[peer]);
    }
    float weight = 0;
    float sum = 0;
#pragma unroll
    for (uint32_t peer = 0; peer < kBlocks; ++peer) {
      const float factor = exp2f(greatest[peer] - most);
      weight += load_peer(&block.weight[head], peer) * factor;
      sum += load_peer(&block.values[head][i % kDim], peer) * factor;
    }
    out[i] = rounded<T>(sum / weight);
  }
}

template <class T, uint32_t kDim>
__device__ __forceinline__ void merge_cluster(uint32_t group, const Partial<kDim>& block, T* out) {
  switch (gridDim.x) {
    case 1:
      return merge_blocks<T, kDim, 1>(group, block, out);
    case 2:
      return merge_blocks<T, kDim, 2>(group, block, out);
    case 4:
      return merge_blocks<T, kDim, 4>(group, block, out);
    case 8:
      return merge_blocks<T, kDim, 8>(group, block, out);
    default:
      return merge_blocks<T, kDim, 16>(group, block, out);
  }
}

}  // namespace llama
