// The kernels of the study on which ours are based, unchanged: all-reduce of bfloat16 sums among 2, 4 or 8 ranks, whole
// packets only, without header, and with a count of polls as the only deadline. They are launched with programmatic
// dependent launch if ours are, so that the two are compared under the same conditions.
#ifndef NVRAR_BENCH_GPU_YARDSTICK_H
#define NVRAR_BENCH_GPU_YARDSTICK_H

#include <cstdint>
#include <string>

#include "gpu/device.h"
#include "gpu/stream_measure.h"
#include "gpu/yardstick_peers.h"
#include "team.h"

namespace nvrar::bench {

class Yardstick final : public Contestant {
 public:
  // Collective. With programmatic_launch only where a group with it was created: on an older GPU its creation fails,
  // and the kernels would not wait for each other.
  Yardstick(Team* team, bool programmatic_launch);

  std::string name() const override { return "study"; }
  bool takes(const Problem& problem) const override;
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override;
  void check(CudaStream stream) override;

 private:
  struct Kernel {
    CudaFunction small = nullptr;  // for messages whose packets fit the small areas
    CudaFunction big = nullptr;
  };
  struct Shape {
    const Kernel* kernel;
    uint64_t slices;  // number of slices of the message before a team takes 32 vectors
    unsigned threads;
    unsigned teams;  // per block; 0: each thread takes a vector
  };
  Shape shape_of(uint64_t bytes) const;
  bool has_kernels() const;

  YardstickPeers peers_;
  const bool programmatic_launch_;
  Kernel one_shot_;
  Kernel two_shot_;
  Kernel pair_;
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_YARDSTICK_H
