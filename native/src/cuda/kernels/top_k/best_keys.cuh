// The k greatest of any number of keys, by a block.
#pragma once

#include "kernels/launch/launched.cuh"
#include "protocol/top_key.h"

namespace nvrar::cuda {

// All threads of the block call every function together.
class BestKeys {
 public:
  static constexpr uint32_t kMostKept = 1024;  // NVRAR_MAX_TOP_K

  struct Shared {
    uint64_t keys[2560];
    uint64_t most[kTopKThreads / kWarpThreads];
    uint32_t counts[2][kTopKThreads / kWarpThreads];
    uint32_t count;
  };

  __device__ __forceinline__ BestKeys(Shared& shared, uint32_t k) : shared_(shared), k_(k) {}

  // Behind it shared.keys holds the k greatest of key_at(0) .. key_at(n - 1), or all that are not kNoKey if these are
  // fewer, and shared.count their number.
  template <class KeyAt>
  __device__ __forceinline__ void find(uint32_t n, KeyAt key_at) {
    if (k_ == 1) return find_greatest(n, key_at);
    if (threadIdx.x == 0) shared_.count = 0;
    uint64_t floor = protocol::kNoKey;
    __syncthreads();
#pragma unroll 1
    for (uint32_t begin = 0; begin < n; begin += kTile) {
      uint64_t keys[kTileKeys];
#pragma unroll
      for (uint32_t i = 0; i < kTileKeys; ++i) {
        const uint32_t at = begin + i * kTopKThreads + threadIdx.x;
        keys[i] = at < n ? key_at(at) : protocol::kNoKey;
      }
#pragma unroll
      for (const uint64_t key : keys) append(key, key > floor);
      __syncthreads();
      const uint32_t count = shared_.count;
      __syncthreads();  // all have read it before a warp appends the next tile's
      if (count > k_ && (count > kMostKept || begin + kTile >= n)) floor = keep_best(count);
    }
  }

 private:
  static constexpr uint32_t kWarps = kTopKThreads / kWarpThreads;
  static constexpr uint32_t kTileKeys = 6;
  static constexpr uint32_t kTile = kTileKeys * kTopKThreads;
  static constexpr uint32_t kOwnKeys = (kMostKept + kTile) / kTopKThreads;
  static_assert(kMostKept + kTile == sizeof(Shared::keys) / sizeof(uint64_t));

  // Of one alone no other key has to be kept.
  template <class KeyAt>
  __device__ __forceinline__ void find_greatest(uint32_t n, KeyAt key_at) {
    uint64_t keys[kTileKeys] = {};
#pragma unroll 1
    for (uint32_t begin = 0; begin < n; begin += kTile) {
#pragma unroll
      for (uint32_t i = 0; i < kTileKeys; ++i) {
        const uint32_t at = begin + i * kTopKThreads + threadIdx.x;
        const uint64_t key = at < n ? key_at(at) : protocol::kNoKey;
        keys[i] = key > keys[i] ? key : keys[i];
      }
    }
    const uint64_t most = greatest(keys);
    if (threadIdx.x == 0) {
      shared_.keys[0] = most;
      shared_.count = most == protocol::kNoKey ? 0 : 1;
    }
    __syncthreads();
  }

  // At the end of the keys, if it is one of them.
  __device__ __forceinline__ void append(uint64_t key, bool is_one) {
    const uint32_t mask = __ballot_sync(~0u, is_one);
    if (mask == 0) return;
    const uint32_t lane = threadIdx.x % kWarpThreads;
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(&shared_.count, __popc(mask));
    at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
    if (is_one) shared_.keys[at] = key;
  }

  // Keeps k of more keys; returns the least of these.
  __device__ __forceinline__ uint64_t keep_best(uint32_t count) {
    uint64_t keys[kOwnKeys];
#pragma unroll
    for (uint32_t i = 0; i < kOwnKeys; ++i) {
      const uint32_t at = i * kTopKThreads + threadIdx.x;
      keys[i] = at < count ? shared_.keys[at] : protocol::kNoKey;
    }
    const uint64_t least = least_kept(keys);
    __syncthreads();
    if (threadIdx.x == 0) shared_.count = 0;
    __syncthreads();
#pragma unroll
    for (const uint64_t key : keys) append(key, key > least);
    __syncthreads();
    // These may be more than are left to keep: NaNs, or columns that have the same index on several ranks.
#pragma unroll
    for (const uint64_t key : keys) append(key, key == least);
    __syncthreads();
    if (threadIdx.x == 0) shared_.count = k_;
    __syncthreads();
    return least;
  }

  // The greatest bound that k keys reach.
  __device__ __forceinline__ uint64_t least_kept(const uint64_t (&keys)[kOwnKeys]) {
    uint64_t high = greatest(keys);
    uint64_t low = 1;
    uint32_t turn = 0;
#pragma unroll 1
    while (low < high) {
      const uint64_t middle = high - (high - low) / 2;
      const uint32_t reach = count_from(middle, keys, turn);
      turn ^= 1;
      if (reach < k_) {
        high = middle - 1;
        continue;
      }
      low = middle;
      if (reach == k_) break;
    }
    return low;
  }

  template <uint32_t kCount>
  __device__ __forceinline__ uint64_t greatest(const uint64_t (&keys)[kCount]) {
    unsigned long long most = 0;
#pragma unroll
    for (const uint64_t key : keys) most = key > most ? key : most;
#pragma unroll
    for (uint32_t apart = kWarpThreads / 2; apart > 0; apart /= 2) {
      const unsigned long long other = __shfl_xor_sync(~0u, most, apart);
      most = other > most ? other : most;
    }
    if (threadIdx.x % kWarpThreads == 0) shared_.most[threadIdx.x / kWarpThreads] = most;
    __syncthreads();
#pragma unroll
    for (uint32_t warp = 0; warp < kWarps; ++warp) most = shared_.most[warp] > most ? shared_.most[warp] : most;
    return most;
  }

  // turn: another one than in the call before, whose counts may still be read.
  __device__ __forceinline__ uint32_t count_from(uint64_t least, const uint64_t (&keys)[kOwnKeys], uint32_t turn) {
    uint32_t count = 0;
#pragma unroll
    for (const uint64_t key : keys) count += __popc(__ballot_sync(~0u, key >= least));
    if (threadIdx.x % kWarpThreads == 0) shared_.counts[turn][threadIdx.x / kWarpThreads] = count;
    __syncthreads();
    uint32_t all = 0;
#pragma unroll
    for (uint32_t warp = 0; warp < kWarps; ++warp) all += shared_.counts[turn][warp];
    return all;
  }

  Shared& shared_;
  const uint32_t k_;
};

}  // namespace nvrar::cuda
