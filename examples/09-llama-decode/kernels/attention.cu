// Attention of a decode step, from the unscaled projection to the heads' results: norm scale, bias, rotary embedding,
// the new key and value into their page, softmax over all positions.
//
// A cluster of blocks serves one row and one key/value head, with all query heads that read it (up to 16, the rows of
// the tensor cores' operand). Its blocks share the positions tile by tile: block r has the tiles r, r + blocks, ... A
// tile is a page, 64 positions, and one box of keys and one of values; each of four warps has 16 of its positions. The
// blocks merge their results through each other's shared memory.
//
// Keys and values of earlier positions were written by earlier steps, so they are copied before the block waits for the
// projection; what this step adds is put into the copied tile in shared memory. With `appended` (several rows of one
// sequence: prefill) the new keys and values are in the pool already, by llama_append, and nothing is copied early.
#include "element.cuh"
#include "launch.cuh"
#include "row_scale.cuh"
#include "tile_copy.cuh"

namespace llama {

struct AttentionArgs {
  uint32_t heads;      // of this rank
  uint32_t kv_heads;   // of this rank
  uint32_t group;      // query heads of a key/value head
  uint32_t stages;     // of the ring
  uint32_t max_pages;  // of a sequence
  uint32_t first_row;  // of the layer in the pools, in rows of one position and head
  uint32_t appended;   // 1: this step's keys and values are in the pools
  const float* qkv;    // [batch][heads + 2 kv_heads][dim]
  const float* bias;   // [heads + 2 kv_heads][dim], or null
  RowSquares squares;
  const float2* rope;        // [positions][dim / 2]: cosine and sine
  const int32_t* positions;  // [batch]; -1: the row is idle
  const int32_t* sequences;  // [batch]; null: row r is sequence r
  const int32_t* pages;      // [sequences][max_pages]
  void* keys;                // [pages][kv_heads][64][dim], of all layers
  void* values;
  void* out;  // [batch][heads][dim]
};

constexpr uint32_t kPagePositions = 64;
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
      : position(load_written(args.positions + row)) {
    const uint32_t sequence = args.sequences == nullptr ? row : load_written(args.sequences + row);
    pages = args.pages + static_cast<size_t>(sequence) * args.max_pages;
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

// The warp that copies: this block's tiles of keys and values into the ring.
template <uint32_t kDim>
__device__ __forceinline__ void copy_tiles(const AttentionArgs& args, const TensorMap& keys, const TensorMap& values,
                                           const Context& context, uint32_t kv_head, uint32_t tiles, uint32_t ring,
                                           Barrier* full, Barrier* empty) {
  constexpr uint32_t kStageBytes = 2 * kTileBytes<kDim>;
  const uint32_t lane = threadIdx.x % 32;
  const uint64_t once = evict_first_policy();
  uint32_t stage = 0;
  int32_t page_of_lane = 0;
  const auto copy = [&](uint32_t i) {
    if (i % 32 == 0) {
      const uint32_t tile = blockIdx.x + (i + lane) * gridDim.x;
      if (tile < args.max_pages) page_of_lane = load_written(context.pages + tile);
    }
    const uint32_t page = __shfl_sync(~0u, page_of_lane, i % 32);
    if (lane == 0) {
      const uint32_t row = Context::row_of_page(args, page, kv_head);
      const uint32_t to = ring + stage * kStageBytes;
      full[stage].arrive_and_expect(kStageBytes);
      copy_box(to, keys, row, 0, full[stage], once);
      copy_box(to + kTileBytes<kDim>, values, row, 0, full[stage], once);
    }
    if (++stage == args.stages) stage = 0;
  };
  const uint32_t early = min(args.stages, tiles);
  if (args.appended != 0) await_earlier_kernels();
  for (uint32_t i = 0; i < early; ++i) copy(i);
  if (lane == 0) allow_next_kernel();
  await_earlier_kernels();
  uint32_t parity = 0;
  for (uint32_t i = early; i < tiles; ++i) {
    if (lane == 0) empty[stage].await(parity);
    copy(i);
    if (stage == 0) parity ^= 1;
  }
  __syncwarp();
}

// The queries, turned, and the newest key and value where this block has the newest position.
template <class T, uint32_t kDim>
__device__ __forceinline__ void make_queries(const AttentionArgs& args, const Context& context, uint32_t row,
                                             uint32_t kv_head, bool adds_newest, Shared<T, kDim>& shared) {
  constexpr uint32_t kSlots = kAttendThreads / kPairs<kDim>;
  constexpr uint32_t kHeads = kMaxGroup / kSlots;
  const uint32_t i = threadIdx.x % kPairs<kDim>;
  const uint32_t slot = threadIdx.x / kPairs<kDim>;
  const uint32_t first_head = kv_head * args.group;
  const uint32_t width = args.heads + 2 * args.kv_heads;
  const float2 angle = args.rope[static_cast<size_t>(context.position) * kPairs<kDim> + i];
  // The first slot has the key, the second the value.
  const bool adds = adds_newest && slot < 2;
  const uint32_t added_head = args.heads + slot * args.kv_heads + kv_head;
  size_t newest = 0;
  Pair<kDim> added_bias{};
  Pair<kDim> biases[kHeads];
#pragma unroll
  for (uint32_t j = 0; j < kHeads; ++j) {
    const uint32_t head = j * kSlots + slot;
    if (head < args.group) biases[j] = Pair<kDim>::bias(args.bias, first_head + head, i);
  }
  if (adds) {
    newest = context.newest<kDim>(args, kv_head);
    added_bias = Pair<kDim>::bias(args.bias, added_head, i);
  }

  await_earlier_kernels();
  const float* const projected = args.qkv + static_cast<size_t>(row) * width * kDim;
  Pair<kDim> queries[kHeads];
  Pair<kDim> added{};
#pragma unroll
  for (uint32_t j = 0; j < kHeads; ++j) {
    const uint32_t head = j * kSlots + slot;
    if (head < args.group) queries[j] = Pair<kDim>::load(projected, first_head + head, i);
  }
  if (adds) added = Pair<kDim>::load(projected, added_head, i);
  const float scale = row_scale(args.squares, row);
#pragma unroll
  for (uint32_t j = 0; j < kHeads; ++j) {
    const uint32_t head = j * kSlots + slot;
    if (head < args.group) queries[j].scaled(scale, biases[j]).turned(angle).store(shared.queries[head], i);
  }
  if (adds) {
    added = added.scaled(scale, added_bias);
    if (slot == 0) added = added.turned(angle);
    added.store(static_cast<T*>(slot == 0 ? args.keys : args.values) + newest, i);
    added.store(shared.newest[slot], i);
  }
}

// Completes the copied tile of the newest position, by the warps that attend: its key and value, which were not there
// when it was copied, and zeros for the values behind it that a warp's 16 positions take in. Whatever the pool holds
// there has the weight 0, but 0 times what is no number would be no number.
template <class T, uint32_t kDim>
__device__ __forceinline__ void complete_tile(uint8_t* keys, uint8_t* values, uint32_t position, bool adds_newest,
                                              const Shared<T, kDim>& shared) {
  constexpr uint32_t kPieces = kDim / 8;
  const uint32_t thread = threadIdx.x;
  if (adds_newest && thread < kDim) {
    const uint32_t piece = thread / 8 % 8;
    const uint32_t at = thread / kBlockColumns * kColumnBlockBytes + position * kTileRowBytes +
                        ((piece ^ (position & 7)) << 4) + thread % 8 * 2;
    *reinterpret_cast<T*>(keys + at) = shared.newest[0][thread];
    *reinterpret_cast<T*>(values + at) = shared.newest[1][thread];
  }
  const uint32_t behind = kWarpPositions - 1 - position % kWarpPositions;
  for (uint32_t i = thread; i < behind * kPieces; i += kAttendThreads) {
    const uint32_t row = position + 1 + i / kPieces;
    const uint32_t piece = i % kPieces;
    const uint32_t at = piece / 8 * kColumnBlockBytes + row * kTileRowBytes + piece % 8 * 16;
    *reinterpret_cast<uint4*>(values + at) = make_uint4(0, 0, 0, 0);
  }
  meet(1, kAttendThreads);
}

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

  // For the block: the weights into `shared`, the values to `to`, [warp][head][kStride].
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

// The grid is [rows][key/value heads][blocks of a cluster].
template <class T, uint32_t kDim>
__device__ __forceinline__ void attention(const TensorMap& keys, const TensorMap& values, const AttentionArgs& args) {
  extern __shared__ uint8_t dynamic[];
  __shared__ Shared<T, kDim> shared;
  const uint32_t dynamic_begin = shared_address(dynamic);
  const uint32_t ring = (dynamic_begin + kTileAlignment - 1) & ~(kTileAlignment - 1);
  uint8_t* const ring_bytes = dynamic + (ring - dynamic_begin);
  const uint32_t kv_head = blockIdx.y;
  const uint32_t row = blockIdx.z;
  const uint32_t warp = threadIdx.x / 32;
  const Context context(args, row);
  T* const out = static_cast<T*>(args.out) + (static_cast<size_t>(row) * args.heads + kv_head * args.group) * kDim;

  if (context.idle()) {
    // The same for all blocks of the cluster, so none waits for another.
    if (threadIdx.x == 0) allow_next_kernel();
    await_earlier_kernels();
    const OutPart part(args.group, kDim);
    for (uint32_t i = part.begin + threadIdx.x; i < part.end; i += kThreads) out[i] = T{0};
    return;
  }
  if (threadIdx.x < args.stages) {
    shared.full[threadIdx.x].init(1);
    shared.empty[threadIdx.x].init(kAttendWarps);
  }
  if (threadIdx.x == kAttendThreads) {
    prefetch(keys);
    prefetch(values);
  }
  // Rows of heads that the group does not have.
  for (uint32_t i = threadIdx.x; i < sizeof(shared.queries) / 4; i += kThreads) {
    reinterpret_cast<uint32_t*>(shared.queries)[i] = 0;
  }
  publish_barriers();
  __syncthreads();

  const uint32_t all_tiles = context.tiles();
  const uint32_t tiles = blockIdx.x < all_tiles ? (all_tiles - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  if (warp == kAttendWarps) {
    copy_tiles<kDim>(args, keys, values, context, kv_head, tiles, ring, shared.full, shared.empty);
  } else {
    const uint32_t last_tile = all_tiles - 1;
    const bool adds_newest = args.appended == 0 && last_tile % gridDim.x == blockIdx.x;
    make_queries<T, kDim>(args, context, row, kv_head, adds_newest, shared);
    meet(1, kAttendThreads);
    WarpSoftmax<T, kDim> softmax(shared);
    uint32_t stage = 0;
    uint32_t parity = 0;
    for (uint32_t i = 0; i < tiles; ++i) {
      const uint32_t tile = blockIdx.x + i * gridDim.x;
      const uint32_t offset = stage * 2 * kTileBytes<kDim>;
      const uint32_t newest = context.position % kPagePositions;
      shared.full[stage].await(parity);
      if (tile == last_tile) {
        complete_tile<T, kDim>(ring_bytes + offset, ring_bytes + offset + kTileBytes<kDim>, newest, adds_newest,
                               shared);
      }
      const uint32_t count = tile == last_tile ? newest + 1 : kPagePositions;
      const uint32_t first = warp * kWarpPositions;
      if (first < count) softmax.add(ring + offset, ring + offset + kTileBytes<kDim>, first, count);
      __syncwarp();
      if (threadIdx.x % 32 == 0) shared.empty[stage].arrive();
      if (++stage == args.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
    // All tiles have been read: the warps' results take their place.
    meet(1, kAttendThreads);
    float* const warp_values = reinterpret_cast<float*>(ring_bytes);
    softmax.give(args.group, shared, warp_values);
    meet(1, kAttendThreads);
    merge_warps<T, kDim>(args.group, warp_values, shared);
  }
  meet_cluster(gridDim.x);
  if (warp < kAttendWarps) merge_cluster<T, kDim>(args.group, shared.block, out);
  // Nobody leaves while its shared memory is read.
  meet_cluster(gridDim.x);
}

// Keys and values of a step into their pages, for an attention with `appended`. The grid is [rows][key/value heads], a
// block has a thread for each pair of the key and of the value.
template <class T, uint32_t kDim>
__device__ __forceinline__ void append(const AttentionArgs& args) {
  const uint32_t kv_head = blockIdx.x;
  const uint32_t row = blockIdx.y;
  const uint32_t i = threadIdx.x % kPairs<kDim>;
  const uint32_t slot = threadIdx.x / kPairs<kDim>;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const Context context(args, row);
  if (context.idle()) return;
  const uint32_t head = args.heads + slot * args.kv_heads + kv_head;
  const size_t width = args.heads + 2 * args.kv_heads;
  const float2 angle = args.rope[static_cast<size_t>(context.position) * kPairs<kDim> + i];
  Pair<kDim> added = Pair<kDim>::load(args.qkv + row * width * kDim, head, i);
  added = added.scaled(row_scale(args.squares, row), Pair<kDim>::bias(args.bias, head, i));
  if (slot == 0) added = added.turned(angle);
  added.store(static_cast<T*>(slot == 0 ? args.keys : args.values) + context.newest<kDim>(args, kv_head), i);
}

}  // namespace llama

#define LLAMA_ATTENTION(type, element, dim)                                                           \
  extern "C" __global__ void __launch_bounds__(llama::kThreads) llama_attention_##type##_##dim(       \
      const __grid_constant__ llama::TensorMap keys, const __grid_constant__ llama::TensorMap values, \
      const __grid_constant__ llama::AttentionArgs args) {                                            \
    llama::attention<llama::element, dim>(keys, values, args);                                        \
  }                                                                                                   \
  extern "C" __global__ void __launch_bounds__(2 * llama::kPairs<dim>)                                \
      llama_append_##type##_##dim(const __grid_constant__ llama::AttentionArgs args) {                \
    llama::append<llama::element, dim>(args);                                                         \
  }

LLAMA_ATTENTION(bfloat16, Bfloat16, 64)
LLAMA_ATTENTION(bfloat16, Bfloat16, 128)
LLAMA_ATTENTION(float16, Float16, 64)
LLAMA_ATTENTION(float16, Float16, 128)
