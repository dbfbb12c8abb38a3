// Programmatic launch: a kernel may begin while the kernel before it in the stream still runs.
//
// Every kernel waits before it reads what a kernel of the step has written, and at the latest before it ends. So a wait
// is transitive: when it returns, all kernels before have ended, and buffers may be used again. Both instructions do
// nothing in a kernel that was launched without the attribute.
#pragma once

#include <cstdint>

namespace llama {

// Until the kernels before have ended and what they wrote is visible to the calling thread.
__device__ __forceinline__ void await_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// By one thread of each block: the next kernel begins once all blocks have said this or ended.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Loads what an earlier kernel has written. Never from the non-coherent cache, and not moved before the wait.
__device__ __forceinline__ float load_written(const float* from) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ int32_t load_written(const int32_t* from) {
  int32_t value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ uint64_t load_written(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

}  // namespace llama
