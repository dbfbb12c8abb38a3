#include "kernels/allreduce/fused_steps.cuh"

namespace nvrar::cuda {

NVRAR_FUSED_KERNELS(bfloat16, Bfloat16)

}  // namespace nvrar::cuda
