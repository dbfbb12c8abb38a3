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
#include "cluster_softmax.cuh"

namespace llama {

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
      if (tile < args.rows.max_pages) page_of_lane = load_written(context.pages + tile);
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
