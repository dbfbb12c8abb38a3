#include "kernels/top_k/top_k.cuh"

namespace nvrar::cuda {

NVRAR_TOP_K(float32, Float32)

}  // namespace nvrar::cuda
