// A kernel of the benchmark's own that does with the sums of an all-reduce what a fused one does with them, the best
// that is known for it: what a user has without fused all-reduces.
#ifndef NVRAR_BENCH_GPU_ADD_NORM_H
#define NVRAR_BENCH_GPU_ADD_NORM_H

#include <map>
#include <string>

#include "gpu/device.h"
#include "options.h"
#include "problem.h"

namespace nvrar::bench {

class AddNorm {
 public:
  // The kernel is launched with programmatic dependent launch if calls are. has_clusters: see YardstickNorm.
  AddNorm(bool has_clusters, const Options& options);

  // Without clusters of blocks the norm of a row is made by one block.
  bool takes(const Problem& problem) const;
  // The sums are in recv, and so is the result.
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream);

 private:
  unsigned blocks_of(const Problem& problem) const;
  CudaFunction kernel_of(const Problem& problem, unsigned blocks);

  const bool has_clusters_;
  const bool programmatic_launch_;
  const unsigned given_blocks_;
  std::map<std::string, CudaFunction> kernels_;  // that were launched
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_ADD_NORM_H
