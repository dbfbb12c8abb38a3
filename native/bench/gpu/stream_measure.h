// The measurement on GPUs, the same for all implementations that enqueue calls on a stream: protocol B of
// docs/reference/benchmarks.md.
#ifndef NVRAR_BENCH_GPU_STREAM_MEASURE_H
#define NVRAR_BENCH_GPU_STREAM_MEASURE_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "measure.h"
#include "options.h"
#include "problem.h"
#include "team.h"

namespace nvrar::bench {

// A measured implementation in one group. All functions throw on errors.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string name() const = 0;
  virtual bool takes(const Problem& problem) const = 0;
  virtual void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) = 0;
  // Called after the stream is done: throws if an enqueued call has failed.
  virtual void check(CudaStream stream) = 0;
};

// One implementation in each of the groups that run side by side, Options::groups of them.
using SideBySide = std::vector<Contestant*>;

// Enqueues the kernel that a mode has between two calls; the result is that of the call before it.
using EnqueueBetween = std::function<void(Between which, uint64_t result, CudaStream stream)>;

// Collective. Measures one problem in the first of the options' modes, which has nothing between two calls.
Row measure_problem_on_gpu(Team* team, const Options& options, const Problem& problem, Contestant* contestant);

// Collective. Calls `show` on every rank for each size, mode and contestant; returns the number of wrong elements.
uint64_t measure_on_gpu(Team* team, const Options& options, const std::vector<SideBySide>& contestants,
                        const EnqueueBetween& enqueue_between, const std::function<void(const Row&)>& show);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_STREAM_MEASURE_H
