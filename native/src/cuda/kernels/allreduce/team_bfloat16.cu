#include "kernels/allreduce/team_steps.cuh"

namespace nvrar::cuda {

NVRAR_TEAM_KERNELS(bfloat16, Bfloat16)

}  // namespace nvrar::cuda
