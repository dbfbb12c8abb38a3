// Exchanges the headers of a launch (protocol/call_header.h), with one thread for each peer.
#pragma once

#include "kernels/entry.cuh"
#include "protocol/call_header.h"

namespace nvrar::cuda {

// The addresses are computed before the launch's number is known; the number only selects one of two slots.
class HeaderExchange {
 public:
  HeaderExchange() = default;
  __device__ __forceinline__ HeaderExchange(const KernelArgs& args, uint32_t peer)
      : to_(args.rings[peer] + protocol::RingLayout::header_slot(0, args.launch.rank)),
        from_(args.rings[args.launch.rank] + protocol::RingLayout::header_slot(0, peer)) {}
  __device__ __forceinline__ void send(const KernelArgs& args, uint64_t epoch) const {
    send_packet(args, to_ + of(epoch), protocol::header_packet(args.launch.header_hash, epoch));
  }
  __device__ __forceinline__ bool check(const KernelArgs& args, uint32_t peer, uint64_t epoch) const {
    if (protocol::planted(protocol::Defect::kNoHeaderWait)) return true;
    Packet packet;
    if (!await<protocol::EpochPacket>(args, from_ + of(epoch), peer, epoch, &packet)) return false;
    if (protocol::is_same_call(packet, args.launch.header_hash)) return true;
    fail(args, FailureKind::kMismatch, 1u << peer);
    return false;
  }

 private:
  static __device__ __forceinline__ uint32_t of(uint64_t epoch) {
    return static_cast<uint32_t>(protocol::RingLayout::header_slot(epoch, 0));
  }
  Packet* to_;
  Packet* from_;
};

}  // namespace nvrar::cuda
