// Stands for the header of the same name of the example that decodes, where its choice.cuh is compiled for the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define __device__
#define __forceinline__ inline

inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __uint2float_rn(uint32_t value) { return static_cast<float>(value); }
template <class T>
T load_written(const T* at) {
  return *at;
}
