// The Port of a warp (protocol/launch.h describes Ports): each thread of the warp holds one packet of a run in
// registers. All threads of the warp call every function together, with the same arguments.
#pragma once

#include "kernels/launch/marked_packets.cuh"
#include "kernels/launch/take_and_clear.cuh"
#include "kernels/steps/sum.cuh"
#include "protocol/launch.h"

namespace nvrar::cuda {

using protocol::Peers;
using protocol::Sources;

// Sums: the arithmetic of the reduction (sum.cuh), or NoSums if there is none.
template <class Sums>
class WarpPort {
 public:
  struct Run {
    Packet payload;
  };
  using Partial = typename Sums::Partial;

  __device__ WarpPort(const KernelArgs& args, const protocol::Topology& topology, uint32_t rank)
      : args_(args), topology_(topology), own_(args.rings[rank]), lane_(threadIdx.x % kWarpThreads) {}

  __device__ uint64_t worker() const {
    return block_index() * (blockDim.x / kWarpThreads) + threadIdx.x / kWarpThreads;
  }
  __device__ uint64_t workers() const { return uint64_t{grid_blocks()} * (blockDim.x / kWarpThreads); }

  template <class Packets>
  __device__ Run load(const uint8_t* from, uint32_t bytes) {
    const uint32_t offset = lane_ * Packets::kPayloadBytes;
    if (offset >= bytes) return {};
    return {load_user<Packets::kPayloadBytes>(from + offset, part<Packets>(offset, bytes))};
  }

  template <class Packets>
  __device__ void push(const Peers& peers, uint64_t slot, const Run& run, uint32_t bytes, uint64_t epoch) {
    if (lane_ * Packets::kPayloadBytes >= bytes) return;
    const Packet packet = Packets::seal(run.payload, epoch);
    for (uint32_t i = 0; i < peers.count(); ++i) send_packet(args_, args_.rings[peers[i]] + slot + lane_, packet);
  }

  template <class Packets>
  __device__ bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch) {
    const uint32_t offset = lane_ * Packets::kPayloadBytes;
    bool came = true;
    if (offset < bytes) {
      Packet packet;
      came = take_own<Packets>(slot, source, epoch, &packet);
      if (came) store_user<Packets::kPayloadBytes>(to + offset, packet, part<Packets>(offset, bytes));
    }
    return __all_sync(~0u, came);
  }

  // Votes are of whole warps: lanes without bytes have a payload of zeros.
  __device__ void push_marked(const Peers& peers, uint64_t slot, uint64_t mark_slot, const Run& run, uint32_t bytes,
                              uint64_t epoch) {
    const Packet packet = MarkedPacket::seal(run.payload, epoch);
    const bool needs_mark = __any_sync(~0u, MarkedPacket::is_in_doubt(packet)) != 0;
    const Packet mark = MarkPacket::seal(__ballot_sync(~0u, MarkedPacket::is_replaced(run.payload)), epoch);
    for (uint32_t i = 0; i < peers.count(); ++i) {
      Packet* const rings = args_.rings[peers[i]];
      if (lane_ * MarkedPacket::kPayloadBytes < bytes) send_packet(args_, rings + slot + lane_, packet);
      if (needs_mark && lane_ == 0) send_packet(args_, rings + mark_slot, mark);
    }
  }
  __device__ bool drain_marked(uint64_t slot, uint64_t mark_slot, uint32_t source, uint8_t* to, uint32_t bytes,
                               uint64_t epoch) {
    const uint32_t offset = lane_ * MarkedPacket::kPayloadBytes;
    bool came = true;
    if (offset < bytes) {
      Packet packet;
      came = take_marked(args_, own_ + slot + lane_, own_ + mark_slot, source, epoch, &packet);
      if (came) store_user<MarkedPacket::kPayloadBytes>(to + offset, packet, part<MarkedPacket>(offset, bytes));
    }
    return __all_sync(~0u, came);
  }

  template <class Packets>
  __device__ bool reduce(const Sources& sources, const Run& own, uint8_t* to, uint32_t bytes, uint64_t epoch,
                         Run* result) {
    const uint32_t offset = lane_ * Packets::kPayloadBytes;
    bool came = true;
    if (offset < bytes) {
      Sums sums(args_.op, topology_);
      for (uint32_t turn = 0; came && turn < sources.count; ++turn) {
        const uint32_t i = protocol::source_in_turn(turn, sources.own);
        Packet packet = own.payload;
        if (i != sources.own) {
          came = take_own<Packets>(sources.slot_of(i), sources.first + i, epoch, &packet);
        }
        sums.add(packet);
      }
      if (came) {
        result->payload = sums.result();
        store_user<Packets::kPayloadBytes>(to + offset, result->payload, part<Packets>(offset, bytes));
      }
    }
    return __all_sync(~0u, came);
  }

  template <class Packets>
  __device__ bool node_sum(const Sources& sources, const Run& own, uint32_t bytes, uint64_t epoch, Partial* partial) {
    bool came = true;
    if (lane_ * Packets::kPayloadBytes < bytes) {
      Sums sums(args_.op, {sources.count, sources.count});
      for (uint32_t i = 0; came && i < sources.count; ++i) {
        Packet packet = own.payload;
        if (i != sources.own) {
          came = take_own<Packets>(sources.slot_of(i), sources.first + i, epoch, &packet);
        }
        sums.add(packet);
      }
      *partial = sums.partial();
    }
    return __all_sync(~0u, came);
  }

  // Part by part, so that a warp accesses adjacent addresses.
  template <class Packets>
  __device__ void push_partial(uint32_t peer, uint64_t slot, const Partial& partial, uint32_t bytes, uint64_t epoch) {
    if (lane_ * Packets::kPayloadBytes >= bytes) return;
#pragma unroll
    for (uint32_t i = 0; i < Sums::kParts; ++i) {
      send_packet(args_, args_.rings[peer] + slot + i * kWarpThreads + lane_, Packets::seal(partial.packets[i], epoch));
    }
  }
  template <class Packets>
  __device__ bool take_partial(uint64_t slot, uint32_t source, uint32_t bytes, uint64_t epoch, Partial* partial) {
    bool came = true;
    if (lane_ * Packets::kPayloadBytes < bytes) {
#pragma unroll
      for (uint32_t i = 0; i < Sums::kParts; ++i) {
        came = came && take_own<Packets>(slot + i * kWarpThreads, source, epoch, &partial->packets[i]);
      }
    }
    return __all_sync(~0u, came);
  }
  __device__ void finish(const Partial* of_nodes, uint8_t* to, uint32_t bytes, Run* result) {
    const uint32_t offset = lane_ * Sums::kPayloadBytes;
    if (offset >= bytes) return;
    result->payload = Sums::of_nodes(args_.op, topology_, of_nodes);
    store_user<Sums::kPayloadBytes>(to + offset, result->payload,
                                    bytes - offset < Sums::kPayloadBytes ? bytes - offset : Sums::kPayloadBytes);
  }

  __device__ void soon_pushed(const Peers&, uint64_t) {}
  template <class Packets>
  __device__ void soon_taken(uint64_t) {}

  __device__ void put(uint32_t peer, uint64_t slot, const Packet& packet) {
    if (lane_ == 0) send_packet(args_, args_.rings[peer] + slot, packet);
  }
  // All threads receive the packet.
  template <class Packets>
  __device__ bool take(uint64_t slot, uint32_t source, uint64_t epoch, Packet* packet) {
    const bool came = await<Packets>(args_, own_ + slot, source, epoch, packet);
    static_assert(!Packets::kMustClear);
    return __all_sync(~0u, came);
  }

  __device__ void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    copy_part(worker(), workers(), to, from, bytes);
  }
  __device__ void sent() {}
  __device__ void sent_within_node() {}
  __device__ void differ(uint32_t source) {
    if (lane_ == 0) fail(args_, FailureKind::kMismatch, 1u << source);
  }

 protected:
  template <class Packets>
  static __device__ uint32_t part(uint32_t offset, uint32_t bytes) {
    return bytes - offset < Packets::kPayloadBytes ? bytes - offset : Packets::kPayloadBytes;
  }

  __device__ void copy_part(uint64_t worker, uint64_t workers, uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (to == from) return;
    constexpr uint64_t kStep = protocol::kPacketBytes;
    for (uint64_t at = (worker * kWarpThreads + lane_) * kStep; at < bytes; at += workers * kWarpThreads * kStep) {
      const uint32_t length = static_cast<uint32_t>(bytes - at < kStep ? bytes - at : kStep);
      store_user<kStep>(to + at, load_user<kStep>(from + at, length), length);
    }
  }

  // Takes this thread's packet of a run out of its slot.
  template <class Packets>
  __device__ bool take_own(uint64_t slot, uint32_t source, uint64_t epoch, Packet* packet) {
    return take_packet<Packets>(args_, own_ + slot + lane_, source, epoch, packet);
  }

  const KernelArgs& args_;
  protocol::Topology topology_;
  Packet* own_;
  uint32_t lane_;
};

}  // namespace nvrar::cuda
