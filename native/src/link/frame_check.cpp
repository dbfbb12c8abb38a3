#include "link/frame_check.h"

#include "protocol/call_header.h"

namespace nvrar::link {
namespace {

using protocol::EpochPacket;
using protocol::Hop;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::SentinelPacket;

constexpr uint64_t kNoSlot = uint64_t{1} << 40;  // more than a frame can name

// How many slots a frame's packets take, from the first to the last.
template <class Packets>
uint64_t slots_of(const FrameHead& head) noexcept {
  const uint64_t packets = (head.bytes + Packets::kPayloadBytes - 1) / Packets::kPayloadBytes;
  if (head.stride == 0 || packets == 0) return packets;
  const uint64_t runs_before = (packets - 1) / protocol::kRunPackets;
  return runs_before * head.stride + (packets - 1) % protocol::kRunPackets + 1;
}

// Of a large group's headers only those between nodes cross links, from one rank of each node.
uint64_t header_slot_of(const protocol::Topology& topology, uint32_t rank, uint32_t source, uint64_t epoch) noexcept {
  if (!topology.is_large()) return RingLayout::header_slot(epoch, source);
  const uint32_t own = topology.node_of(rank);
  const uint32_t theirs = topology.node_of(source);
  const bool is_teller =
      source == protocol::teller_of(topology, theirs, own) && rank == protocol::teller_of(topology, own, theirs);
  return is_teller ? RingLayout::node_header_slot(epoch, theirs) : kNoSlot;
}

}  // namespace

const char* check_packets(const RingLayout& layout, uint32_t rank, uint64_t epoch, uint32_t source,
                          const FrameHead& head, Place* place) noexcept {
  if (head.bytes == 0) return "packets without a payload";
  *place = {head.slot, slots_of<EpochPacket>(head), PacketKind::kEpoch};
  const auto is_in = [&](uint64_t begin, uint64_t size) {
    return place->slot >= begin && place->slot + place->slots <= begin + size;
  };
  if (head.kind == FrameKind::kNumbered) {
    const bool whole = head.bytes % EpochPacket::kPayloadBytes == 0;
    const bool owned =
        is_in(layout.transfer_ring_begin(source), layout.transfer_ring_slots()) || is_in(layout.credit_slot(source), 1);
    return whole && owned ? nullptr : "numbered packets for slots that are not the sender's";
  }
  if (head.epoch != epoch && head.epoch != epoch + 1) return "packets of an epoch that is not near";
  if (head.stride != 0 && head.stride < protocol::kRunPackets) return "runs that overlap";
  const auto is_in_areas = [&](PacketKind kind) {
    return is_in(layout.area_begin(kind, head.epoch, Hop::kData), layout.hops() * layout.area_slots(kind));
  };
  if (is_in(header_slot_of(layout.topology, rank, source, head.epoch), 1) || is_in_areas(PacketKind::kEpoch))
    return nullptr;
  *place = {head.slot, slots_of<SentinelPacket>(head), PacketKind::kSentinel};
  return is_in_areas(PacketKind::kSentinel) ? nullptr : "packets for slots that are not of their epoch";
}

}  // namespace nvrar::link
