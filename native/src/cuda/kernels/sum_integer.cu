#include "kernels/sum_steps.cuh"

namespace nvrar::cuda {

NVRAR_SUM_KERNEL(int8, Int8, EpochPacket)
NVRAR_SUM_KERNEL(uint8, Uint8, EpochPacket)
NVRAR_SUM_KERNEL(int32, Int32, EpochPacket)
NVRAR_SUM_KERNEL(int64, Int64, EpochPacket)

}  // namespace nvrar::cuda
