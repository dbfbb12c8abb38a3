// Which sequence and position each row of a step is, and where the keys and values of a sequence are.
#pragma once

#include <cstdint>

namespace llama {

constexpr uint32_t kPagePositions = 64;

struct PagedRows {
  const int32_t* positions;  // [rows]; -1: the row is idle
  const int32_t* sequences;  // [rows]
  const int32_t* pages;      // [sequences][max_pages]: page p of a sequence has its positions from 64 p on
  uint32_t max_pages;
};

// The number of positions before this one in the pool of a layer, [pages][heads][64], for one head.
__device__ __forceinline__ size_t pool_place(const int32_t* pages_of_sequence, uint32_t position, uint32_t head,
                                             uint32_t heads) {
  const size_t page = static_cast<size_t>(pages_of_sequence[position / kPagePositions]);
  return (page * heads + head) * kPagePositions + position % kPagePositions;
}

}  // namespace llama
