// The arguments of the kernels of a top-k. Compiled for the host by the C++ compiler and for the device by nvcc.
#ifndef NVRAR_CUDA_KERNELS_TOP_K_TOP_K_ARGS_H
#define NVRAR_CUDA_KERNELS_TOP_K_TOP_K_ARGS_H

#include "cuda/kernels/launch/kernel_args.h"

namespace nvrar::cuda {

// The most blocks that share a row of a rank.
constexpr uint32_t kMostSplits = 16;

struct TopKArgs : KernelArgs {
  const uint8_t* input;  // of the first row
  uint8_t* values;       // may be null
  int32_t* indices;
  uint64_t* own;        // [rows][k]
  const uint64_t* all;  // [world][rows][k]
  uint64_t* parts;      // [rows][splits][k]
  uint32_t* tickets;    // [rows], 0 between launches
  uint32_t rows;
  uint32_t k;
  uint32_t columns;
  uint32_t first;
  uint32_t splits;
  uint32_t world;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_TOP_K_TOP_K_ARGS_H
