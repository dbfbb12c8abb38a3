// When the kernels of a step end, by the GPU's clock.
#include "launch.cuh"

namespace llama {

struct StampArgs {
  uint64_t* times;   // [steps][marks]: nanoseconds
  uint32_t* counts;  // [marks]: how often this place in the step was passed
  uint32_t mark;
  uint32_t marks;
  uint32_t steps;
};

}  // namespace llama

// Behind the kernel whose end is wanted. The kernel behind this one may begin as early as it may without this. One
// thread.
extern "C" __global__ void llama_stamp(const __grid_constant__ llama::StampArgs args) {
  using namespace llama;
  allow_next_kernel();
  await_earlier_kernels();
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  const uint32_t count = args.counts[args.mark];
  args.counts[args.mark] = count + 1;
  args.times[static_cast<size_t>(count % args.steps) * args.marks + args.mark] = now;
}
