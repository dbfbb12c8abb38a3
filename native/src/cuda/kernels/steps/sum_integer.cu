#include "kernels/steps/sum_steps.cuh"

namespace nvrar::cuda {

NVRAR_INTEGER_TYPES(NVRAR_SUM_KERNEL)

}  // namespace nvrar::cuda
