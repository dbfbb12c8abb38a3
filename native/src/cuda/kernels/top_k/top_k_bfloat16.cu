#include "kernels/top_k/top_k.cuh"

namespace nvrar::cuda {

NVRAR_TOP_K(bfloat16, Bfloat16)

}  // namespace nvrar::cuda
