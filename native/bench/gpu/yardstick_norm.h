// The kernels of the study that add a residual and normalise, in the shapes that it found the best on 8 H200 GPUs. Like
// those of yardstick.h.
#ifndef NVRAR_BENCH_GPU_YARDSTICK_NORM_H
#define NVRAR_BENCH_GPU_YARDSTICK_NORM_H

#include <map>
#include <string>

#include "gpu/device.h"
#include "gpu/stream_measure.h"
#include "gpu/yardstick_peers.h"

namespace nvrar::bench {

class YardstickNorm final : public Contestant {
 public:
  // Collective. has_clusters: whether the GPU has clusters of blocks, without which it takes nothing.
  YardstickNorm(Team* team, bool has_clusters, bool programmatic_launch);

  std::string name() const override { return "study"; }
  bool takes(const Problem& problem) const override;
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override;
  void check(CudaStream stream) override;

 private:
  struct Shape {
    bool two_shot;
    unsigned cluster;  // blocks of a row
  };
  Shape shape_of(const Problem& problem) const;
  CudaFunction kernel_of(const std::string& name);

  YardstickPeers peers_;
  const bool has_clusters_;
  const bool programmatic_launch_;
  std::map<std::string, CudaFunction> kernels_;  // that were launched
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_YARDSTICK_NORM_H
