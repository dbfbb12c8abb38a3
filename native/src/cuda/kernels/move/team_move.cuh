// Data movement by teams of warps (protocol/team_move.h). Each lane of a warp handles one packet of a run.
#pragma once

#include "call/steps.h"
#include "kernels/launch/header_exchange.cuh"
#include "kernels/launch/lane_slots.cuh"
#include "kernels/launch/marked_packets.cuh"
#include "kernels/launch/message_part.cuh"
#include "protocol/team_move.h"

namespace nvrar::cuda {

// kRanks: the world size, or 0 for any. kSingle: a team has at most one run of each part, so the code has no loops.
template <uint32_t kRanks, bool kSingle>
class TeamMove {
 public:
  using MessagePart = WholeMessage;
  static constexpr bool kChecks = false;
  static constexpr uint32_t kRunBytes = MarkedPacket::kRunBytes;

  __device__ __forceinline__ explicit TeamMove(const KernelArgs& args)
      : args_(args),
        world_(kRanks != 0 ? kRanks : args.launch.topology().world),
        bytes_(static_cast<uint32_t>(args.launch.bytes)),
        lane_(threadIdx.x % kWarpThreads),
        peer_(rank() + threadIdx.x / kWarpThreads % world_),
        first_((block_index() - kHeaderBlocks) * teams() + threadIdx.x / kWarpThreads / world_) {
    if (peer_ >= world_) peer_ -= world_;
    own_ = LaneSlots(args.launch.layout, args.rings[rank()], slot(runs().data_run(first_, peer_)));
    theirs_ = LaneSlots(args.launch.layout, args.rings[peer_], slot(runs().data_run(first_, rank())));
    from_ = parts().to_send(peer_) + offset(first_);
    to_ = parts().to_store(peer_) + offset(0);
  }

  __device__ __forceinline__ bool prepare() { return own_.prepare() && theirs_.prepare() && pins(from_, to_); }
  // A broadcast's other ranks have nothing to load: their `send` may be anything.
  template <bool kAtOnce>
  __device__ __forceinline__ void load() {
    input_ = load_input<kAtOnce>(from_, parts().sends() && has(first_));
  }

  __device__ __forceinline__ void send(const Entered& entered) {
    epoch_ = entered.epoch;
    alive_ = entered.alive;
    own_.select(entered.odd);
    theirs_.select(entered.odd);
    protocol::send_parts(*this, runs(), parts());
  }
  __device__ __forceinline__ void finish(const Entered&) { (void)protocol::take_parts(*this, runs(), parts()); }

  // The interface of protocol/team_move.h.
  __device__ __forceinline__ uint32_t rank() const { return args_.launch.rank; }
  template <class Visit>
  __device__ __forceinline__ void each_tile(Visit visit) const {
    if (kSingle) {
      if (first_ * kRunBytes < bytes_) visit(first_);
    } else {
      for (uint32_t j = first_; j * kRunBytes < bytes_; j += step()) visit(j);
    }
  }
  template <class Visit>
  __device__ __forceinline__ void each_peer(Visit visit) const {
    if (peer_ != rank()) visit(peer_);
  }
  template <class Visit>
  __device__ __forceinline__ void each_source(Visit visit) const {
    visit(peer_);
  }
  // A thread that must not send votes with the others of its warp.
  __device__ __forceinline__ void push(uint32_t, uint32_t place, uint32_t j) {
    const Packet payload = next_input(j);
    const Packet packet = MarkedPacket::seal(payload, epoch_);
    if (alive_ && has(j)) send_packet(args_, theirs_.at(slot(place)), packet);
    if (__builtin_expect(__any_sync(~0u, MarkedPacket::is_in_doubt(packet)) == 0, 1)) return;
    const uint32_t replaced = __ballot_sync(~0u, MarkedPacket::is_replaced(payload));
    if (!alive_ || lane_ != 0) return;
    send_packet(args_, args_.rings[peer_] + mark_slot(place), MarkPacket::seal(replaced, epoch_));
  }
  __device__ __forceinline__ bool drain(uint32_t source, uint32_t place, uint32_t j) const {
    if (!alive_) return false;
    if (!has(j)) return true;
    Packet payload;
    const Packet* const mark = args_.rings[rank()] + mark_slot(place);
    if (!take_marked(args_, own_.at(slot(place)), mark, source, epoch_, &payload)) return false;
    store(j, payload);
    return true;
  }
  __device__ __forceinline__ void copy(uint32_t j) {
    const Packet payload = next_input(j);
    const bool in_place = parts().to_store(rank()) == parts().to_send(rank());
    if (alive_ && has(j) && !in_place) store(j, payload);
  }

 private:
  __device__ __forceinline__ protocol::FlatRuns runs() const { return {{world_, world_}}; }
  __device__ __forceinline__ protocol::Parts parts() const {
    return {args_.launch, movement_of(static_cast<Algorithm>(args_.algorithm))};
  }
  __device__ __forceinline__ uint32_t teams() const { return blockDim.x / (kWarpThreads * world_); }
  __device__ __forceinline__ uint32_t step() const { return (grid_blocks() - kHeaderBlocks) * teams(); }
  // The offset of this lane's packet.
  __device__ __forceinline__ uint32_t offset(uint32_t j) const {
    return j * kRunBytes + lane_ * protocol::kPacketBytes;
  }
  __device__ __forceinline__ bool has(uint32_t j) const { return offset(j) < bytes_; }
  static __device__ __forceinline__ uint32_t slot(uint32_t place) { return place * protocol::kRunPackets; }
  __device__ __forceinline__ uint64_t mark_slot(uint32_t place) const {
    return args_.launch.layout.mark_slot(epoch_, protocol::Hop::kData, place);
  }
  // The input of run j, which is loaded already; starts the load of the next run, so that it is under way while this
  // one is sent.
  __device__ __forceinline__ Packet next_input(uint32_t j) {
    const Packet payload = input_;
    if (!kSingle) {
      from_ += step() * kRunBytes;
      input_ = load_input<false>(from_, has(j + step()));
    }
    return payload;
  }
  __device__ __forceinline__ void store(uint32_t j, const Packet& payload) const {
    *reinterpret_cast<Packet*>(to_ + j * kRunBytes) = payload;
  }

  const KernelArgs& args_;
  uint32_t world_;
  uint32_t bytes_;
  uint32_t lane_;
  uint32_t peer_;
  uint32_t first_;  // the first run
  LaneSlots own_;
  LaneSlots theirs_;
  const uint8_t* from_;  // this lane's packet of the run that was loaded last
  uint8_t* to_;          // this lane's packet of the first run
  Packet input_;
  uint64_t epoch_ = 0;
  bool alive_ = false;
};

template <uint32_t kRanks, bool kSingle, bool kProgrammatic>
__device__ __forceinline__ void team_move(const KernelArgs& args) {
  run_beside_headers<TeamMove<kRanks, kSingle>, kProgrammatic>(args);
}

}  // namespace nvrar::cuda

#define NVRAR_MOVE_KERNEL(name, ...) NVRAR_KERNEL(name, kTeamWarps* kWarpThreads, kPlaces, team_move<__VA_ARGS__>)
#define NVRAR_MOVE_KERNELS_OF(ranks, suffix, programmatic)                 \
  NVRAR_MOVE_KERNEL(team_move_##ranks##suffix, ranks, false, programmatic) \
  NVRAR_MOVE_KERNEL(team_move_##ranks##_single##suffix, ranks, true, programmatic)
// For any world size, and faster ones for the most common sizes.
#define NVRAR_MOVE_KERNELS(suffix, programmatic) \
  NVRAR_MOVE_KERNELS_OF(2, suffix, programmatic) \
  NVRAR_MOVE_KERNELS_OF(4, suffix, programmatic) \
  NVRAR_MOVE_KERNELS_OF(8, suffix, programmatic) \
  NVRAR_MOVE_KERNEL(team_move_0##suffix, 0, false, programmatic)
