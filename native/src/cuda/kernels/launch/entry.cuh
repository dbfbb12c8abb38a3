// How a block enters a launch, exits it, and fails.
#pragma once

#include "cuda/kernels/launch/kernel_args.h"
#include "kernels/launch/access.cuh"
#include "kernels/launch/lane_slots.cuh"

namespace nvrar::cuda {

__device__ __forceinline__ uint64_t poison_of(const KernelArgs& args) { return uint64_t{args.tag} << 32 | 1; }

__device__ __forceinline__ LaunchLine& line_of(const KernelArgs& args) {
  return args.lines[block_index() % kLaunchLines];
}

__device__ __forceinline__ void poison_lines(const KernelArgs& args) {
#pragma unroll 1
  for (uint32_t i = 0; i < kLaunchLines; ++i) {
    *reinterpret_cast<volatile uint64_t*>(&args.lines[i].beside.poison) = poison_of(args);
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
  if (!ignores && load_word(&line_of(args).beside.poison) != 0) return kLeave;
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
  do {
#pragma unroll 1
    for (uint32_t polls = 0; polls < kPollsBetweenChecks; ++polls) {
      *packet = load_packet(slot);
      if (Packets::arrived(*packet, epoch)) return true;
    }
    since_ns = check_wait(args, 1u << source, since_ns);
  } while (since_ns != kLeave);
  return false;
}

// The last action of a launch's warps, by one thread for each of them or for several, whether the launch succeeded or
// failed. The host counts the warps that it launches, and frees nothing before all of them have ended.
__device__ __forceinline__ void count_ended(const KernelArgs& args, uint32_t warps) {
  if ((args.tag & kCapturedTag) != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&line_of(args).ended), static_cast<unsigned long long>(warps));
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

// A launch as a warp has entered it.
struct Entered {
  uint64_t epoch;  // the number of the launch
  bool odd;        // whether the number is; known earlier than the number
  // Whether the thread may send and store. If not, the group has failed or fails now, which not all threads of a block
  // have to notice.
  bool alive;
};

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
      : args_(args),
        warps_(blockDim.x / kWarpThreads),
        place_(block_index() * warps_ + threadIdx.x / kWarpThreads),
        tag_(args.tag | uint64_t{grid_blocks() * warps_} << 32) {
    if (threadIdx.x % kWarpThreads == 0) {
      claims_ = atomicAdd(reinterpret_cast<unsigned long long*>(args.claims + place_), 1ull);
    }
    // 0, but not to the compiler, which would otherwise have a warp's loads, equal as they are, go through uniform
    // registers, and wait for them to do so.
    const uint32_t apart = threadIdx.y;
    exit_at_ = args.exits + (place_ + apart);
    line_ = &line_of(args) + apart;
  }
  // Always true, see pins. The tag is among the arguments that are behind those of the launch, which a multiprocessor
  // has to fetch.
  __device__ __forceinline__ bool prepare() const { return pins(exit_at_, line_, tag_); }
  // Only starts the loads. Behind the wait for the launch before.
  __device__ __forceinline__ void load() {
    exit_ = load_pair(exit_at_);
    latest_ = load_pair(&line_->latest);
    beside_ = load_pair(&line_->beside);
  }
  // Waits until all warps of the block have made their claims. Always true: a branch that is never taken has a warp
  // wait for the result of its claim.
  __device__ __forceinline__ bool await_claims() const {
    if (threadIdx.x % kWarpThreads == 0 && !pins(claims_, uint64_t{1} << 63)) return false;
    __syncthreads();
    return true;
  }
  __device__ __forceinline__ Entered enter() {
    // If `latest` has this launch's tag, block 0 of this launch has entered already, unless `latest` is an earlier
    // replay of the same graph node. This place was in that replay, too, so then the epoch that it was last exited in
    // is that of `latest`.
    const bool exited_in_latest = exit_.epoch == latest_.epoch;
    const bool late = latest_.tag == tag_ && !exited_in_latest;
    const bool odd = (latest_.epoch % 2 != 0) == late;
    const uint64_t epoch = late ? latest_.epoch : latest_.epoch + 1;
    // Whether a warp of the launch before has exited this place, if it had one there: it may not even have started.
    bool exited = exited_in_latest || place_ >= static_cast<uint32_t>(latest_.tag >> 32);
    if (__builtin_expect(late, 0)) exited = is_exited_before_latest();
    // A vote, since a shuffle would be done before the loads are started, and would wait for the claim.
    const bool may_be = exited && (threadIdx.x % kWarpThreads != 0 || exit_.exits == claims_);
    alone_ = __all_sync(~0u, may_be) != 0 || protocol::planted(protocol::Defect::kUncaughtOverlap);
    const bool alive = alone_ && (beside_.poison == 0 || protocol::planted(protocol::Defect::kIgnoredPoison));
    return {protocol::planted(protocol::Defect::kShortEpochs) ? static_cast<uint32_t>(epoch) : epoch, odd, alive};
  }
  // After enter() and the first sends, which do not wait for it.
  __device__ __forceinline__ void report_overlap() const {
    if (__builtin_expect(!alone_ && beside_.poison == 0, 0)) fail(args_, FailureKind::kOverlap, 0);
  }
  // By the last warp of block 0, also after the first sends. Makes the launch the latest one. Nobody else does, so what
  // the warp has loaded is the launch before.
  __device__ __forceinline__ void publish(const Entered& entered) const {
    if (!__all_sync(~0u, entered.alive)) return;
    LaunchLine& line = args_.lines[threadIdx.x % kWarpThreads];
    *reinterpret_cast<volatile uint64_t*>(&line.beside.before) =
        (latest_.tag >> 32 << 32) | static_cast<uint32_t>(entered.epoch);
    store_pair(&line.latest, entered.epoch, tag_);
    if (threadIdx.x % kWarpThreads == 0) store_pair(&args_.state->latest, entered.epoch, tag_);
  }
  // By the same warp: checks that the places that the launch before had more than this one have been exited. There are
  // none in a row of equal calls.
  __device__ __forceinline__ void check_previous(const Entered& entered) const {
    if (!__all_sync(~0u, entered.alive) || protocol::planted(protocol::Defect::kUncaughtOverlap)) return;
    const auto places = static_cast<uint32_t>(latest_.tag >> 32);
    const uint32_t first = static_cast<uint32_t>(tag_ >> 32) + threadIdx.x % kWarpThreads;
    bool all_exited = true;
#pragma unroll 1
    for (uint32_t place = first; place < places; place += kExitsAtOnce * kWarpThreads) {
      uint64_t epochs[kExitsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kExitsAtOnce; ++i) {
        const uint32_t other = place + i * kWarpThreads;
        epochs[i] = load_word(&args_.exits[other < places ? other : place].epoch);
      }
#pragma unroll
      for (const uint64_t epoch : epochs) all_exited = all_exited && epoch == latest_.epoch;
    }
    if (__builtin_expect(!all_exited, 0)) fail(args_, FailureKind::kOverlap, 0);
  }
  // At the end, also after a failure.
  __device__ __forceinline__ void leave(const Entered& entered) const {
    __syncwarp();
    if (args_.next == NextLaunch::kOnceAllHaveIt) {
      __syncthreads();
      let_next_launch_start();
    }
    if (threadIdx.x % kWarpThreads != 0) return;
    if (entered.alive) store_pair(args_.exits + place_, claims_ + 1, entered.epoch);
    count_ended(args_, 1);
  }

 private:
  // So many loads are under way at once while the exits of a larger launch are checked.
  static constexpr uint32_t kExitsAtOnce = 8;

  // The same where `latest` is this launch itself. Loads again what its block 0 has stored just before `latest`, until
  // it is there. If it never is, another launch overlaps and has stored its own.
  __device__ __forceinline__ bool is_exited_before_latest() {
    const auto is_there = [&] { return static_cast<uint32_t>(beside_.before) == static_cast<uint32_t>(latest_.epoch); };
#pragma unroll 1
    for (uint32_t looks = 0; !is_there(); ++looks) {
      if (looks == kPollsBetweenChecks) return false;
      beside_ = load_pair(&line_->beside);
    }
    return place_ >= static_cast<uint32_t>(beside_.before >> 32) || exit_.epoch + 1 == latest_.epoch;
  }

  const KernelArgs& args_;
  const uint32_t warps_;  // of a block
  const uint32_t place_;
  const uint64_t tag_;  // as LatestLaunch has it
  uint64_t claims_;     // of all launches before; the first thread's alone
  const PlaceExit* exit_at_;
  const LaunchLine* line_;
  PlaceExit exit_;
  LatestLaunch latest_;
  LaunchLine::Beside beside_;
  bool alone_;
};

// The steps of every collective's kernel in a launch. Body, all threads of a warp calling every function together:
//
//   Body(args, more...)
//   bool prepare()                  computes addresses. Always true: a block that exited here would never be counted
//   void load<kAtOnce>()            starts loads of the input
//   void send(const Entered&)       the first sends
//   void finish(const Entered&)     the rest; a thread that is not alive neither sends nor stores
//   bool kChecks                    whether it may be that of block 0, whose last warp publishes the launch behind the
//                                   first sends and checks that the one before has ended
//
// kProgrammatic: the kernel is for launches that start before the launch before has completed, and does first what may
// be done before that: its claim, and the arithmetic of addresses. In other launches this would come too early: the
// loads of the entry take longest, and with the arithmetic above them calls up to 1 MB took up to 0.18 us longer
// (docs/notebook/gpu-notes.md).
template <class Body, bool kProgrammatic, class... More>
__device__ __forceinline__ void run_in_launch(const KernelArgs& args, More... more) {
  // Claims that the next launch made before those of this one would be taken for an overlap.
  const bool starts_next = args.next == NextLaunch::kOnceAllHaveClaimed;
  if (!kProgrammatic) wait_for_previous_launch();
  Entry entry(args);
  if (!kProgrammatic) entry.load();
  Body body(args, more...);
  if (!kProgrammatic) body.template load<kProgrammatic>();
  if (kProgrammatic && !entry.prepare()) return;
  if (!body.prepare()) return;
  if (starts_next && !entry.await_claims()) return;
  if (kProgrammatic) {
    const bool guesses = protocol::planted(protocol::Defect::kTrustedGuess);
    if (guesses) entry.load();
    if (!protocol::planted(protocol::Defect::kNoLaunchWait)) wait_for_previous_launch();
    if (starts_next) let_next_launch_start();
    body.template load<kProgrammatic>();
    if (!guesses) entry.load();
  } else if (starts_next) {
    let_next_launch_start();
  }
  const Entered entered = entry.enter();
  body.send(entered);
  entry.report_overlap();
  if (Body::kChecks && block_index() == 0 && threadIdx.x >= blockDim.x - kWarpThreads) {
    entry.publish(entered);
    entry.check_previous(entered);
  }
  body.finish(entered);
  entry.leave(entered);
}

// A body of the steps of protocol/, which contain their own sends and waits. Steps: static void run(args, launch).
template <class Steps>
class StepsBody {
 public:
  static constexpr bool kChecks = true;

  __device__ __forceinline__ explicit StepsBody(const KernelArgs& args) : args_(args), launch_(args.launch) {}
  __device__ __forceinline__ bool prepare() { return true; }
  template <bool>
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void send(const Entered&) {}
  __device__ __forceinline__ void finish(const Entered& entered) {
    // A warp is a worker, and its threads go together.
    if (!__all_sync(~0u, entered.alive)) return;
    launch_.epoch = entered.epoch;
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
