// What an all-reduce does with its result. Each vector of the result is passed to the epilogue once, by the thread that
// has computed or received it:
//
//   void take(uint32_t at, const Vector& vector)      a word or a packet, `at` bytes from the beginning of the message
#pragma once

#include "cuda/kernels/kernel_args.h"

namespace nvrar::cuda {

struct StoreResult {
  const KernelArgs& args;
  template <class Vector>
  __device__ __forceinline__ void take(uint32_t at, const Vector& vector) const {
    *reinterpret_cast<Vector*>(args.launch.recv + at) = vector;
  }
};

}  // namespace nvrar::cuda
