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
constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;
constexpr uint64_t kRingGranularityBytes = kPageBytes;

static_assert(kMinRingBytes / 2 >= uint64_t{kMaxRanks} * kRunPackets * kPacketBytes,
              "the smallest epoch area holds one run of every rank");

// What the packet in a slot is for. Each hop has areas of its own, so every slot is written only once in an epoch.
enum class Hop : uint32_t {
  kData = 0,      // contributions, to the rank that sums or keeps them
  kResult = 1,    // finished sums, from their owner to all ranks
  kExchange = 2,  // partial sums, between nodes
};

// The fraction of ring_bytes that a ring of point-to-point has.
constexpr uint64_t kTransferRingShare = 16;
constexpr uint64_t kCacheLineSlots = 64 / kPacketBytes;

// The rings of one rank: [headers][epoch areas][sentinel areas][credits of each peer][transfers from each peer], with
// one area for each hop and parity. The packet kinds never share memory, because the payload of an epoch packet could
// look like an empty sentinel slot, or the other way round.
struct RingLayout {
  uint64_t ring_bytes;
  Topology topology;

  // Padded to a page, so that the areas start at a page boundary.
  static constexpr uint64_t kHeaderSlots = kPageBytes / kPacketBytes;
  static_assert(kHeaderSlots >= uint64_t{kParities} * kMaxRanks, "a header slot per (epoch parity, source)");

  static NVRAR_HD uint64_t header_slot(uint64_t epoch, uint32_t source) {
    return (epoch % kParities) * kMaxRanks + source;
  }

  // Only groups of several nodes have the exchange hop.
  NVRAR_HD uint32_t hops() const { return topology.is_one_node() ? 2 : 3; }
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
  NVRAR_HD uint64_t area_runs(PacketKind kind) const { return area_slots(kind) / kRunPackets; }
  NVRAR_HD uint64_t sentinel_begin() const { return area_begin(PacketKind::kSentinel, 0, Hop::kData); }
  NVRAR_HD uint64_t sentinel_end() const {
    return kHeaderSlots + areas() * (area_slots(PacketKind::kEpoch) + area_slots(PacketKind::kSentinel));
  }
  // Written by `reader`, in the memory of the rank that sends to it.
  NVRAR_HD uint64_t credit_slot(uint32_t reader) const { return sentinel_end() + reader * kCacheLineSlots; }
  NVRAR_HD uint64_t transfer_ring_slots() const { return ring_bytes / kTransferRingShare / kPacketBytes; }
  // Written by `source`, in the memory of the rank that it sends to.
  NVRAR_HD uint64_t transfer_ring_begin(uint32_t source) const {
    return sentinel_end() + kPageBytes / kPacketBytes + source * transfer_ring_slots();
  }
  static_assert(kPageBytes / kPacketBytes >= kMaxRanks * kCacheLineSlots, "a page holds a credit of every rank");
  NVRAR_HD uint64_t total_slots() const { return transfer_ring_begin(topology.world); }
  NVRAR_HD uint64_t total_bytes() const { return total_slots() * kPacketBytes; }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_RING_LAYOUT_H
