// Taking a packet out of an own slot, and emptying the slot for the next one.
#pragma once

#include "kernels/launch/entry.cuh"

namespace nvrar::cuda {

// Empties an own slot whose packet was taken. A relaxed store is enough, although a peer will store to the slot again.
// The peer does so two launches later at the earliest, and only after the header that this rank sends in its next
// launch. The launches of a group are in one order on a GPU, so that launch begins after this kernel has ended, which
// completes the kernel's stores (model/README.md, a rank's own clearing).
__device__ __forceinline__ void clear_packet(const KernelArgs& args, Packet* slot) {
  pass_moment(args, protocol::Moment::kClears, slot);
  if (protocol::planted(protocol::Defect::kKeptSlots)) return;
  store_packet(slot, protocol::SentinelPacket::empty());
}

// Takes a packet out of an own slot, and empties the slot if the next packet needs that. Kernels in teams await and
// clear apart: the sum, or what is done with the packet, comes between.
template <class Packets>
__device__ __forceinline__ bool take_packet(const KernelArgs& args, Packet* slot, uint32_t source, uint64_t epoch,
                                            Packet* packet) {
  if (!await<Packets>(args, slot, source, epoch, packet)) return false;
  if constexpr (Packets::kMustClear) clear_packet(args, slot);
  return true;
}

}  // namespace nvrar::cuda
