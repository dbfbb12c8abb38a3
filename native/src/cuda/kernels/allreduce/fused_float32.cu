#include "kernels/allreduce/fused_steps.cuh"

namespace nvrar::cuda {

NVRAR_FUSED_KERNELS(float32, Float32)

}  // namespace nvrar::cuda
