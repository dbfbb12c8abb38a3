// The arguments of a fused all-reduce's kernels (nvrar_all_reduce_fused), beside those of every kernel. Compiled for
// the host by the C++ compiler and for the device by nvcc.
#ifndef NVRAR_CUDA_KERNELS_LAUNCH_FUSED_ARGS_H
#define NVRAR_CUDA_KERNELS_LAUNCH_FUSED_ARGS_H

#include "cuda/kernels/launch/kernel_args.h"

namespace nvrar::cuda {

// The launch's message is rows of row_bytes, which have room for tiles_per_row whole tiles each in the rings. Each row
// is the work of blocks_per_row consecutive blocks, a cluster if they meet (fused_epilogue.cuh).
struct FusedArgs : KernelArgs {
  const uint8_t* residual;
  const uint8_t* weight;
  uint8_t* residual_out;
  float* squares;
  int32_t form;  // NVRAR_FUSION_*
  float eps;
  float hidden;  // elements of a row
  uint32_t row_bytes;
  uint32_t tiles_per_row;
  uint32_t blocks_per_row;
  uint32_t header_blocks;  // the first blocks, which process no tiles: as many as a cluster has
};

// The longest row's parts (protocol/fusion.h).
constexpr uint32_t kMostRowParts = 512;

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_LAUNCH_FUSED_ARGS_H
