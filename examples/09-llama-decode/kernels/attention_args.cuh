// What attention gets, and where its rows' positions lie. See attention.cu.
#pragma once

#include "element.cuh"
#include "launch.cuh"
#include "paged_rows.cuh"
#include "row_scale.cuh"
#include "tile_copy.cuh"

namespace llama {

struct AttentionArgs {
  uint32_t heads;      // of this rank
  uint32_t kv_heads;   // of this rank
  uint32_t group;      // query heads of a key/value head
  uint32_t stages;     // of the ring
  uint32_t first_row;  // of the layer in the pools, in rows of one position and head
  uint32_t appended;   // 1: this step's keys and values are in the pools
  const float* qkv;    // [batch][heads + 2 kv_heads][dim]
  const float* bias;   // [heads + 2 kv_heads][dim], or null
  RowSquares squares;
  const float2* rope;  // [positions][dim / 2]: cosine and sine
  PagedRows rows;      // sequences: null if row r is sequence r
  void* keys;          // [pages][kv_heads][64][dim], of all layers
  void* values;
  void* out;  // [batch][heads][dim]
};

constexpr uint32_t kMaxGroup = 16;
constexpr uint32_t kMaxStages = 8;
constexpr uint32_t kAttendWarps = 4;
constexpr uint32_t kAttendThreads = kAttendWarps * 32;
constexpr uint32_t kThreads = kAttendThreads + 32;
constexpr uint32_t kWarpPositions = kPagePositions / kAttendWarps;
constexpr uint32_t kColumnBlockBytes = kPagePositions * kTileRowBytes;
// The score of a position that does not count. No infinity: the difference of two would be no number.
constexpr float kNoScore = -1e30f;

template <uint32_t kDim>
constexpr uint32_t kPairs = kDim / 2;
template <uint32_t kDim>
constexpr uint32_t kTileBytes = (kDim / kBlockColumns) * kColumnBlockBytes;

// Which positions of the row's sequence there are, and where they lie. Positions and page tables are written between
// steps, so they may be read before the wait.
struct Context {
  int32_t position;  // the newest
  const int32_t* pages;

  __device__ __forceinline__ Context(const AttentionArgs& args, uint32_t row)
      : position(load_written(args.rows.positions + row)) {
    const uint32_t sequence = args.rows.sequences == nullptr ? row : load_written(args.rows.sequences + row);
    pages = args.rows.pages + static_cast<size_t>(sequence) * args.rows.max_pages;
  }
  __device__ __forceinline__ bool idle() const { return position < 0; }
  __device__ __forceinline__ uint32_t tiles() const { return position / kPagePositions + 1; }
  // The row of a tile's first position in the pools.
  __device__ __forceinline__ static uint32_t row_of_page(const AttentionArgs& args, uint32_t page, uint32_t kv_head) {
    return args.first_row + (page * args.kv_heads + kv_head) * kPagePositions;
  }
  // Where the newest position's key or value belongs in a pool, in elements.
  template <uint32_t kDim>
  __device__ __forceinline__ size_t newest(const AttentionArgs& args, uint32_t kv_head) const {
    const uint32_t page = load_written(pages + position / kPagePositions);
    return static_cast<size_t>(row_of_page(args, page, kv_head) + position % kPagePositions) * kDim;
  }
};

// Number i of a head and number i + dim / 2, which the rotary embedding turns together.
template <uint32_t kDim>
struct Pair {
  float first;
  float second;

  __device__ __forceinline__ static Pair load(const float* row, uint32_t head, uint32_t i) {
    return {load_written(row + head * kDim + i), load_written(row + head * kDim + i + kPairs<kDim>)};
  }
  // Zeros without a bias. Before the wait: no kernel writes it.
  __device__ __forceinline__ static Pair bias(const float* bias, uint32_t head, uint32_t i) {
    if (bias == nullptr) return {0, 0};
    return {bias[head * kDim + i], bias[head * kDim + i + kPairs<kDim>]};
  }
  __device__ __forceinline__ Pair scaled(float scale, Pair bias) const {
    return {fmaf(first, scale, bias.first), fmaf(second, scale, bias.second)};
  }
  __device__ __forceinline__ Pair turned(float2 angle) const {
    return {first * angle.x - second * angle.y, second * angle.x + first * angle.y};
  }
  template <class T>
  __device__ __forceinline__ void store(T* head, uint32_t i) const {
    head[i] = rounded<T>(first);
    head[i + kPairs<kDim>] = rounded<T>(second);
  }
};

}  // namespace llama
