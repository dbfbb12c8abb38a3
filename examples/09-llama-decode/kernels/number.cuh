// Elements of any type as float32.
#pragma once

#include "element.cuh"

namespace llama {

__device__ __forceinline__ float widened(float value) { return value; }
__device__ __forceinline__ float widened(Bfloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ float widened(Float16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}

template <>
__device__ __forceinline__ float rounded<float>(float value) {
  return value;
}

}  // namespace llama
