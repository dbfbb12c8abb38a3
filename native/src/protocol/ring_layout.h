// Where the slots of a rank's rings are (protocol.md 2). Slots are counted in packets from the start of the rings.
#ifndef NVRAR_PROTOCOL_RING_LAYOUT_H
#define NVRAR_PROTOCOL_RING_LAYOUT_H

#include "protocol/packet.h"

namespace nvrar::protocol {

constexpr uint32_t kMaxRanks = 8;
// K = 2 of protocol.md 2: no rank is more than one epoch ahead of another.
constexpr uint32_t kParities = 2;
#if defined(NVRAR_TEST_ONE_BUFFER)  // a negative control: then a rank that is ahead overwrites what was not read yet
constexpr uint32_t kDataParities = 1;
#else
constexpr uint32_t kDataParities = kParities;
#endif
constexpr uint32_t kGroupVectors = 32;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMinRingBytes = 8192;
constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;
constexpr uint64_t kRingGranularityBytes = kPageBytes;

static_assert(kMinRingBytes / 2 >= uint64_t{kMaxRanks} * kGroupVectors * kPacketBytes,
              "the smallest epoch area holds one group of every rank");

// Rings of one rank: [headers][epoch area, parity 0][parity 1][sentinel area, parity 0][parity 1].
// Kinds never share bytes: an epoch packet's payload could look like an empty sentinel slot, or the other way round.
struct RingLayout {
  uint64_t ring_bytes;
  uint32_t world;

  // Padded to a page, so that the areas begin on one.
  static constexpr uint64_t kHeaderSlots = kPageBytes / kPacketBytes;
  static_assert(kHeaderSlots >= uint64_t{kParities} * kMaxRanks, "a header slot per (epoch parity, source)");

  static NVRAR_HD uint64_t header_slot(uint64_t epoch, uint32_t source) {
    return (epoch % kParities) * kMaxRanks + source;
  }

  NVRAR_HD uint64_t area_slots(PacketKind kind) const {
    return (kind == PacketKind::kEpoch ? ring_bytes / 2 : ring_bytes) / kPacketBytes;
  }
  NVRAR_HD uint64_t area_begin(PacketKind kind, uint64_t epoch) const {
    const uint64_t before = kind == PacketKind::kEpoch ? 0 : kDataParities * area_slots(PacketKind::kEpoch);
    return kHeaderSlots + before + (epoch % kDataParities) * area_slots(kind);
  }
  // First of the kGroupVectors slots that `source` fills for vectors [group * kGroupVectors, ...).
  NVRAR_HD uint64_t run_begin(PacketKind kind, uint64_t epoch, uint64_t group, uint32_t source) const {
    return area_begin(kind, epoch) + (group * world + source) * kGroupVectors;
  }
  NVRAR_HD uint64_t slot(PacketKind kind, uint64_t epoch, uint64_t vector, uint32_t source) const {
    return run_begin(kind, epoch, vector / kGroupVectors, source) + vector % kGroupVectors;
  }
  NVRAR_HD uint64_t vectors_per_launch(PacketKind kind) const {
    return area_slots(kind) / (uint64_t{world} * kGroupVectors) * kGroupVectors;
  }
  NVRAR_HD uint64_t total_slots() const {
    return kHeaderSlots + kDataParities * (area_slots(PacketKind::kEpoch) + area_slots(PacketKind::kSentinel));
  }
  NVRAR_HD uint64_t sentinel_begin() const { return area_begin(PacketKind::kSentinel, 0); }
  NVRAR_HD uint64_t total_bytes() const { return total_slots() * kPacketBytes; }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_RING_LAYOUT_H
