// Sums of a word's elements in rank order, rounded once: the arithmetic of protocol/element.h in the device's own
// instructions.
#pragma once

#include <type_traits>

#include "kernels/launch/access.cuh"
#include "protocol/element.h"

namespace nvrar::cuda {

template <class Element>
struct WordSum;
template <class Element>
constexpr bool kHasWordSum = std::is_same_v<Element, protocol::Float32> ||
                             std::is_same_v<Element, protocol::Bfloat16> || std::is_same_v<Element, protocol::Float16>;

template <>
struct WordSum<protocol::Float32> {
  float sum;
  __device__ __forceinline__ explicit WordSum(uint32_t word) : sum(__uint_as_float(word)) {}
  __device__ __forceinline__ void add(uint32_t word) { sum += __uint_as_float(word); }
  __device__ __forceinline__ uint32_t round() const { return __float_as_uint(sum); }
};

template <>
struct WordSum<protocol::Bfloat16> {
  float low, high;
  __device__ __forceinline__ explicit WordSum(uint32_t word)
      : low(__uint_as_float(word << 16)), high(__uint_as_float(word & 0xFFFF0000u)) {}
  __device__ __forceinline__ void add(uint32_t word) {
    low += __uint_as_float(word << 16);
    high += __uint_as_float(word & 0xFFFF0000u);
  }
  __device__ __forceinline__ uint32_t round() const {
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

template <>
struct WordSum<protocol::Float16> {
  float low, high;
  static __device__ __forceinline__ void widen(uint32_t word, float* low, float* high) {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(*low), "=f"(*high)
        : "r"(word));
  }
  __device__ __forceinline__ explicit WordSum(uint32_t word) { widen(word, &low, &high); }
  __device__ __forceinline__ void add(uint32_t word) {
    float other_low, other_high;
    widen(word, &other_low, &other_high);
    low += other_low;
    high += other_high;
  }
  __device__ __forceinline__ uint32_t round() const {
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

// Of two ranks; a sum of two has the same bits in either order.
template <class Element>
__device__ __forceinline__ protocol::Packet sum_of_pair(const protocol::Packet& first, const protocol::Packet& second) {
  protocol::Packet sum;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    WordSum<Element> word(first[i]);
    word.add(second[i]);
    sum[i] = word.round();
  }
  return sum;
}

}  // namespace nvrar::cuda
