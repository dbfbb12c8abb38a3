// Host memory of the arena as kernels reach it, and waits for what comes there.
#pragma once

#include "cuda/kernels/crossing/crossing_args.h"
#include "kernels/launch/entry.cuh"

namespace nvrar::cuda {

// Memory of the host is that of the arena.
struct CrossingAccess {
  static __device__ __forceinline__ uint32_t add(uint32_t* counter, uint32_t by) {
    // For the GPU only: whoever rings has seen it, and does the rest for both.
    __threadfence();
    const uint32_t was = atomicAdd(counter, by);
    __threadfence();
    return was;
  }
  static __device__ __forceinline__ void ring(uint64_t* bell, uint64_t epoch) {
    asm volatile("st.release.sys.global.u64 [%0],%1;" ::"l"(bell), "l"(epoch) : "memory");
  }
  static __device__ __forceinline__ uint64_t look(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0,[%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
};

// As fail(), for ranks of other nodes.
static __device__ __forceinline__ bool fail_far(const KernelArgs& args, FailureKind kind, uint64_t ranks) {
  auto* const poison = reinterpret_cast<unsigned long long*>(&args.state->poison);
  if (atomicCAS(poison, 0ull, poison_of(args)) != 0) return false;
  poison_lines(args);
  *reinterpret_cast<volatile uint64_t*>(&args.page->far_ranks) = ranks;
  __threadfence_system();
  *reinterpret_cast<volatile uint64_t*>(&args.page->failure) = DeviceFailure{kind, 0, block_index(), args.tag}.pack();
  return true;
}

// A look crosses a bus.
constexpr uint32_t kPollsBetweenFarChecks = 64;

// Whether a wait for a rank of another node may go on, as check_wait says of those of the own node. *since_ns: 0 at
// first.
static __device__ __forceinline__ bool far_wait_lasts(const KernelArgs& args, uint32_t source, uint64_t* since_ns) {
  if (load_word(&line_of(args).beside.poison) != 0) return false;
  if (load_word(&args.page->abort) != 0) {
    *reinterpret_cast<volatile uint64_t*>(&args.state->poison) = poison_of(args);
    poison_lines(args);
    return false;
  }
  const uint64_t now_ns = global_ns();
  if (*since_ns == 0) *since_ns = now_ns;
  if (now_ns - *since_ns < args.timeout_ns) return true;
  fail_far(args, FailureKind::kTimeout, uint64_t{1} << source);
  return false;
}

}  // namespace nvrar::cuda
