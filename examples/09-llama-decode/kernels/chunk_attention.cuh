// Causal attention of a chunk of rows, whose keys and values are in their pages.
//
// A block has a tile of rows, which follow each other in one sequence, and one query head. It passes over the pages of
// the sequence up to its last row's position, the next of which is copied while one is used; the sums stay in
// registers, and scores never leave them. Each of four warps has 16 rows of the tile, or twice 16, with which it uses
// each key and value that it loads twice.
#pragma once

#include "attention_args.cuh"

namespace llama {

struct ChunkArgs {
  uint32_t heads;      // of this rank
  uint32_t kv_heads;   // of this rank
  uint32_t group;      // query heads of a key/value head
  uint32_t first_row;  // of the layer in the pools, in rows of one position and head
  void* qkv;           // [rows][heads + 2 kv_heads][dim]
  const float* bias;   // [heads + 2 kv_heads][dim], or null
  const float2* rope;  // [positions][dim / 2]: cosine and sine
  PagedRows rows;
  const int4* tiles;  // first row, rows, sequence, position of the first row
  void* keys;         // [pages][kv_heads][64][dim], of all layers
  void* values;
  void* out;  // [rows][heads][dim]
};

constexpr uint32_t kChunkWarps = 4;
constexpr uint32_t kChunkThreads = kChunkWarps * 32;

// Copies 16 bytes, or zeros.
__device__ __forceinline__ void copy_piece(uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the newest `kPending` groups of this thread's copies are there.
template <uint32_t kPending>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Where a 16-byte piece of a row is in shared memory: eight rows' pieces of the same number lie in different banks.
template <uint32_t kDim>
__device__ __forceinline__ uint32_t piece_place(uint32_t row, uint32_t piece) {
  return row * kDim * 2 + ((piece ^ (row & 7)) << 4);
}

// Four matrices of 8 rows of 16 bytes, of which a lane names a row. Lane 4g + t gets of each the elements 2t and 2t+1
// of row g; transposed, the elements g of rows 2t and 2t+1.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

// The softmax of a warp's kTiles times 16 rows. Of each 16, a lane has the rows lane / 4 and lane / 4 + 8.
template <class T, uint32_t kDim, uint32_t kTiles>
struct ChunkSoftmax {
  static constexpr uint32_t kColumns = kPagePositions / 8;
  static constexpr uint32_t kValueTiles = kDim / 8;

  float greatest[kTiles][2];
  float weight[kTiles][2];
  float sums[kTiles][kValueTiles][4];

  __device__ __forceinline__ ChunkSoftmax() {
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      greatest[t][0] = greatest[t][1] = kNoScore;
      weight[t][0] = weight[t][1] = 0;
#pragma unroll
      for (uint32_t n = 0; n < kValueTiles; ++n) sums[t][n][0] = sums[t][n][1] = sums[t][n][2] = sums[t][n][3] = 0;
    }
  }

  // Adds a page. queries, keys and values are shared addresses, the first of this warp's first row.
  // ahead: how many positions the warp's first row is ahead of the page's first.
  __device__ __forceinline__ void add(uint32_t queries, uint32_t keys, uint32_t values, int32_t ahead) {
    const uint32_t lane = threadIdx.x % 32;
    float scores[kTiles][kColumns][4] = {};
#pragma unroll
    for (uint32_t k = 0; k < kDim / 16; ++k) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (uint32_t t = 0; t < kTiles; ++t) {
        load_matrices(a[t], queries + piece_place<kDim>(t * 16 + lane % 16, 2 * k + lane / 16));
      }
#pragma unroll
      for (uint32_t n = 0; n < kColumns; n += 2) {
        uint32_t b[4];
        load_matrices(b, keys + piece_place<kDim>(n * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
          multiply_add<T>(scores[t][n], a[t][0], a[t][1], a[t][2], a[t][3], b[0], b[1]);
          multiply_add<T>(scores[t][n + 1], a[t][0], a[t][1], a[t][2], a[t][3], b[2], b[3]);
        }
      }
    }
    if (ahead < static_cast<int32_t>(kPagePositions) - 1) hide_later(scores, ahead);
    weigh(scores);
#pragma unroll
    for (uint32_t k = 0; k < kPagePositions / 16; ++k) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (uint32_t t = 0; t < kTiles; ++t) {
        // The weights lie as the tensor cores take their operand.
        a[t][0] = packed<T>(scores[t][2 * k][0], scores[t][2 * k][1]);
        a[t][1] = packed<T>(scores[t][2 * k][2], scores[t][2 * k][3]);
        a[t][2] = packed<T>(scores[t][2 * k + 1][0], scores[t][2 * k + 1][1]);
        a[t][3] = packed<T>(scores[t][2 * k + 1][2], scores[t][2 * k + 1][3]);
      }
#pragma unroll
      for (uint32_t n = 0; n < kValueTiles; n += 2) {
        uint32_t b[4];
        load_transposed(b, values + piece_place<kDim>(k * 16 + lane % 16, n + lane / 16));
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
          multiply_add<T>(sums[t][n], a[t][0], a[t][1], a[t][2], a[t][3], b[0], b[1]);
          multiply_add<T>(sums[t][n + 1], a[t][0], a[t][1], a[t][2], a[t][3], b[2], b[3]);
        }
      }
    }
  }

  // out: of the warp's first row and the head; rows: that exist of the warp's, which may be none. stride: of rows.
  __device__ __forceinline__ void store(T* out, int32_t rows, size_t stride) {
    const int32_t first = threadIdx.x % 32 / 4;
    const uint32_t column = threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t eight = 0; eight < 2; ++eight) {
        float all = weight[t][eight];
        all += __shfl_xor_sync(~0u, all, 1);
        all += __shfl_xor_sync(~0u, all, 2);
        const float factor = 1 / all;
        const int32_t row = first + static_cast<int32_t>(t * 16 + eight * 8);
        if (row >= rows) continue;
#pragma unroll
        for (uint32_t n = 0; n < kValueTiles; ++n) {
          *reinterpret_cast<uint32_t*>(out + row * stride + n * 8 + column) =
              packed<T>(sums[t][n][2 * eight] * factor, sums[t][n][2 * eight + 1] * factor);
        }
      }
    }
  }

 private:
  // What comes behind a row has no score.
  __device__ __forceinline__ static void hide_later(float (&scores)[kTiles][kColumns][4], int32_t ahead) {
    const int32_t row = threadIdx.x % 32 / 4;
    const int32_t column = threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t n = 0; n < kColumns; ++n) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          const int32_t position = static_cast<int32_t>(n * 8 + i % 2) + column;
          if (position > ahead + row + static_cast<int32_t>(t * 16 + i / 2 * 8)) scores[t][n][i] = kNoScore;
        }
      }
    }
  }

  // Scores become weights relative to the greatest so far.
  __device__ __forceinline__ void weigh(float (&scores)[kTiles][kColumns][4]) {
    // Weights are powers of two.
    const float log2_scale = rsqrtf(static_cast<float>(kDim)) * 1.4426950408889634f;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t eight = 0; eight < 2; ++eight) {
        float most = greatest[t][eight];
#pragma unroll
        for (uint32_t n = 0; n < kColumns; ++n) {
          most = fmaxf(most, fmaxf(scores[t][n][2 * eight], scores[t][n][2 * eight + 1]));
        }
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float factor = power_of_two((greatest[t][eight] - most) * log2_scale);
        greatest[t][eight] = most;
        weight[t][eight] *= factor;
#pragma unroll
        for (uint32_t n = 0; n < kValueTiles; ++n) {
          sums[t][n][2 * eight] *= factor;
          sums[t][n][2 * eight + 1] *= factor;
        }
        const float offset = most * log2_scale;
#pragma unroll
        for (uint32_t n = 0; n < kColumns; ++n) {
#pragma unroll
          for (uint32_t i = 2 * eight; i < 2 * eight + 2; ++i) {
            scores[t][n][i] = power_of_two(fmaf(scores[t][n][i], log2_scale, -offset));
            weight[t][eight] += scores[t][n][i];
          }
        }
      }
    }
  }
};

// The grid is [tiles][heads]. Tiles with long contexts begin first.
template <class T, uint32_t kDim, uint32_t kTiles>
__device__ __forceinline__ void chunk_attention(const ChunkArgs& args) {
  constexpr uint32_t kRowPieces = kDim / 8;
  constexpr uint32_t kWarpRows = kTiles * 16;
  constexpr uint32_t kRows = kChunkWarps * kWarpRows;
  constexpr uint32_t kPageBytes = kPagePositions * kDim * 2;
  constexpr uint32_t kQueryBytes = kRows * kDim * 2;
  extern __shared__ __align__(128) uint8_t dynamic[];
  const uint32_t queries = shared_address(dynamic);
  const uint32_t pages_at = queries + kQueryBytes;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();

  const int4 tile = args.tiles[gridDim.y - 1 - blockIdx.y];
  const int32_t last = tile.w + tile.y - 1;
  const uint32_t count = last / kPagePositions + 1;
  const uint32_t head = blockIdx.x;
  const uint32_t kv_head = head / args.group;
  const int32_t* const pages = args.rows.pages + static_cast<size_t>(tile.z) * args.rows.max_pages;
  const size_t width = static_cast<size_t>(args.heads + 2 * args.kv_heads) * kDim;
  const T* const projected = static_cast<const T*>(args.qkv) + tile.x * width + head * kDim;

  const auto copy_page = [&](uint32_t number) {
    const uint32_t to = pages_at + number % 2 * 2 * kPageBytes;
    const size_t from =
        (args.first_row + (static_cast<size_t>(pages[number]) * args.kv_heads + kv_head) * kPagePositions) * kDim;
    const int32_t behind = last + 1 - static_cast<int32_t>(number * kPagePositions);
#pragma unroll
    for (uint32_t i = threadIdx.x; i < kPagePositions * kRowPieces; i += kChunkThreads) {
      const uint32_t row = i / kRowPieces;
      const uint32_t place = piece_place<kDim>(row, i % kRowPieces);
      // What no position has written need be no number, and 0 times that would be none.
      const bool exists = static_cast<int32_t>(row) < behind;
      copy_piece(to + place, static_cast<const T*>(args.keys) + from + i * 8, exists);
      copy_piece(to + kPageBytes + place, static_cast<const T*>(args.values) + from + i * 8, exists);
    }
    commit_copies();
  };
#pragma unroll
  for (uint32_t i = threadIdx.x; i < kRows * kRowPieces; i += kChunkThreads) {
    const uint32_t row = i / kRowPieces;
    const bool exists = static_cast<int32_t>(row) < tile.y;
    copy_piece(queries + piece_place<kDim>(row, i % kRowPieces),
               projected + (exists ? row : 0) * width + i % kRowPieces * 8, exists);
  }
  copy_page(0);

  const int32_t warp_row = threadIdx.x / 32 * kWarpRows;
  const int32_t warp_last = min(tile.y, warp_row + static_cast<int32_t>(kWarpRows)) - 1;
  ChunkSoftmax<T, kDim, kTiles> softmax;
  for (uint32_t number = 0; number < count; ++number) {
    if (number + 1 < count) {
      copy_page(number + 1);
      await_copies<1>();
    } else {
      await_copies<0>();
    }
    __syncthreads();
    const int32_t page_position = number * kPagePositions;
    // Not for a warp without rows, nor a page that is behind all of a warp's.
    if (warp_row <= warp_last && page_position <= tile.w + warp_last) {
      const uint32_t page = pages_at + number % 2 * 2 * kPageBytes;
      softmax.add(queries + warp_row * kDim * 2, page, page + kPageBytes, tile.w + warp_row - page_position);
    }
    // Before the page after the next takes this one's place.
    __syncthreads();
  }
  T* const out = static_cast<T*>(args.out) + (static_cast<size_t>(tile.x + warp_row) * args.heads + head) * kDim;
  softmax.store(out, tile.y - warp_row, static_cast<size_t>(args.heads) * kDim);
}

}  // namespace llama
