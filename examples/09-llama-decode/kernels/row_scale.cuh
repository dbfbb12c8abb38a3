// The factor of RMSNorm, which is left to the consumer of a row.
#pragma once

#include "launch.cuh"

namespace llama {

// The fused all-reduce writes a row times gamma, and beside it the sums of squares of its parts.
struct RowSquares {
  const float* sums;  // [rows][parts]
  uint32_t parts;
  float inverse_hidden;  // 1 / the number of elements of a row
  float epsilon;
};

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

// By a warp. The order of the additions depends on the number of parts alone, so all ranks have the same factor.
__device__ __forceinline__ float row_scale(const RowSquares& squares, uint32_t row) {
  float sum = 0;
  for (uint32_t i = threadIdx.x % 32; i < squares.parts; i += 32) {
    sum += load_written(squares.sums + static_cast<size_t>(row) * squares.parts + i);
  }
  return rsqrtf(sum_of_warp(sum) * squares.inverse_hidden + squares.epsilon);
}

}  // namespace llama
