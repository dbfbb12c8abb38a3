// The images of the kernels in the library.
#ifndef NVRAR_CUDA_LAUNCH_FATBIN_H
#define NVRAR_CUDA_LAUNCH_FATBIN_H

#include <cstddef>
#include <span>

namespace nvrar::cuda {

struct Fatbin {
  const char* source;  // name of the source in kernels/, without .cu
  const void* image;   // for cuModuleLoadData; contains its own length, and lives as long as the library
  size_t bytes;
};

// One image for each source in kernels/, because an image can hold only one cubin for each architecture. None if the
// library was built without nvcc.
std::span<const Fatbin> kernels() noexcept;

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_FATBIN_H
