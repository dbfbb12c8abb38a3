#include "kernels/allreduce/team_steps.cuh"

namespace nvrar::cuda {

NVRAR_TEAM_KERNELS(float32, Float32)

}  // namespace nvrar::cuda
