#include "kernels/top_k/top_k.cuh"

namespace nvrar::cuda {

NVRAR_TOP_K(float16, Float16)

}  // namespace nvrar::cuda
