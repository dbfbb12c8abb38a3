#include "kernels/allreduce/fused_steps.cuh"

namespace nvrar::cuda {

NVRAR_FUSED_KERNELS(float16, Float16)

}  // namespace nvrar::cuda
