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

// The last action of one thread of each block in a launch, whether it succeeded or failed. The host counts the blocks
// that it launches, and frees nothing before all of them have ended.
__device__ __forceinline__ void count_ended(const KernelArgs& args) {
  if ((args.tag & kCapturedTag) != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&args.state->blocks[block_index()].ended), 1ull);
}

// Programmatic dependent launch (protocol.md 6). Below sm_90, and in launches without the attribute, these do nothing.
// Waits until the launch before has completed and its stores are visible.
__device__ __forceinline__ void wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next launch of the stream start as soon as all blocks of this one have got here. It starts with a wait of
// its own.
__device__ __forceinline__ void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// How a block enters a launch, before anything is sent, and exits it. On entry it finds the launch's number. It also
// proves that no other launch of the group is in flight (protocol.md 5): every block checks before it sends that no
// other block of its index is inside a launch, and block 0 checks before it exits that all blocks of the previous
// launch have exited. A launch that begins while the previous one is ending is not an error, because their packets
// never mix. All threads of the block call every function together. Each thread loads what it needs for itself, and
// only the claim, which is one thread's, is shared: what a thread waits for here is one batch of loads.
class Entry {
 public:
  // Makes the block's claim, which may be done before the launch before has completed.
  __device__ __forceinline__ explicit Entry(const KernelArgs& args)
      : args_(args), own_(args.state->blocks + block_index()) {
    if (threadIdx.x == 0) claims_ = atomicAdd(reinterpret_cast<unsigned long long*>(&own_->claims), 1ull);
  }
  // Waits for the claim.
  __device__ __forceinline__ void share_claim() {
    __shared__ uint64_t claims;
    if (threadIdx.x == 0) claims = claims_;
    __syncthreads();
    claims_ = claims;
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
  // not all threads of a block have to notice.
  __device__ __forceinline__ uint64_t epoch() const {
    // If `latest` has this launch's tag, block 0 of this launch has entered already, unless `latest` is an earlier
    // replay of the same graph node. This block was in that replay, too, so then its own last epoch equals that of
    // `latest`.
    const bool late = latest_.tag == args_.tag && last_.epoch != latest_.epoch;
    const uint64_t epoch = late ? latest_.epoch : latest_.epoch + 1;
    const bool alone = last_.exits == claims_ || protocol::planted(protocol::Defect::kUncaughtOverlap);
    if (__builtin_expect(!alone && poison_ == 0, 0)) fail(args_, FailureKind::kOverlap, 0);
    if (!alone || (poison_ != 0 && !protocol::planted(protocol::Defect::kIgnoredPoison))) return 0;
    return protocol::planted(protocol::Defect::kShortEpochs) ? static_cast<uint32_t>(epoch) : epoch;
  }
  // After the block has sent. Makes the launch the latest one.
  __device__ __forceinline__ void check_previous(uint64_t epoch) const {
    if (block_index() != 0 || threadIdx.x < blockDim.x - kWarpThreads || epoch == 0) return;
    store_pair(&args_.lines[threadIdx.x % kWarpThreads].latest, epoch, args_.tag);
    if (threadIdx.x != blockDim.x - 1) return;
    DeviceState* const state = args_.state;
    store_pair(&state->latest, epoch, args_.tag);
    const uint64_t launched = load_word(&state->blocks_launched[epoch % 2]);
    const uint64_t before_launched = load_word(&state->blocks_launched[(epoch + 1) % 2]);
    const uint64_t before_left = load_word(&state->blocks_exited[(epoch + 1) % 2]);
    *reinterpret_cast<volatile uint64_t*>(&state->blocks_launched[epoch % 2]) = launched + grid_blocks();
    if (protocol::planted(protocol::Defect::kUncaughtOverlap)) return;
    if (__builtin_expect(before_left != before_launched, 0)) fail(args_, FailureKind::kOverlap, 0);
  }
  // At the end, also after a failure.
  __device__ __forceinline__ void leave(uint64_t epoch) const {
    __syncthreads();
    if (args_.next == NextLaunch::kOnceAllHaveIt) let_next_launch_start();
    if (threadIdx.x != 0) return;
    if (epoch != 0) {
      store_pair(&own_->last, claims_ + 1, epoch);
      atomicAdd(reinterpret_cast<unsigned long long*>(&args_.state->blocks_exited[epoch % 2]), 1ull);
    }
    count_ended(args_);
  }

 private:
  const KernelArgs& args_;
  BlockState* const own_;
  uint64_t claims_;  // of all launches before; thread 0's alone until it is shared
  BlockState::Last last_;
  LatestLaunch latest_;
  uint64_t poison_;
};

// The steps of every collective's kernel in a launch. Body, all threads of a block calling every function together:
//
//   Body(args, more...)
//   bool prepare()                  computes addresses. Always true: a block that exited here would never be counted
//   void load()                     starts loads of the input
//   void send(uint64_t epoch)       the sends before block 0 checks that the previous launch has ended
//   void finish(uint64_t epoch)     the rest; where the epoch is 0, a thread neither sends nor stores
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
  entry.share_claim();
  if (kProgrammatic) {
    const bool guesses = protocol::planted(protocol::Defect::kTrustedGuess);
    if (guesses) entry.load();
    if (!protocol::planted(protocol::Defect::kNoLaunchWait)) wait_for_previous_launch();
    if (!guesses) entry.load();
    body.load();
  }
  const uint64_t epoch = entry.epoch();
  if (args.next == NextLaunch::kOnceAllAreAlone) let_next_launch_start();
  body.send(epoch);
  entry.check_previous(epoch);
  body.finish(epoch);
  entry.leave(epoch);
}

// A body of the steps of protocol/, which contain their own sends and waits. Steps: static void run(args, launch).
template <class Steps>
class StepsBody {
 public:
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
