// The parts of a top-k that need no other rank: which keys a rank sends, and which results it stores of those that all
// ranks have sent. No block waits for another one.
#pragma once

#include "cuda/kernels/top_k/top_k_args.h"
#include "kernels/launch/entry.cuh"
#include "kernels/top_k/best_keys.cuh"

namespace nvrar::cuda {

__device__ __forceinline__ void leave_top_k(const TopKArgs& args) {
  __syncthreads();
  if (threadIdx.x == 0) count_ended(args, kTopKThreads / kWarpThreads);
}

// To keys[k], filled up with kNoKey.
__device__ __forceinline__ void store_keys(const BestKeys::Shared& shared, uint32_t k, uint64_t* keys) {
  const uint32_t count = shared.count;
  for (uint32_t i = threadIdx.x; i < k; i += kTopKThreads) keys[i] = i < count ? shared.keys[i] : protocol::kNoKey;
}

// A block for each part of each row. The last one of a row that has found its keys finds the row's among them.
template <class Element>
__device__ __forceinline__ void find_keys(const TopKArgs& args) {
  __shared__ BestKeys::Shared shared;
  __shared__ bool is_last;
  wait_for_previous_launch();
  const uint32_t row = block_index() / args.splits;
  const uint32_t split = block_index() % args.splits;
  const uint32_t of_a_split = (args.columns + args.splits - 1) / args.splits;
  const uint32_t begin = min(split * of_a_split, args.columns);
  const uint32_t end = min(begin + of_a_split, args.columns);
  const auto* const input =
      reinterpret_cast<const typename Element::Bits*>(args.input) + uint64_t{row} * args.columns + begin;
  const uint32_t first = args.first + begin;
  BestKeys best(shared, args.k);
  best.find(end - begin, [&](uint32_t at) { return protocol::top_key(Element::widen(input[at]), first + at); });
  uint64_t* const own = args.own + uint64_t{row} * args.k;
  uint64_t* const parts = args.parts + uint64_t{row} * args.splits * args.k;
  store_keys(shared, args.k, args.splits == 1 ? own : parts + split * args.k);
  if (args.splits == 1) return leave_top_k(args);
  __threadfence();
  __syncthreads();
  // Is 0 again behind the last one, also if two calls were wrongly in flight at once.
  if (threadIdx.x == 0) is_last = atomicInc(args.tickets + row, args.splits - 1) == args.splits - 1;
  __syncthreads();
  if (!is_last) return leave_top_k(args);
  __threadfence();
  best.find(args.splits * args.k, [&](uint32_t at) { return load_word(parts + at); });
  store_keys(shared, args.k, own);
  leave_top_k(args);
}

// A block for each row.
template <class Element>
__device__ __forceinline__ void choose(const TopKArgs& args) {
  __shared__ BestKeys::Shared shared;
  wait_for_previous_launch();
  const uint32_t row = block_index();
  BestKeys best(shared, args.k);
  best.find(args.world * args.k,
            [&](uint32_t at) { return args.all[(uint64_t{at / args.k} * args.rows + row) * args.k + at % args.k]; });
  const uint32_t count = shared.count;
  uint64_t most = protocol::kNoKey;
  for (uint32_t i = 0; i < count; ++i) most = max(most, shared.keys[i]);
  const uint64_t begin = uint64_t{row} * args.k;
  const auto store = [&](uint32_t place, uint64_t key) {
    const auto [value, index] = protocol::chosen<Element>(key, most);
    args.indices[begin + place] = index;
    if (args.values != nullptr) reinterpret_cast<typename Element::Bits*>(args.values)[begin + place] = value;
  };
  for (uint32_t i = threadIdx.x; i < args.k; i += kTopKThreads) {
    // A row with NaNs has the same result in all places.
    if (i >= count || most == protocol::kNanKey) {
      store(i, protocol::kNoKey);
      continue;
    }
    const uint64_t key = shared.keys[i];
    uint32_t greater = 0;
    for (uint32_t other = 0; other < count; ++other) {
      greater += shared.keys[other] > key || (shared.keys[other] == key && other < i) ? 1 : 0;
    }
    store(greater, key);
  }
  leave_top_k(args);
}

}  // namespace nvrar::cuda

#define NVRAR_TOP_K(type, element)                                                                 \
  NVRAR_KERNEL_OF(TopKArgs, find_keys_##type, kTopKThreads, kPlaces, find_keys<protocol::element>) \
  NVRAR_KERNEL_OF(TopKArgs, choose_##type, kTopKThreads, kPlaces, choose<protocol::element>)
