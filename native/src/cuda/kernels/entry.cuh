// How a block enters a launch, exits it, and fails.
#pragma once

#include "cuda/kernels/kernel_args.h"
#include "kernels/access.cuh"

namespace nvrar::cuda {

__device__ __forceinline__ uint64_t poison_of(const KernelArgs& args) { return uint64_t{args.tag} << 32 | 1; }

// Records a failure, unless the group has failed already. Returns whether this is the first failure.
__device__ __forceinline__ bool fail(const KernelArgs& args, FailureKind kind, uint32_t ranks) {
  auto* const poison = reinterpret_cast<unsigned long long*>(&args.state->poison);
  if (atomicCAS(poison, 0ull, poison_of(args)) != 0) return false;
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
  if (!ignores && load_word(&args.state->poison) != 0) return kLeave;
  if (!ignores && load_word(&args.page->abort) != 0) {
    *reinterpret_cast<volatile uint64_t*>(&args.state->poison) = poison_of(args);
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

// How a block enters a launch, before anything is sent, and exits it. On entry it finds the launch's number. It also
// proves that no other launch of the group is in flight (protocol.md 5): every block checks before it sends that no
// other block of its index is inside a launch, and block 0 checks before it exits that all blocks of the previous
// launch have exited. A launch that begins while the previous one is ending is not an error, because their packets
// never mix. The steps are separate functions, so that the caller's loads overlap those of the entry.
class Entry {
 public:
  // Called by all threads of the block.
  __device__ __forceinline__ explicit Entry(const KernelArgs& args) : args_(args) {
    if (threadIdx.x != 0) return;
    DeviceState* const state = args.state;
    BlockState* const own = &state->blocks[block_index()];
    // All of these are in flight together, and with the caller's next loads: nothing here waits for a result.
    claims_ = atomicAdd(reinterpret_cast<unsigned long long*>(&own->claims), 1ull);
    exits_ = load_word(&own->exits);
    epoch_ = load_word(&own->epoch);
    poison_ = load_word(&state->poison);
    latest_ = load_pair(&state->latest);
  }
  // Called by all threads of the block. Returns the number of the launch; 0: exit at once.
  __device__ __forceinline__ uint64_t epoch() {
    __shared__ uint64_t entered;
    if (threadIdx.x == 0) {
      // If `latest` has this launch's tag, block 0 of this launch has entered already, unless `latest` is an earlier
      // replay of the same graph node. This block was in that replay, too, so then its own last epoch equals that of
      // `latest`.
      const bool late = latest_.tag == args_.tag && epoch_ != latest_.epoch;
      uint64_t epoch = late ? latest_.epoch : latest_.epoch + 1;
      if (protocol::planted(protocol::Defect::kShortEpochs)) epoch = static_cast<uint32_t>(epoch);
      const bool alone = exits_ == claims_ || protocol::planted(protocol::Defect::kUncaughtOverlap);
      if (__builtin_expect(!alone && poison_ == 0, 0)) fail(args_, FailureKind::kOverlap, 0);
      const bool good = alone && (poison_ == 0 || protocol::planted(protocol::Defect::kIgnoredPoison));
      entered = good ? epoch : 0;
      if (good) {
        enter(epoch);
      } else {
        count_ended(args_);
      }
    }
    __syncthreads();
    return entered;
  }
  // Called by all threads of the block, after it has sent.
  __device__ __forceinline__ void check_previous(uint64_t epoch) const {
    if (block_index() != 0 || threadIdx.x != blockDim.x - 1) return;
    DeviceState* const state = args_.state;
    const uint64_t launched = load_word(&state->blocks_launched[epoch % 2]);
    const uint64_t before_launched = load_word(&state->blocks_launched[(epoch + 1) % 2]);
    const uint64_t before_left = load_word(&state->blocks_exited[(epoch + 1) % 2]);
    *reinterpret_cast<volatile uint64_t*>(&state->blocks_launched[epoch % 2]) = launched + grid_blocks();
    if (protocol::planted(protocol::Defect::kUncaughtOverlap)) return;
    if (__builtin_expect(before_left != before_launched, 0)) fail(args_, FailureKind::kOverlap, 0);
  }
  // Called by all threads of the block at its end, also after a failure.
  __device__ __forceinline__ void leave(uint64_t epoch) const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    *reinterpret_cast<volatile uint64_t*>(&args_.state->blocks[block_index()].exits) = claims_ + 1;
    atomicAdd(reinterpret_cast<unsigned long long*>(&args_.state->blocks_exited[epoch % 2]), 1ull);
    count_ended(args_);
  }

 private:
  __device__ __forceinline__ void enter(uint64_t epoch) const {
    DeviceState* const state = args_.state;
    *reinterpret_cast<volatile uint64_t*>(&state->blocks[block_index()].epoch) = epoch;
    if (block_index() != 0) return;
    Packet latest{};
    latest[0] = static_cast<uint32_t>(epoch);
    latest[1] = static_cast<uint32_t>(epoch >> 32);
    latest[2] = args_.tag;
    store_packet(reinterpret_cast<Packet*>(&state->latest), latest);
  }

  const KernelArgs& args_;
  // Only thread 0 has these; a value for the others would have to wait for its loads.
  uint64_t claims_;
  uint64_t exits_;
  uint64_t epoch_;
  uint64_t poison_;
  LatestLaunch latest_;
};

// The steps of every collective's kernel in a launch. Body:
//
//   Body(args, more...)
//   bool prepare()                  loads that overlap the entry's, before the launch's number is known. Always true: a
//                                   block that exited here would never be counted as ended
//   void send(uint64_t epoch)       the sends before block 0 checks that the previous launch has ended
//   void finish(uint64_t epoch)     the rest
//
// The entry comes before the body's constructor, because its loads take longest: with the body's address arithmetic
// above them, calls up to 1 MB took up to 0.18 us longer (docs/gpu-notes.md).
template <class Body, class... More>
__device__ __forceinline__ void run_in_launch(const KernelArgs& args, More... more) {
  Entry entry(args);
  Body body(args, more...);
  if (!body.prepare()) return;
  const uint64_t epoch = entry.epoch();
  if (epoch == 0) return;
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
  __device__ __forceinline__ void send(uint64_t) {}
  __device__ __forceinline__ void finish(uint64_t epoch) {
    launch_.epoch = epoch;
    Steps::run(args_, launch_);
  }

 private:
  const KernelArgs& args_;
  protocol::Launch launch_;
};

template <class Steps>
__device__ __forceinline__ void run_steps(const KernelArgs& args) {
  run_in_launch<StepsBody<Steps>>(args);
}

}  // namespace nvrar::cuda
