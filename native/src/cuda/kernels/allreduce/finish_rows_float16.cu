#include "kernels/allreduce/finish_rows.cuh"

namespace nvrar::cuda {

NVRAR_FINISH_ROWS(float16, Float16)

}  // namespace nvrar::cuda
