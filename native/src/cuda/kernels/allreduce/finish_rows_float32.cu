#include "kernels/allreduce/finish_rows.cuh"

namespace nvrar::cuda {

NVRAR_FINISH_ROWS(float32, Float32)

}  // namespace nvrar::cuda
