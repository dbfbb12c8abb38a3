// The arguments of the kernels of groups that span nodes. Compiled for the host and the device.
#ifndef NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H
#define NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H

#include <cstddef>

#include "cuda/kernels/launch/kernel_args.h"
#include "protocol/crossing.h"

namespace nvrar::cuda {

// `member` has the rings of the node's ranks only. A failure names ranks by their place in the node.
struct CrossingArgs {
  KernelArgs member;
  protocol::CrossingMemory memory;
  protocol::CrossingShape shape;
};
static_assert(offsetof(CrossingArgs, memory) % 8 == 0 && sizeof(protocol::CrossingMemory) == 48);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H
