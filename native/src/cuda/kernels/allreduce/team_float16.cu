#include "kernels/allreduce/team_steps.cuh"

namespace nvrar::cuda {

NVRAR_TEAM_KERNELS(float16, Float16)

}  // namespace nvrar::cuda
