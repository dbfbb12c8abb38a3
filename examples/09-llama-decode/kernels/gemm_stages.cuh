// A GEMM's stages: how they come into the ring, and how a warp multiplies what is there. See gemm.cu.
#pragma once

#include "choice.cuh"
#include "element.cuh"
#include "launch.cuh"
#include "row_scale.cuh"
#include "tile_copy.cuh"

namespace llama {

struct GemmArgs {
  // The plan.
  uint32_t batch;          // rows of x
  uint32_t features;       // of the result: rows of W, half of them for kGated
  uint32_t column_blocks;  // K / 64
  uint32_t tile_features;  // features that a block sums up at a time
  uint32_t tiles;
  uint32_t stage_blocks;  // blocks of columns of a stage
  uint32_t stages;        // of the ring
  uint32_t groups;        // of features of a tile
  uint32_t group_slots;   // the power of two at or above groups: the eight warps are group_slots x column slots
  uint32_t unrolled;      // blocks of columns that a warp loads before it multiplies: 1, 2 or 4
  uint32_t weight_bytes;  // of W (kGated: of gate, and of up) in a stage
  uint32_t stage_bytes;
  uint32_t sums_offset;  // of the warps' sums in shared memory, behind the ring
  uint32_t first_token;  // kHead: of this rank's vocabulary
  // The data.
  void* out;           // [batch][features]
  const float* bias;   // kOut: [features], or null
  RowSquares squares;  // kGated, kHead
  uint64_t* keys;      // kHead: [batch][blocks]
  Sampling sampling;   // kHead
};

constexpr uint32_t kMultiplyWarps = 8;
constexpr uint32_t kMultiplyThreads = kMultiplyWarps * 32;
constexpr uint32_t kThreads = kMultiplyThreads + 32;
constexpr uint32_t kMaxStages = 16;
constexpr uint32_t kMaxBatch = 32;
constexpr uint32_t kMmaColumns = 8;

struct Ring {
  uint32_t begin;  // shared address
  Barrier* full;
  Barrier* empty;
};

// Which stage of the ring is next, and where its boxes begin. Counts and does not divide: the one thread that copies
// paces the kernel.
struct Cursor {
  uint32_t stage = 0;
  uint32_t step = 0;
  uint32_t block = 0;
  uint32_t feature;

  __device__ __forceinline__ void advance(const GemmArgs& args, uint32_t steps) {
    if (++stage == args.stages) stage = 0;
    block += args.stage_blocks;
    if (++step == steps) {
      step = 0;
      block = 0;
      feature += gridDim.x * args.tile_features;
    }
  }
};

// Copies W and x into the ring. steps: stages of a tile.
template <bool kGated>
__device__ __forceinline__ void copy_stages(const GemmArgs& args, const TensorMap& weights, const TensorMap& x,
                                            const Ring& ring, uint32_t steps) {
  constexpr uint32_t kParts = kGated ? 2 : 1;
  const uint64_t once = evict_first_policy();
  const uint64_t again = evict_last_policy();
  const uint32_t bytes = args.stage_blocks * (args.tile_features * kParts + args.batch) * kTileRowBytes;
  const uint32_t all = (args.tiles - blockIdx.x + gridDim.x - 1) / gridDim.x * steps;
  const uint32_t early = min(args.stages, all);
  Cursor at;
  at.feature = blockIdx.x * args.tile_features;
  Cursor x_at = at;
  const auto copy_weights = [&] {
    Barrier& full = ring.full[at.stage];
    const uint32_t to = ring.begin + at.stage * args.stage_bytes;
    full.arrive_and_expect(bytes);
    copy_box(to, weights, at.feature, at.block, full, once);
    if (kGated) copy_box(to + args.weight_bytes, weights, args.features + at.feature, at.block, full, once);
    at.advance(args, steps);
  };
  const auto copy_x = [&] {
    const uint32_t to = ring.begin + x_at.stage * args.stage_bytes + kParts * args.weight_bytes;
    copy_box(to, x, 0, x_at.block, ring.full[x_at.stage], again);
    x_at.advance(args, steps);
  };
  for (uint32_t i = 0; i < early; ++i) copy_weights();
  allow_next_kernel();
  await_earlier_kernels();
  for (uint32_t i = 0; i < early; ++i) copy_x();
  uint32_t parity = 0;
  for (uint32_t i = early; i < all; ++i) {
    ring.empty[at.stage].await(parity);
    const bool last_of_round = at.stage + 1 == args.stages;
    copy_weights();
    copy_x();
    if (last_of_round) parity ^= 1;
  }
}

// Few rows of x leave registers for several sets of sums, which are chains of dependent multiplications: a warp must be
// much faster than memory, or what the ring holds early is of no use.
template <int kTiles>
constexpr int kSets = kTiles > 2 ? 1 : 4 / kTiles;
template <int kTiles>
using Sums = float[kSets<kTiles>][kTiles][4];

// What a warp multiplies: a group of features, and every column_slots-th block of columns. row is the lane's among 8
// rows, pair its place among the row's four lanes.
template <int kTiles>
struct WarpPart {
  uint32_t group;
  uint32_t column_slot;
  uint32_t column_slots;
  uint32_t row;
  uint32_t pair;
  uint32_t x_rows[kTiles];
};

// The lane's first piece of a row of a tile; the second is at this address ^ 16.
__device__ __forceinline__ uint32_t piece_address(uint32_t tile, uint32_t row, uint32_t pair) {
  return tile + row * kTileRowBytes + (((2 * pair) ^ (row & 7)) << 4);
}

template <class T, int kTiles, bool kGated, int kUnrolled>
__device__ __forceinline__ void multiply_unrolled(const GemmArgs& args, const WarpPart<kTiles>& part, uint32_t weights,
                                                  uint32_t x, Sums<kTiles>& sums) {
  const uint32_t second_rows = kGated ? args.weight_bytes : kMmaColumns * kTileRowBytes;
  const uint32_t first_row = part.group * (kGated ? 8 : 16) + part.row;
  for (uint32_t block = part.column_slot; block < args.stage_blocks; block += kUnrolled * part.column_slots) {
    uint4 w[kUnrolled][4];
    uint4 xs[kUnrolled][kTiles][2];
#pragma unroll
    for (int i = 0; i < kUnrolled; ++i) {
      const uint32_t at = block + i * part.column_slots;
      const uint32_t address = piece_address(weights, at * args.tile_features + first_row, part.pair);
      w[i][0] = load_piece(address);
      w[i][1] = load_piece(address + second_rows);
      w[i][2] = load_piece(address ^ 16);
      w[i][3] = load_piece((address ^ 16) + second_rows);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const uint32_t x_address = piece_address(x, at * args.batch + part.x_rows[n], part.pair);
        xs[i][n][0] = load_piece(x_address);
        xs[i][n][1] = load_piece(x_address ^ 16);
      }
    }
#pragma unroll
    for (int i = 0; i < kUnrolled; ++i) {
#pragma unroll
      for (int piece = 0; piece < 2; ++piece) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          constexpr int kCount = kSets<kTiles>;
          const uint4 first = w[i][2 * piece];
          const uint4 second = w[i][2 * piece + 1];
          const uint4 column = xs[i][n][piece];
          const int set = (i * 4 + piece * 2) % kCount;
          multiply_add<T>(sums[set][n], first.x, second.x, first.y, second.y, column.x, column.y);
          multiply_add<T>(sums[(set + 1) % kCount][n], first.z, second.z, first.w, second.w, column.z, column.w);
        }
      }
    }
  }
}

template <class T, int kTiles, bool kGated>
__device__ __forceinline__ void multiply_stage(const GemmArgs& args, const WarpPart<kTiles>& part, uint32_t weights,
                                               uint32_t x, Sums<kTiles>& sums) {
  if (kTiles == 1 && args.unrolled == 4) {
    multiply_unrolled<T, kTiles, kGated, kTiles == 1 ? 4 : 1>(args, part, weights, x, sums);
  } else if (kTiles <= 2 && args.unrolled >= 2) {
    multiply_unrolled<T, kTiles, kGated, kTiles <= 2 ? 2 : 1>(args, part, weights, x, sums);
  } else {
    multiply_unrolled<T, kTiles, kGated, 1>(args, part, weights, x, sums);
  }
}

}  // namespace llama
