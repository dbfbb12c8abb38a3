// One-shot and reduce-scatter between two ranks, by the steps of protocol/team.h. There is only one packet to wait for,
// so the thread that receives it has both summands, and a warp is a team.
#pragma once

#include "kernels/header_exchange.cuh"
#include "kernels/packet_area.cuh"
#include "kernels/word_sum.cuh"
#include "protocol/team.h"

namespace nvrar::cuda {

// kScatters: a reduce-scatter, whose ranks send each other different parts of their messages.
template <class Element, bool kScatters, bool kSingle, class Epilogue>
class PairSum {
 public:
  static constexpr bool kChecks = false;
  static constexpr uint32_t kRunBytes = protocol::SentinelPacket::kRunBytes;
  static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");

  __device__ __forceinline__ explicit PairSum(const KernelArgs& args)
      : args_(args),
        epilogue_{args},
        bytes_(static_cast<uint32_t>(args.launch.bytes)),
        rank_(args.launch.rank),
        peer_(1 - rank_),
        lane_(threadIdx.x % kWarpThreads) {
    const uint32_t warps = blockDim.x / kWarpThreads;
    first_ = (block_index() - kHeaderBlocks) * warps + threadIdx.x / kWarpThreads;
    step_ = (grid_blocks() - kHeaderBlocks) * warps;
    own_ = LaneSlots(args.launch.layout, args.rings[rank_], tiles().data_slot(first_, peer_));
    theirs_ = LaneSlots(args.launch.layout, args.rings[peer_], tiles().data_slot(first_, rank_));
    from_ = part_of(peer_) + offset(first_);
    own_from_ = part_of(rank_) + offset(first_);
  }

  __device__ __forceinline__ bool prepare() { return own_.prepare() && theirs_.prepare() && pins(from_, own_from_); }
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
    (void)protocol::reduce_tiles(*this, tiles(), args_.launch.layout, entered.alive);
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
  __device__ __forceinline__ void push(uint32_t, uint32_t slot, uint32_t, uint32_t run) const {
    const Packet payload = is_loaded(run) ? input_ : load(peer_, run);
    if (has(run)) send_packet(args_, theirs_.at(slot), protocol::SentinelPacket::seal(payload, 0));
  }
  __device__ __forceinline__ bool gather(uint32_t source, uint32_t slot, uint32_t, uint32_t run, bool good) {
    mine_ = !is_loaded(run) ? load(rank_, run) : kScatters ? own_input_ : input_;
    if (!has(run)) return good;
    return good && await<protocol::SentinelPacket>(args_, own_.at(slot), source, 0, &other_);
  }
  __device__ __forceinline__ static bool meet(bool good) { return good; }
  __device__ __forceinline__ void sum(uint32_t run, bool good) const {
    if (!good || !has(run)) return;
    Packet sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // In either order: a sum of two has the same bits in both.
      WordSum<Element> word(mine_[i]);
      word.add(other_[i]);
      sum[i] = word.round();
    }
    epilogue_.take(offset(run), sum);
  }
  __device__ __forceinline__ void clear(uint32_t slot, uint32_t run) const {
    if (has(run)) clear_packet(args_, own_.at(slot));
  }
  __device__ __forceinline__ void next_tile(uint32_t) const {}

 private:
  __device__ __forceinline__ static protocol::Tiles<false> tiles() { return {{{2, 2}}}; }
  // The offset of this lane's packet.
  __device__ __forceinline__ uint32_t offset(uint32_t run) const {
    return run * kRunBytes + lane_ * protocol::kPacketBytes;
  }
  __device__ __forceinline__ bool has(uint32_t run) const { return offset(run) < bytes_; }
  __device__ __forceinline__ bool is_loaded(uint32_t run) const { return kSingle || run == first_; }
  // What this rank sends to that one, or keeps.
  __device__ __forceinline__ const uint8_t* part_of(uint32_t rank) const {
    return args_.launch.send + (kScatters ? rank * args_.launch.send_stride_bytes : 0);
  }
  __device__ __forceinline__ Packet load(uint32_t rank, uint32_t run) const {
    return has(run) ? *reinterpret_cast<const Packet*>(part_of(rank) + offset(run)) : Packet{};
  }

  const KernelArgs& args_;
  const Epilogue epilogue_;
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
  Packet input_;      // of the first run, what is sent
  Packet own_input_;  // what is kept, in a reduce-scatter
  Packet mine_;       // this rank's part of the current run
  Packet other_;
};

}  // namespace nvrar::cuda
