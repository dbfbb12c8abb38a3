// How a block enters a launch, exits it, and fails.
#pragma once

#include "cuda/kernels/kernel_args.h"
#include "kernels/access.cuh"

namespace nvrar::cuda {

__device__ __forceinline__ uint64_t poison_of(const KernelArgs& args) { return uint64_t{args.tag} << 32 | 1; }

__device__ __forceinline__ const LaunchLine& line_of(const KernelArgs& args) {
  return args.lines[block_index() % kLaunchLines];
}

__device__ __forceinline__ void poison_lines(const KernelArgs& args) {
#pragma unroll 1
  for (uint32_t i = 0; i < kLaunchLines; ++i) {
    *reinterpret_cast<volatile uint64_t*>(&args.lines[i].poison) = poison_of(args);
  }
}

// Records a failure, unless the group has failed already. Returns whether this is the first failure.
__device__ __forceinline__ bool fail(const KernelArgs& args, FailureKind kind, uint32_t ranks) {
  auto* const poison = reinterpret_cast<unsigned long long*>(&args.state->poison);
  if (atomicCAS(poison, 0ull, poison_of(args)) != 0) return false;
  poison_lines(args);
  const DeviceFailure failure{kind, ranks, block_index(), args.tag};
  *reinterpret_cast<volatile uint64_t*>(&args.page->failure) = failure.pack();
  return true;
}

// The number of polls between two calls of check_wait: some hundred microseconds.
constexpr uint32_t kPollsBetweenChecks = 1024;

constexpr uint64_t kLeave = ~uint64_t{0};

// Checks, now and then during a wait, whether the group has failed or was aborted, and whether the timeout has passed.
// In that case the group fails, and `ranks` are recorded as missing. since_ns: 0 in the first check of a wait, then the
// result of the last one. Returns kLeave if the block must exit the launch.
__device__ __forceinline__ uint64_t check_wait(const KernelArgs& args, uint32_t ranks, uint64_t since_ns) {
  const bool ignores = protocol::planted(protocol::Defect::kIgnoredPoison);
  if (!ignores && load_word(&line_of(args).poison) != 0) return kLeave;
  if (!ignores && load_word(&args.page->abort) != 0) {
    *reinterpret_cast<volatile uint64_t*>(&args.state->poison) = poison_of(args);
    poison_lines(args);
    return kLeave;
  }
  const uint64_t now_ns = global_ns();
  if (since_ns == 0) return now_ns;
  if (now_ns - since_ns < args.timeout_ns) return since_ns;
  fail(args, FailureKind::kTimeout, ranks);
  return kLeave;
}

// Returns whether the packet has arrived. The lanes of a warp may wait for different packets.
template <class Packets>
__device__ __forceinline__ bool await(const KernelArgs& args, const Packet* slot, uint32_t source, uint64_t epoch,
                                      Packet* packet) {
  pass_moment(args, protocol::Moment::kWaits, slot);
  uint64_t since_ns = 0;
  for (uint32_t polls = 1;; ++polls) {
    *packet = load_packet(slot);
    if (Packets::arrived(*packet, epoch)) return true;
    if (__builtin_expect(polls % kPollsBetweenChecks == 0, 0)) {
      since_ns = check_wait(args, 1u << source, since_ns);
      if (since_ns == kLeave) return false;
    }
  }
}

__device__ __forceinline__ LaunchLine* own_line(const KernelArgs& args) {
  return args.lines + block_index() % kLaunchLines;
}

// The last action of a launch's warps, by one thread for each of them or for several, whether the launch succeeded or
// failed. The host counts the warps that it launches, and frees nothing before all of them have ended.
__device__ __forceinline__ void count_ended(const KernelArgs& args, uint32_t warps) {
  if ((args.tag & kCapturedTag) != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&own_line(args)->ended), static_cast<unsigned long long>(warps));
}

// Programmatic dependent launch (protocol.md 6). Below sm_90, and in launches without the attribute, these do nothing.
// Waits until the launch before has completed and its stores are visible.
__device__ __forceinline__ void wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next launch of the stream start as soon as a thread of every block of this one has got here. It starts with
// a wait of its own.
__device__ __forceinline__ void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// How a warp enters a launch, before it sends anything, and exits it. On entry it finds the launch's number. It also
// proves that no other launch of the group is in flight (protocol.md 5): every warp checks before it sends that no
// other warp of its place is inside a launch, and block 0 checks before it exits that all warps of the previous launch
// have exited. A launch that begins while the previous one is ending is not an error, because their packets never mix.
// All threads of a warp call every function together, and no warp waits for another. Each thread loads what it needs
// for itself, and only the claim, which is one thread's, is shared: what a warp waits for here is one batch of loads.
class Entry {
 public:
  // Makes the warp's claim, which may be done before the launch before has completed.
  __device__ __forceinline__ explicit Entry(const KernelArgs& args)
      : args_(args), own_(args.state->warps + (block_index() * kMostWarps + threadIdx.x / kWarpThreads)) {
    if (threadIdx.x % kWarpThreads == 0) {
      claims_ = atomicAdd(reinterpret_cast<unsigned long long*>(&own_->claims), 1ull);
    }
  }
  // Only starts the loads. Behind the wait for the launch before.
  __device__ __forceinline__ void load() {
    // 0, but not to the compiler, which would otherwise have a warp's loads, equal as they are, go through uniform
    // registers, and wait for them to do so.
    const uint32_t apart = threadIdx.y;
    last_ = load_pair(&own_[apart].last);
    const LaunchLine* const line = &line_of(args_) + apart;
    latest_ = load_pair(&line->latest);
    poison_ = load_word(&line->poison);
  }
  // The number of the launch. 0 in threads that must neither send nor store: the group has failed or fails now, which
  // not all threads have to notice.
  __device__ __forceinline__ uint64_t epoch() const {
    // If `latest` has this launch's tag, block 0 of this launch has entered already, unless `latest` is an earlier
    // replay of the same graph node. This warp was in that replay, too, so then its own last epoch equals that of
    // `latest`.
    const bool late = latest_.tag == args_.tag && last_.epoch != latest_.epoch;
    const uint64_t epoch = late ? latest_.epoch : latest_.epoch + 1;
    // A vote, since a shuffle would be done before the loads are started, and would wait for the claim.
    const bool may_be = threadIdx.x % kWarpThreads != 0 || last_.exits == claims_;
    const bool alone = __all_sync(~0u, may_be) != 0 || protocol::planted(protocol::Defect::kUncaughtOverlap);
    if (__builtin_expect(!alone && poison_ == 0, 0)) fail(args_, FailureKind::kOverlap, 0);
    if (!alone || (poison_ != 0 && !protocol::planted(protocol::Defect::kIgnoredPoison))) return 0;
    return protocol::planted(protocol::Defect::kShortEpochs) ? static_cast<uint32_t>(epoch) : epoch;
  }
  // After epoch(). A claim that the next launch made before one of this launch would be taken for an overlap, so the
  // block's first warp waits for the others.
  __device__ __forceinline__ void let_next_launch_start_now() const {
    if (threadIdx.x >= kWarpThreads) {
      asm volatile("barrier.cta.arrive 0, %0;" ::"r"(blockDim.x) : "memory");
      return;
    }
    if (blockDim.x > kWarpThreads) asm volatile("barrier.cta.sync 0, %0;" ::"r"(blockDim.x) : "memory");
    let_next_launch_start();
  }
  // Only starts the loads of what check_previous compares. By the threads of one warp.
  __device__ __forceinline__ void load_counts() {
    exited_ = load_counts_of(&args_.lines[threadIdx.x % kWarpThreads].exited);
    launched_ = load_counts_of(&args_.state->launched);
  }
  // By the same threads of block 0. Makes the launch the latest one.
  __device__ __forceinline__ void check_previous(uint64_t epoch) const {
    if (!__all_sync(~0u, epoch != 0)) return;
    DeviceState* const state = args_.state;
    store_pair(&args_.lines[threadIdx.x % kWarpThreads].latest, epoch, args_.tag);
    const bool is_odd = epoch % 2 != 0;
    const uint32_t before_launched = is_odd ? launched_.of[0] : launched_.of[1];
    const bool all_exited = __reduce_add_sync(~0u, is_odd ? exited_.of[0] : exited_.of[1]) == before_launched;
    if (threadIdx.x % kWarpThreads != 0) return;
    store_pair(&state->latest, epoch, args_.tag);
    const uint32_t warps = grid_blocks() * (blockDim.x / kWarpThreads);
    *reinterpret_cast<volatile uint32_t*>(&state->launched.of[epoch % 2]) =
        (is_odd ? launched_.of[1] : launched_.of[0]) + warps;
    if (protocol::planted(protocol::Defect::kUncaughtOverlap)) return;
    if (__builtin_expect(!all_exited, 0)) fail(args_, FailureKind::kOverlap, 0);
  }
  // At the end, also after a failure.
  __device__ __forceinline__ void leave(uint64_t epoch) const {
    __syncwarp();
    if (args_.next == NextLaunch::kOnceAllHaveIt) {
      __syncthreads();
      let_next_launch_start();
    }
    if (threadIdx.x % kWarpThreads != 0) return;
    if (epoch != 0) {
      store_pair(&own_->last, claims_ + 1, epoch);
      atomicAdd(&own_line(args_)->exited.of[epoch % 2], 1u);
    }
    count_ended(args_, 1);
  }

 private:
  static __device__ __forceinline__ CountByParity load_counts_of(const CountByParity* counts) {
    const uint64_t both = load_word(reinterpret_cast<const uint64_t*>(counts));
    return {{static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)}};
  }

  const KernelArgs& args_;
  WarpState* const own_;
  uint64_t claims_;  // of all launches before; the first thread's alone
  WarpState::Last last_;
  LatestLaunch latest_;
  uint64_t poison_;
  CountByParity exited_;
  CountByParity launched_;
};

// The steps of every collective's kernel in a launch. Body, all threads of a warp calling every function together:
//
//   Body(args, more...)
//   bool prepare()                  computes addresses. Always true: a block that exited here would never be counted
//   void load()                     starts loads of the input
//   void send(uint64_t epoch)       the first sends
//   void finish(uint64_t epoch)     the rest; where the epoch is 0, a thread neither sends nor stores
//   bool kChecks                    whether it may be that of block 0, whose last warp checks after the first sends
//   that
//                                   the previous launch has ended
//
// kProgrammatic: the kernel is for launches that start before the launch before has completed, and does first what may
// be done before that: its claim, and the arithmetic of addresses. In other launches this would come too early: the
// loads of the entry take longest, and with the arithmetic above them calls up to 1 MB took up to 0.18 us longer
// (docs/gpu-notes.md).
template <class Body, bool kProgrammatic, class... More>
__device__ __forceinline__ void run_in_launch(const KernelArgs& args, More... more) {
  if (!kProgrammatic) wait_for_previous_launch();
  Entry entry(args);
  if (!kProgrammatic) entry.load();
  Body body(args, more...);
  if (!kProgrammatic) body.load();
  if (!body.prepare()) return;
  if (kProgrammatic) {
    const bool guesses = protocol::planted(protocol::Defect::kTrustedGuess);
    if (guesses) entry.load();
    if (!protocol::planted(protocol::Defect::kNoLaunchWait)) wait_for_previous_launch();
    if (!guesses) entry.load();
    body.load();
  }
  const bool checks = Body::kChecks && block_index() == 0 && threadIdx.x >= blockDim.x - kWarpThreads;
  if (checks) entry.load_counts();
  const uint64_t epoch = entry.epoch();
  if (args.next == NextLaunch::kOnceAllAreAlone) entry.let_next_launch_start_now();
  body.send(epoch);
  if (checks) entry.check_previous(epoch);
  body.finish(epoch);
  entry.leave(epoch);
}

// A body of the steps of protocol/, which contain their own sends and waits. Steps: static void run(args, launch).
template <class Steps>
class StepsBody {
 public:
  static constexpr bool kChecks = true;

  __device__ __forceinline__ explicit StepsBody(const KernelArgs& args) : args_(args), launch_(args.launch) {}
  __device__ __forceinline__ bool prepare() { return true; }
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void send(uint64_t) {}
  __device__ __forceinline__ void finish(uint64_t epoch) {
    // A warp is a worker, and its threads go together.
    if (!__all_sync(~0u, epoch != 0)) return;
    launch_.epoch = epoch;
    Steps::run(args_, launch_);
  }

 private:
  const KernelArgs& args_;
  protocol::Launch launch_;
};

template <class Steps>
__device__ __forceinline__ void run_steps(const KernelArgs& args) {
  run_in_launch<StepsBody<Steps>, false>(args);
}

}  // namespace nvrar::cuda
