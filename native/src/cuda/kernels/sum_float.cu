#include "kernels/sum_steps.cuh"

namespace nvrar::cuda {

NVRAR_SUM_KERNEL(float16, Float16, SentinelPacket)
NVRAR_SUM_KERNEL(bfloat16, Bfloat16, SentinelPacket)
NVRAR_SUM_KERNEL(float32, Float32, SentinelPacket)
NVRAR_SUM_KERNEL(float64, Float64, EpochPacket)

}  // namespace nvrar::cuda
