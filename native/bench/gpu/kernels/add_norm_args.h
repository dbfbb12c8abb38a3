// What the kernel that adds and normalises apart from the all-reduce shares with its host code.
#ifndef NVRAR_BENCH_GPU_KERNELS_ADD_NORM_ARGS_H
#define NVRAR_BENCH_GPU_KERNELS_ADD_NORM_ARGS_H

#include <cstdint>

namespace nvrar::bench::add_norm {

constexpr uint32_t kVectorBytes = 16;
constexpr uint32_t kMostThreads = 1024;

// As of nvrar_fused_all_reduce; `in` holds the sums. A row is on `blocks` blocks, a vector for each thread.
struct Arguments {
  uint64_t in;
  uint64_t residual;
  uint64_t weight;
  uint64_t residual_out;
  uint64_t out;
  uint64_t squares;
  uint32_t vectors;  // of a row
  uint32_t blocks;
  float hidden;
  float eps;
};

}  // namespace nvrar::bench::add_norm

#endif  // NVRAR_BENCH_GPU_KERNELS_ADD_NORM_ARGS_H
