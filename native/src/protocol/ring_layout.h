// Where the slots of a rank's rings are (protocol.md 2). Slots are counted in packets from the start of the rings.
#ifndef NVRAR_PROTOCOL_RING_LAYOUT_H
#define NVRAR_PROTOCOL_RING_LAYOUT_H

#include "protocol/packet.h"
#include "protocol/topology.h"

namespace nvrar::protocol {

// Two are enough, because no rank is more than one epoch ahead of another (protocol.md 2, 3).
constexpr uint32_t kParities = 2;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMinRingBytes = 8192;
// Partial sums take more room: a rank that is alone in its node owns every slice, and 16-bit floats are sent as
// float32.
constexpr uint64_t kMinRingBytesOfNodes = 32768;
// In a larger group, a rank that is alone in its node owns eight slices, each with the sums of six levels (doubling.h);
// and an epoch area holds a run of every rank.
constexpr uint64_t kMinRingBytesOfManyNodes = 98304;
constexpr uint64_t kMinRingBytesPerRank = 1024;
constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;
constexpr uint64_t kRingGranularityBytes = kPageBytes;

static_assert(kMinRingBytes / 2 >= uint64_t{kMaxRanks} * kRunPackets * kPacketBytes &&
                  kMinRingBytesPerRank / 2 >= kRunPackets * kPacketBytes,
              "the smallest epoch area holds one run of every rank");

// The smallest ring_bytes of a group; nodes: whether it has several nodes.
constexpr uint64_t min_ring_bytes(uint32_t world, bool nodes) {
  if (world <= kMaxRanks) return nodes ? kMinRingBytesOfNodes : kMinRingBytes;
  const uint64_t of_ranks = (world * kMinRingBytesPerRank + kPageBytes - 1) / kPageBytes * kPageBytes;
  return of_ranks < kMinRingBytesOfManyNodes ? kMinRingBytesOfManyNodes : of_ranks;
}

// What the packet in a slot is for. Each hop has areas of its own, so every slot is written only once in an epoch.
enum class Hop : uint32_t {
  kData = 0,      // contributions, to the rank that sums or keeps them
  kResult = 1,    // finished sums, from their owner to all ranks
  kExchange = 2,  // partial sums, between nodes
};

// The fraction of ring_bytes that a ring of point-to-point has in a group of up to kMaxRanks ranks. In a larger group
// the rings of all pairs have together what they have in one of kMaxRanks, but each at least kMinTransferRingBytes.
constexpr uint64_t kTransferRingShare = 16;
constexpr uint64_t kMinTransferRingBytes = 8192;
constexpr uint64_t kCacheLineSlots = 64 / kPacketBytes;

// The rings of one rank: [headers][epoch areas][sentinel areas][credits of each rank][transfers from each rank], with
// one area for each hop and parity. The packet kinds never share memory, because the payload of an epoch packet could
// look like an empty sentinel slot, or the other way round.
struct RingLayout {
  uint64_t ring_bytes;
  Topology topology;
  // Whether ranks in one node may turn out to be in several once the hosts are known: then the areas are where several
  // nodes have them, so that what peers on this host have stored by then stays in its place. Never on a GPU.
  bool may_span = false;

  // Padded to a page, so that the areas start at a page boundary. They are [parity][source], then, for groups of more
  // than kMaxRanks ranks, [parity][node] and once more [parity][source] (call_header.h).
  static constexpr uint64_t kHeaderSlots = kPageBytes / kPacketBytes;
  static constexpr uint64_t kNodeHeaders = uint64_t{kParities} * kMaxRanks;
  static constexpr uint64_t kLastHeaders = kNodeHeaders + uint64_t{kParities} * kMaxNodes;
  static_assert(kHeaderSlots >= kLastHeaders + uint64_t{kParities} * kMaxRanks, "a page holds all headers");

  // source: the rank, in groups of more than kMaxRanks ranks its index in its node.
  static NVRAR_HD uint64_t header_slot(uint64_t epoch, uint32_t source) {
    return (epoch % kParities) * kMaxRanks + source;
  }
  static NVRAR_HD uint64_t node_header_slot(uint64_t epoch, uint32_t node) {
    return kNodeHeaders + (epoch % kParities) * kMaxNodes + node;
  }
  static NVRAR_HD uint64_t last_header_slot(uint64_t epoch, uint32_t source) {
    return kLastHeaders + (epoch % kParities) * kMaxRanks + source;
  }

  // Only groups of several nodes have the exchange hop.
#if defined(__CUDACC__)
  NVRAR_HD uint32_t hops() const { return topology.is_one_node() ? 2 : 3; }
#else
  uint32_t hops() const { return topology.is_one_node() && !may_span ? 2 : 3; }
#endif
  NVRAR_HD uint64_t area_slots(PacketKind kind) const {
    return (kind == PacketKind::kEpoch ? ring_bytes / 2 : ring_bytes) / kPacketBytes;
  }
  NVRAR_HD uint64_t areas() const { return uint64_t{kParities} * hops(); }
  NVRAR_HD uint64_t area_begin(PacketKind kind, uint64_t epoch, Hop hop) const {
    const uint64_t before = kind == PacketKind::kEpoch ? 0 : areas() * area_slots(PacketKind::kEpoch);
    if (planted(Defect::kSharedHops)) hop = Hop::kData;
    const uint64_t area = parity(epoch) * hops() + static_cast<uint32_t>(hop);
    return kHeaderSlots + before + area * area_slots(kind);
  }
  static NVRAR_HD uint64_t parity(uint64_t epoch) { return planted(Defect::kOneBuffer) ? 0 : epoch % kParities; }
  // The first slot of a run. Areas consist of runs of kRunPackets slots, which slices.h assigns.
  NVRAR_HD uint64_t slot(PacketKind kind, uint64_t epoch, Hop hop, uint64_t run) const {
    return area_begin(kind, epoch, hop) + run * kRunPackets;
  }
  // The mark of a run of marked packets, which lie where sentinel packets do. An epoch area has room for 16 times as
  // many packets as a sentinel area has for runs.
  NVRAR_HD uint64_t mark_slot(uint64_t epoch, Hop hop, uint64_t run) const {
    return area_begin(PacketKind::kEpoch, epoch, hop) + run;
  }
  NVRAR_HD uint64_t area_runs(PacketKind kind) const { return area_slots(kind) / kRunPackets; }
  NVRAR_HD uint64_t sentinel_begin() const { return area_begin(PacketKind::kSentinel, 0, Hop::kData); }
  NVRAR_HD uint64_t sentinel_end() const {
    return kHeaderSlots + areas() * (area_slots(PacketKind::kEpoch) + area_slots(PacketKind::kSentinel));
  }
  // Written by `reader`, in the memory of the rank that sends to it.
  NVRAR_HD uint64_t credit_slot(uint32_t reader) const { return sentinel_end() + reader * kCacheLineSlots; }
  NVRAR_HD uint64_t credit_slots() const {
    constexpr uint64_t kPageSlots = kPageBytes / kPacketBytes;
    if (!topology.is_large()) return kPageSlots;
    return (topology.world * kCacheLineSlots + kPageSlots - 1) / kPageSlots * kPageSlots;
  }
  NVRAR_HD uint64_t transfer_ring_slots() const {
    const uint64_t most = ring_bytes / kTransferRingShare;
    if (!topology.is_large()) return most / kPacketBytes;
    const uint64_t shared = most * kMaxRanks / topology.world;
    const uint64_t least = shared < kMinTransferRingBytes ? kMinTransferRingBytes : shared;
    return (least < most ? least : most) / kPacketBytes;
  }
  // Written by `source`, in the memory of the rank that it sends to.
  NVRAR_HD uint64_t transfer_ring_begin(uint32_t source) const {
    return sentinel_end() + credit_slots() + source * transfer_ring_slots();
  }
  NVRAR_HD uint64_t total_slots() const { return transfer_ring_begin(topology.world); }
  NVRAR_HD uint64_t total_bytes() const { return total_slots() * kPacketBytes; }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_RING_LAYOUT_H
