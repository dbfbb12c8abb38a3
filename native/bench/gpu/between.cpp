#include "gpu/between.h"

#include <algorithm>
#include <stdexcept>

#include "gpu/images.h"

namespace nvrar::bench {
namespace {

constexpr uint64_t kSweepsOfL2 = 2;  // because the cache does not simply replace what was used longest ago
constexpr unsigned kSweepThreads = 1024;
constexpr unsigned kSweepBlocksOfAMultiprocessor = 2;
constexpr uint8_t kSwept = 1;  // any value, but written: memory that never was may be read without the cache

bool needs(const Options& options, Between which) {
  return std::any_of(options.modes.begin(), options.modes.end(), [&](Mode mode) { return between(mode) == which; });
}

}  // namespace

BetweenKernels::BetweenKernels(const Gpu& gpu, const Options& options)
    // Where there is none the group that asks for it is refused, in a better sentence than the driver's.
    : programmatic_(options.programmatic_launch && gpu.has_programmatic_launch()),
      sink_(1),
      clocks_(static_cast<uint64_t>(gpu.clock_khz()) / 1000),
      sweep_bytes_(kSweepsOfL2 * gpu.l2_bytes()),
      sweep_blocks_(kSweepBlocksOfAMultiprocessor * static_cast<unsigned>(gpu.multiprocessors())) {
  if (needs(options, Between::kCompute)) {
    compute_kernel_ = programmatic_ ? Kernels(programmatic_compute_image()).of("nvrar_bench_compute_programmatic")
                                    : Kernels(compute_image()).of("nvrar_bench_compute");
  }
  if (needs(options, Between::kSweep)) {
    if (sweep_bytes_ == 0) throw std::runtime_error("the driver does not say the size of this GPU's L2 cache");
    sweep_kernel_ = Kernels(sweep_image()).of("nvrar_bench_sweep");
    swept_ = std::make_unique<DeviceMemory>(sweep_bytes_);
    swept_->fill(kSwept);
  }
}

void BetweenKernels::enqueue(Between which, uint64_t result, CudaStream stream) {
  if (which == Between::kCompute) compute(result, stream);
  if (which == Between::kSweep) sweep(stream);
}

// With programmatic launch the kernel's start can overlap with the end of the call before it, as it keeps to what that
// asks; without, a normal launch starts once the call before it has completed, and the kernel needs no wait.
void BetweenKernels::compute(uint64_t result, CudaStream stream) {
  uint64_t sink = sink_.address();
  void* arguments[] = {&result, &sink, &clocks_};
  launch(compute_kernel_, {1, 1}, programmatic_, stream, arguments);
}

// Always launched normally, so that the call before it has completed when it begins, and whatever that call has left in
// the cache goes.
void BetweenKernels::sweep(CudaStream stream) {
  uint64_t buffer = swept_->address();
  uint64_t sink = sink_.address();
  void* arguments[] = {&buffer, &sweep_bytes_, &sink};
  launch(sweep_kernel_, {sweep_blocks_, kSweepThreads}, false, stream, arguments);
}

}  // namespace nvrar::bench
