// The arguments of the kernels of groups that span nodes. Compiled for the host and the device.
#ifndef NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H
#define NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H

#include <cstddef>

#include "cuda/kernels/launch/kernel_args.h"
#include "protocol/crossing.h"

namespace nvrar::cuda {

// In it rings are those of the node's ranks, in their order, and so are the ranks of a failure.
struct CrossingArgs {
  KernelArgs member;
  protocol::CrossingMemory memory;
  protocol::CrossingShape shape;
};
static_assert(offsetof(CrossingArgs, memory) % 8 == 0 && sizeof(protocol::CrossingMemory) == 48);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H
