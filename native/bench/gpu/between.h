// The kernels that some modes have between two calls.
#ifndef NVRAR_BENCH_GPU_BETWEEN_H
#define NVRAR_BENCH_GPU_BETWEEN_H

#include <cstdint>
#include <memory>

#include "gpu/device.h"
#include "options.h"

namespace nvrar::bench {

class BetweenKernels {
 public:
  // Loads what the options' modes need.
  BetweenKernels(const Gpu& gpu, const Options& options);

  // The computing begins by reading a byte of the result of the call before it.
  void enqueue(Between which, uint64_t result, CudaStream stream);

 private:
  void compute(uint64_t result, CudaStream stream);
  void sweep(CudaStream stream);

  const bool programmatic_;
  const DeviceMemory sink_;
  uint64_t clocks_;  // per microsecond
  uint64_t sweep_bytes_;
  unsigned sweep_blocks_;
  CudaFunction compute_kernel_ = nullptr;
  CudaFunction sweep_kernel_ = nullptr;
  std::unique_ptr<DeviceMemory> swept_;
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_BETWEEN_H
