// How a block enters a launch, leaves it, and gives up.
#pragma once

#include "cuda/kernels/kernel_args.h"
#include "kernels/access.cuh"

namespace nvrar::cuda {

__device__ __forceinline__ uint64_t poison_of(const KernelArgs& args) { return uint64_t{args.tag} << 32 | 1; }

// The first failure of a group stays. Whether this is it.
__device__ __forceinline__ bool fail(const KernelArgs& args, FailureKind kind, uint32_t ranks) {
  auto* const poison = reinterpret_cast<unsigned long long*>(&args.state->poison);
  if (atomicCAS(poison, 0ull, poison_of(args)) != 0) return false;
  const DeviceFailure failure{kind, ranks, block_index(), args.tag};
  *reinterpret_cast<volatile uint64_t*>(&args.page->failure) = failure.pack();
  return true;
}

// Between two checks of what ends a wait: some hundred microseconds.
constexpr uint32_t kPollsBetweenChecks = 1024;

constexpr uint64_t kLeave = ~uint64_t{0};

// What a wait checks now and then: whether the group has failed or was aborted, and whether the time is up, in which
// case it fails because of `ranks`. since_ns: what the last check returned, 0 at first. kLeave: leave the launch.
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

// Whether the packet came. The lanes of a warp may wait for different ones.
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

// The last that one thread of a block does in a launch, whatever became of it: the host has counted the block, and
// frees nothing before it is over.
__device__ __forceinline__ void count_ended(const KernelArgs& args) {
  if ((args.tag & kCapturedTag) != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&args.state->blocks[block_index()].ended), 1ull);
}

// A block's way into a launch, before anything is sent, and out of it. On its way in it learns the launch's number, and
// proves that no other launch of the group is under way (protocol.md 5): every block, before it sends, that none of its
// index is in, and block 0, before it leaves, that all blocks of the launch before have left; a launch that begins
// while the last one ends spoils nothing, for their packets never meet. Split into parts, so that the caller's loads
// overlap them.
class Entry {
 public:
  // All threads of the block.
  __device__ __forceinline__ explicit Entry(const KernelArgs& args) : args_(args) {
    if (threadIdx.x != 0) return;
    DeviceState* const state = args.state;
    BlockState* const own = &state->blocks[block_index()];
    // All on their way together, and with what the caller loads next: nothing here waits for what comes back.
    claims_ = atomicAdd(reinterpret_cast<unsigned long long*>(&own->claims), 1ull);
    exits_ = load_word(&own->exits);
    epoch_ = load_word(&own->epoch);
    poison_ = load_word(&state->poison);
    latest_ = load_packet(reinterpret_cast<const Packet*>(&state->latest));
  }
  // All threads of the block; the launch's number, or 0: leave at once.
  __device__ __forceinline__ uint64_t epoch() {
    __shared__ uint64_t entered;
    if (threadIdx.x == 0) {
      const uint64_t latest = latest_[0] | uint64_t{latest_[1]} << 32;
      // Block 0 of this launch has entered before: its tag says so, unless that was an earlier launch of the same
      // graph's node, which this block was in, too.
      const bool late = latest_[2] == args_.tag && epoch_ != latest;
      uint64_t epoch = late ? latest : latest + 1;
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
  // All threads of the block, once it has sent.
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
  // All threads of the block, at its end, also after a failure.
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
  uint64_t claims_ = 0;
  uint64_t exits_ = 0;
  uint64_t epoch_ = 0;
  uint64_t poison_ = 0;
  Packet latest_{};
};

// The one way of every kernel through a launch of a collective. Body:
//
//   bool prepare()                  loads that overlap the entry's, before the launch's number is known. Always true:
//                                   a block that left here would never be counted as ended
//   void send(uint64_t epoch)       what goes out before block 0 looks back at the launch before
//   void finish(uint64_t epoch)     the rest
template <class Body>
__device__ __forceinline__ void run_in_launch(const KernelArgs& args, Body& body) {
  Entry entry(args);
  if (!body.prepare()) return;
  const uint64_t epoch = entry.epoch();
  if (epoch == 0) return;
  body.send(epoch);
  entry.check_previous(epoch);
  body.finish(epoch);
  entry.leave(epoch);
}

// The same by the steps of protocol/, which send and wait by themselves. Steps: static void run(args, launch).
template <class Steps>
__device__ __forceinline__ void run_steps(const KernelArgs& args) {
  struct Body {
    const KernelArgs& args;
    protocol::Launch launch;
    __device__ __forceinline__ bool prepare() { return true; }
    __device__ __forceinline__ void send(uint64_t) {}
    __device__ __forceinline__ void finish(uint64_t epoch) {
      launch.epoch = epoch;
      Steps::run(args, launch);
    }
  };
  Body body{args, args.launch};
  run_in_launch(args, body);
}

}  // namespace nvrar::cuda
