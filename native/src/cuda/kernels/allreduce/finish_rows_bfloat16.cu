#include "kernels/allreduce/finish_rows.cuh"

namespace nvrar::cuda {

NVRAR_FINISH_ROWS(bfloat16, Bfloat16)

}  // namespace nvrar::cuda
