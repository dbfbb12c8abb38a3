#include "kernels/steps/sum_steps.cuh"

namespace nvrar::cuda {

NVRAR_FLOAT_TYPES(NVRAR_SUM_KERNEL)

}  // namespace nvrar::cuda
