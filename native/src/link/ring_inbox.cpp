#include "link/ring_inbox.h"

#include <algorithm>
#include <cstring>

#include "shared/packet_access.h"

namespace nvrar::link {
namespace {

using protocol::EpochPacket;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::SentinelPacket;

// Calls visit(number, packet) for the packets of a payload. Nearly all are whole, and copied without a call of memcpy.
template <class Packets, class Visit>
__attribute__((always_inline)) inline void each_packet(const uint8_t* payload, uint32_t bytes, Visit visit) noexcept {
  constexpr uint32_t kBytes = Packets::kPayloadBytes;
  const uint32_t whole = bytes / kBytes;
  for (uint32_t i = 0; i < whole; ++i) {
    protocol::Packet packet{};
    __builtin_memcpy(&packet, payload + uint64_t{i} * kBytes, kBytes);
    visit(i, packet);
  }
  if (const uint32_t rest = bytes % kBytes; rest != 0) {
    protocol::Packet packet{};
    std::memcpy(&packet, payload + uint64_t{whole} * kBytes, rest);
    visit(whole, packet);
  }
}

// Calls visit(slot, packet) for the packets of a frame of one epoch, with slots counted from the frame's first.
template <class Packets, class Visit>
void each_run(const FrameHead& head, const uint8_t* payload, Visit visit) noexcept {
  const uint32_t run_bytes = head.stride == 0 ? head.bytes : Packets::kRunBytes;
  uint64_t slot = 0;
  for (uint32_t at = 0; at < head.bytes; at += run_bytes, slot += head.stride) {
    each_packet<Packets>(payload + at, std::min(run_bytes, head.bytes - at), [&](uint64_t i, protocol::Packet packet) {
      visit(slot + i, Packets::seal(packet, head.epoch));
    });
  }
}

}  // namespace

void RingInbox::open(shared::GroupSegments* segments, const RingLayout& layout) noexcept {
  segments_ = segments;
  layout_ = layout;
  talk_.open(segments);
  epoch_.store(protocol::first_epoch() - 1);
}

const char* RingInbox::check(uint32_t source, const FrameHead& head, Place* place) const noexcept {
  return check_packets(layout_, segments_->rank(), epoch_.load(std::memory_order_acquire), source, head, place);
}

Destination RingInbox::where(Link& from, const FrameHead& head) noexcept {
  if (head.kind == FrameKind::kChunk) return Destination::refused("a chunk, which the ranks of this group do not send");
  if (!is_data(head.kind)) return Destination::link();
  Place place;
  const char* const why = check(from.peer(), head, &place);
  return why == nullptr ? Destination::link() : Destination::refused(why);
}

const char* RingInbox::take(Link& from, const FrameHead& head, const uint8_t* payload) noexcept {
  return is_data(head.kind) ? store(from.peer(), head, payload) : talk_.take(from, head, payload);
}

const char* RingInbox::store(uint32_t source, const FrameHead& head, const uint8_t* payload) noexcept {
  Place place;
  // Again, because this rank may have begun another launch since.
  if (const char* const why = check(source, head, &place)) return why;
  protocol::Packet* const rings = segments_->rings(segments_->rank());
  [[maybe_unused]] const uint64_t rings_name = segments_->own().owner_base + shared::kControlBytes;
  const auto put = [&](uint64_t i, protocol::Packet packet) {
    shared::announce_packet_sent(rings_name + (place.slot + i) * protocol::kPacketBytes);
    shared::store_packet(rings + place.slot + i, packet);
  };
  if (head.kind == FrameKind::kNumbered) {
    each_packet<EpochPacket>(payload, head.bytes, [&](uint64_t i, protocol::Packet packet) {
      put(i, EpochPacket::seal(packet, head.epoch + i));
    });
  } else if (place.kind == PacketKind::kSentinel) {
    each_run<SentinelPacket>(head, payload, put);
  } else {
    each_run<EpochPacket>(head, payload, put);
  }
  return nullptr;
}

}  // namespace nvrar::link
