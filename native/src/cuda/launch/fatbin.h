// The kernels as they lie in the library.
#ifndef NVRAR_CUDA_LAUNCH_FATBIN_H
#define NVRAR_CUDA_LAUNCH_FATBIN_H

#include <cstddef>
#include <span>

namespace nvrar::cuda {

struct Fatbin {
  const char* source;  // of kernels/, without .cu
  const void* image;   // for cuModuleLoadData; it has its own length in it, and lives as long as the library
  size_t bytes;
};

// One for each source in kernels/, in the order of their names: an image holds one cubin for each architecture, so
// sources cannot share one. None where the library was built without nvcc.
std::span<const Fatbin> kernels() noexcept;

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_FATBIN_H
