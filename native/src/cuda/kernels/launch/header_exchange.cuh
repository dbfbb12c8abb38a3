// Exchanges the headers of a launch (protocol/call_header.h), with one thread for each peer, in a block of its own.
#pragma once

#include "kernels/launch/entry.cuh"
#include "kernels/launch/lane_slots.cuh"
#include "protocol/call_header.h"

namespace nvrar::cuda {

// Of this thread with its peer, by threads 1 to world - 1 of a block, which does nothing else: a body (entry.cuh).
class HeaderExchange {
 public:
  static constexpr bool kChecks = true;

  __device__ __forceinline__ explicit HeaderExchange(const KernelArgs& args)
      : args_(args), takes_part_(threadIdx.x != 0 && threadIdx.x < args.launch.topology().world) {
    peer_ = args.launch.rank + threadIdx.x % protocol::kMaxRanks;
    if (peer_ >= args.launch.topology().world) peer_ -= args.launch.topology().world;
    to_ = args.rings[takes_part_ ? peer_ : 0] + protocol::RingLayout::header_slot(0, args.launch.rank);
    from_ = args.rings[args.launch.rank] + protocol::RingLayout::header_slot(0, peer_);
  }
  // Always true. The number of the launch selects only one of two slots.
  __device__ __forceinline__ bool prepare() { return pins(to_, from_); }
  template <bool>
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void send(const Entered& entered) const {
    if (!takes_part_ || !entered.alive) return;
    send_packet(args_, to_ + of(entered), protocol::header_packet(args_.launch.header_hash, entered.epoch));
  }
  __device__ __forceinline__ void finish(const Entered& entered) const {
    if (!takes_part_ || !entered.alive || protocol::planted(protocol::Defect::kNoHeaderWait)) return;
    Packet packet;
    if (!await<protocol::EpochPacket>(args_, from_ + of(entered), peer_, entered.epoch, &packet)) return;
    if (!protocol::is_same_call(packet, args_.launch.header_hash)) fail(args_, FailureKind::kMismatch, 1u << peer_);
  }

 private:
  static __device__ __forceinline__ uint32_t of(const Entered& entered) {
    return static_cast<uint32_t>(protocol::RingLayout::header_slot(entered.odd ? 1 : 0, 0));
  }
  const KernelArgs& args_;
  bool takes_part_;
  uint32_t peer_;
  Packet* to_;
  Packet* from_;
};

// Of the blocks that are in a cluster with block 0.
class NoWork {
 public:
  static constexpr bool kChecks = false;

  __device__ __forceinline__ explicit NoWork(const KernelArgs&) {}
  __device__ __forceinline__ bool prepare() const { return true; }
  template <bool>
  __device__ __forceinline__ void load() const {}
  __device__ __forceinline__ void send(const Entered&) const {}
  __device__ __forceinline__ void finish(const Entered&) const {}
};

// The kernel of a launch whose block 0 exchanges the headers, and whose blocks behind those of the headers have this
// body.
template <class Body, bool kProgrammatic, class... More>
__device__ __forceinline__ void run_beside_headers(const KernelArgs& args, More... more) {
  if (block_index() == 0) return run_in_launch<HeaderExchange, kProgrammatic>(args);
  if (block_index() < Body::MessagePart::header_blocks(args)) return run_in_launch<NoWork, kProgrammatic>(args);
  run_in_launch<Body, kProgrammatic>(args, more...);
}

}  // namespace nvrar::cuda
