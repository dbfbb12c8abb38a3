// The kernels of the study that ours began with, as it left them: all-reduce of bfloat16 sums among 2, 4 or 8 ranks,
// whole packets, no header, no deadline but a count of looks. What they take, without programmatic dependent launch, is
// what ours are measured against.
#ifndef NVRAR_BENCH_YARDSTICK_H
#define NVRAR_BENCH_YARDSTICK_H

#include <cstdint>
#include <string>
#include <vector>

#include "gpu.h"
#include "gpu_measure.h"
#include "kernels/yardstick_args.h"
#include "team.h"

namespace nvrar::bench {

class Yardstick final : public Contestant {
 public:
  // Collective.
  explicit Yardstick(Team* team);
  Yardstick(const Yardstick&) = delete;
  Yardstick& operator=(const Yardstick&) = delete;
  ~Yardstick() override;

  std::string name() const override { return "study"; }
  bool takes(const Problem& problem) const override;
  void enqueue(const Problem& problem, uint64_t send, uint64_t recv, CudaStream stream) override;
  void check(CudaStream stream) override;

 private:
  struct Kernel {
    CudaFunction small = nullptr;  // of messages whose packets fit the small areas
    CudaFunction big = nullptr;
  };
  struct Shape {
    const Kernel* kernel;
    uint64_t slices;  // that the message is cut into before a team takes 32 vectors
    unsigned threads;
    unsigned teams;  // in a block; 0: each thread takes a vector
  };
  Shape shape_of(uint64_t bytes) const;
  bool has_kernels() const;

  Team* const team_;
  Kernel one_shot_;
  Kernel two_shot_;
  Kernel pair_;
  DeviceMemory ring_;
  DeviceMemory epochs_;
  DeviceMemory control_;
  std::vector<uint64_t> peers_;  // mapped rings of others
  yardstick::Arguments arguments_{};
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_YARDSTICK_H
