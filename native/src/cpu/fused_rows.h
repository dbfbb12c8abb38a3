// What a fused all-reduce does with its rows once they are summed: the arithmetic of nvrar_all_reduce_fused.
#ifndef NVRAR_CPU_FUSED_ROWS_H
#define NVRAR_CPU_FUSED_ROWS_H

#include <cstdint>

#include "call/fusion.h"

namespace nvrar::cpu {

// sums: the rows of x, which no other buffer overlaps. The call must have passed check_fusion.
void fuse_rows(const Fusion& fusion, int32_t data_type, const uint8_t* sums, uint8_t* output) noexcept;

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_FUSED_ROWS_H
