// One-shot and reduce-scatter between two ranks, by the steps of protocol/team.h. There is only one packet to wait for,
// so the thread that receives it has both summands, and a warp is a team.
#pragma once

#include "kernels/allreduce/epilogue.cuh"
#include "kernels/allreduce/word_sum.cuh"
#include "kernels/launch/header_exchange.cuh"
#include "kernels/launch/lane_slots.cuh"
#include "kernels/launch/take_and_clear.cuh"
#include "protocol/team.h"

namespace nvrar::cuda {

// kScatters: a reduce-scatter, whose ranks send each other different parts of their messages.
template <class Element, bool kScatters, bool kSingle, class Part, class Epilogue>
class PairSum {
 public:
  using MessagePart = Part;
  static constexpr bool kChecks = false;
  static constexpr uint32_t kRunBytes = protocol::SentinelPacket::kRunBytes;
  static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");

  __device__ __forceinline__ explicit PairSum(const KernelArgs& args)
      : args_(args),
        part_(args),
        epilogue_(args, part_),
        bytes_(part_.bytes),
        rank_(args.launch.rank),
        peer_(1 - rank_),
        lane_(threadIdx.x % kWarpThreads) {
    const uint32_t warps = blockDim.x / kWarpThreads;
    first_ = part_.block() * warps + threadIdx.x / kWarpThreads;
    step_ = part_.blocks() * warps;
    const uint32_t begin = part_.first_slot(kRanks * kWarpThreads);
    own_ = LaneSlots(args.launch.layout, args.rings[rank_] + begin, tiles().data_slot(first_, peer_));
    theirs_ = LaneSlots(args.launch.layout, args.rings[peer_] + begin, tiles().data_slot(first_, rank_));
    from_ = part_of(peer_) + offset(first_);
    own_from_ = part_of(rank_) + offset(first_);
  }

  __device__ __forceinline__ bool prepare() {
    return own_.prepare() && theirs_.prepare() && pins(from_, own_from_) && epilogue_.prepare();
  }
  template <bool kAtOnce>
  __device__ __forceinline__ void load() {
    input_ = load_input<kAtOnce>(from_, has(first_));
    if (kScatters) own_input_ = load_input<kAtOnce>(own_from_, has(first_));
  }

  __device__ __forceinline__ void send(const Entered& entered) {
    theirs_.select(entered.odd);
    own_.select(entered.odd);
    if (entered.alive) protocol::send_tiles(*this, tiles());
  }

  __device__ __forceinline__ void finish(const Entered& entered) {
    if (kSingle) epilogue_.expect(offset(first_), has(first_));
    epilogue_.sent();
    const bool good = protocol::reduce_tiles(*this, tiles(), args_.launch.layout, entered.alive);
    epilogue_.finish(*this, good);
  }

  // For the epilogue: a thread has a packet of each run.
  template <class Visit>
  __device__ __forceinline__ void each_result(Visit visit) const {
    each_tile([&](uint32_t run) { visit(offset(run), has(run)); });
  }

  // The interface of protocol/team.h. Each tile is one run, and the threads of a warp need no barrier.
  __device__ __forceinline__ uint32_t rank() const { return rank_; }
  template <class Visit>
  __device__ __forceinline__ void each_tile(Visit visit) const {
    for (uint32_t run = first_; run * kRunBytes < bytes_; run += step_) {
      visit(run);
      if (kSingle) break;
    }
  }
  template <class Visit>
  __device__ __forceinline__ void each_peer(Visit visit) const {
    visit(peer_);
  }
  template <class Visit>
  __device__ __forceinline__ void each_source(Visit visit) const {
    visit(peer_);
  }
  // A block that repeats loads ahead what it will need next, for the latency of a load is most of a turn: a run to send
  // and, behind the last of them, the first run to add.
  __device__ __forceinline__ void push(uint32_t, uint32_t slot, uint32_t, uint32_t run) {
    const Packet payload = input_;
    if (!kSingle) input_ = has_next(run) ? load(peer_, run + step_) : kScatters ? Packet{} : load(rank_, first_);
    if (has(run)) send_packet(args_, theirs_.at(slot), protocol::SentinelPacket::seal(payload, 0));
  }
  __device__ __forceinline__ bool gather(uint32_t source, uint32_t slot, uint32_t, uint32_t run, bool good) {
    if (!kSingle) epilogue_.expect(offset(run), has(run));
    Packet& own = kScatters ? own_input_ : input_;
    mine_ = own;
    if (!kSingle) {
      own = has_next(run) ? load(rank_, run + step_) : Packet{};
      other_ = ahead_;
      if (has_next(run)) ahead_ = load_packet(own_.at(slot + step_ * kRanks * kWarpThreads));
      if (run != first_ && protocol::SentinelPacket::arrived(other_, 0)) return good;
    }
    if (!has(run)) return good;
    return good && await<protocol::SentinelPacket>(args_, own_.at(slot), source, 0, &other_);
  }
  __device__ __forceinline__ static bool meet(bool good) { return good; }
  __device__ __forceinline__ void sum(uint32_t run, bool good) {
    if (!good || !has(run)) return;
    epilogue_.take(offset(run), sum_of_pair<Element>(mine_, other_));
  }
  __device__ __forceinline__ void clear(uint32_t slot, uint32_t run) const {
    if (has(run)) clear_packet(args_, own_.at(slot));
  }
  __device__ __forceinline__ void next_tile(uint32_t) const {}

 private:
  __device__ __forceinline__ static protocol::Tiles<false> tiles() { return {{{kRanks, kRanks}}}; }
  // The offset of this lane's packet.
  __device__ __forceinline__ uint32_t offset(uint32_t run) const {
    return run * kRunBytes + lane_ * protocol::kPacketBytes;
  }
  __device__ __forceinline__ bool has(uint32_t run) const { return offset(run) < bytes_; }
  // Whether this warp has another run behind that one.
  __device__ __forceinline__ bool has_next(uint32_t run) const { return (run + step_) * kRunBytes < bytes_; }
  // What this rank sends to that one, or keeps.
  __device__ __forceinline__ const uint8_t* part_of(uint32_t rank) const {
    return args_.launch.send + part_.begin() + (kScatters ? rank * args_.launch.send_stride_bytes : 0);
  }
  __device__ __forceinline__ Packet load(uint32_t rank, uint32_t run) const {
    return load_input<true>(part_of(rank) + offset(run), has(run));
  }

  static constexpr uint32_t kRanks = 2;

  const KernelArgs& args_;
  const Part part_;
  Epilogue epilogue_;
  uint32_t bytes_;
  uint32_t rank_;
  uint32_t peer_;
  uint32_t lane_;
  uint32_t first_;  // the first run
  uint32_t step_;
  LaneSlots own_;
  LaneSlots theirs_;
  const uint8_t* from_;
  const uint8_t* own_from_;
  Packet input_;      // what is sent next
  Packet own_input_;  // what is added next, in a reduce-scatter
  Packet mine_;       // this rank's part of the current run
  Packet other_;
  Packet ahead_;  // what was in the next run's slot when it was looked at ahead
};

}  // namespace nvrar::cuda
