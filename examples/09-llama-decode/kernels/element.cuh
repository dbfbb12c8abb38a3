// The 16-bit element types of the fast path, and the tensor cores' multiplication of them.
#pragma once

#include <cstdint>

namespace llama {

struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

template <class T>
__device__ __forceinline__ T rounded(float value);
template <>
__device__ __forceinline__ Bfloat16 rounded<Bfloat16>(float value) {
  Bfloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
template <>
__device__ __forceinline__ Float16 rounded<Float16>(float value) {
  Float16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

// Two elements in a register, the first in its lower half.
template <class T>
__device__ __forceinline__ uint32_t packed(float first, float second);
template <>
__device__ __forceinline__ uint32_t packed<Bfloat16>(float first, float second) {
  uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  return result;
}
template <>
__device__ __forceinline__ uint32_t packed<Float16>(float first, float second) {
  uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  return result;
}

// sums += a b for a of 16 rows and 16 columns and b of 16 rows and 8 columns, by a warp. Lane 4g + t holds
//   a:    (g, 2t and 2t+1), (g+8, the same), (g, 2t+8 and 2t+9), (g+8, the same)
//   b:    (2t and 2t+1, g), (2t+8 and 2t+9, g)
//   sums: (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
template <class T>
__device__ __forceinline__ void multiply_add(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                             uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void multiply_add<Bfloat16>(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                       uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<Float16>(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                      uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace llama
