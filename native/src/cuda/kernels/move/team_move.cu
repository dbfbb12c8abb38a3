#include "kernels/move/team_move.cuh"

namespace nvrar::cuda {

NVRAR_MOVE_KERNELS(, false)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
NVRAR_MOVE_KERNELS(_programmatic, true)
#endif

}  // namespace nvrar::cuda
