#include "call/steps.h"
#include "kernels/crossing/crossing_port.cuh"
#include "protocol/element_types.h"

namespace nvrar::cuda {

NVRAR_FLOAT_TYPES(NVRAR_CROSSING_SUM_KERNEL)

}  // namespace nvrar::cuda
