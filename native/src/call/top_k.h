// A top-k over the ranks' parts of rows: its arguments and their checks. It is an all-gather of keys
// (protocol/top_key.h) between a choice on each rank, which needs no other one.
#ifndef NVRAR_CALL_TOP_K_H
#define NVRAR_CALL_TOP_K_H

#include <nvrar.h>

#include <algorithm>

#include "call/call.h"

namespace nvrar {

struct TopK {
  int32_t data_type = kNoType;
  uint32_t rows = 0;
  uint32_t k = 0;
  uint32_t columns = 0;  // of this rank
  uint32_t first = 0;    // index of the first of them
  uint64_t input = 0;
  uint64_t values = 0;  // 0: nobody wants them
  uint64_t indices = 0;

  // What an all-gather carries at once, of each rank.
  static constexpr uint32_t kMostKeys = 8192;
  uint32_t rows_at_once() const noexcept { return std::min(rows, kMostKeys / k); }
};
static_assert(NVRAR_MAX_TOP_K <= TopK::kMostKeys);

// Throws NVRAR_INVALID_ARGUMENT with the reason. A call that passes accesses only memory that the caller named.
TopK checked_top_k(const nvrar_selection& given);

// Where the keys of a rank are, and those of all ranks behind each other, in memory that its calls may use.
struct KeyRoom {
  uint64_t own = 0;
  uint64_t all = 0;
};

// Of `rows` rows from `first_row` on; top_k must be there as long as the call is.
Call gather_of_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, const KeyRoom& room) noexcept;

}  // namespace nvrar

#endif  // NVRAR_CALL_TOP_K_H
