#include "cpu/remote_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "control/doorbell.h"
#include "cpu/packet_access.h"

namespace nvrar::cpu {
namespace {

using link::FrameHead;
using link::FrameKind;
using protocol::EpochPacket;
using protocol::Hop;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::SentinelPacket;

constexpr uint64_t kLearnNs = 100'000'000;
constexpr useconds_t kLearnPollUs = 100;

// The slots that a frame writes.
struct Place {
  uint64_t slot;
  uint64_t packets;
  bool is_in(uint64_t begin, uint64_t slots) const noexcept { return slot >= begin && slot + packets <= begin + slots; }
};

template <class Packets>
uint64_t packets_of(const FrameHead& head) noexcept {
  return (head.bytes + Packets::kPayloadBytes - 1) / Packets::kPayloadBytes;
}

// Calls visit(number, packet) for the packets of a payload. Nearly all are whole, and copied without a call of memcpy.
template <class Packets, class Visit>
void each_packet(const uint8_t* payload, uint32_t bytes, Visit visit) noexcept {
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

}  // namespace

void RemoteRanks::open(control::GroupSegments* segments, const RingLayout& layout) noexcept {
  segments_ = segments;
  layout_ = layout;
  epoch_.store(protocol::first_epoch() - 1);
}

void RemoteRanks::connect(const Digest& secret, const std::vector<link::Remote>& remotes, uint64_t deadline_ns) {
  const link::Identity self{segments_->rank(), segments_->own().group_hash, secret};
  const auto ended = [&] { return segments_->poisoned().status != NVRAR_OK; };
  links_.connect(self, remotes, layout_.topology.world, encrypted_, deadline_ns, ended, this);
}

void RemoteRanks::tell(const control::Poison& poison) noexcept {
  const State state = own_state();
  const uint64_t word = poison.pack();
  links_.tell_all(FrameKind::kState, &state, sizeof state);
  links_.tell_all(FrameKind::kPoison, &word, sizeof word);
}

void RemoteRanks::tell_last() noexcept {
  const State state = own_state();
  links_.tell_all(FrameKind::kState, &state, sizeof state);
}

void RemoteRanks::learn(bool wait) noexcept {
  std::array<uint32_t, protocol::kMaxRanks> before;
  for (uint32_t rank = 0; rank < segments_->world(); ++rank) before[rank] = answers_[rank].load();
  links_.tell_all(FrameKind::kAsk, nullptr, 0);
  if (!wait) return;
  const auto all_answered = [&] {
    for (uint32_t rank = 0; rank < segments_->world(); ++rank) {
      if (links_.to(rank) != nullptr && !links_.has_ended(rank) && answers_[rank].load() == before[rank]) return false;
    }
    return true;
  };
  const uint64_t until_ns = control::monotonic_ns() + kLearnNs;
  while (!all_answered() && control::monotonic_ns() < until_ns) {
    if (links_.look()) settled();
    ::usleep(kLearnPollUs);
  }
}

nvrar_link RemoteRanks::link_of(uint32_t rank) const noexcept {
  nvrar_link known{sizeof known, NVRAR_LINK_NONE, "", ""};
  const link::Link* const link = links_.to(rank);
  if (link == nullptr) return known;
  known.state = segments_->closed(rank) ? NVRAR_LINK_CLOSED : link->has_ended() ? NVRAR_LINK_BROKEN : NVRAR_LINK_OPEN;
  link->local().write(known.local, sizeof known.local);
  link->remote().write(known.remote, sizeof known.remote);
  return known;
}

RemoteRanks::State RemoteRanks::own_state() const noexcept {
  const control::ControlBlock& own = segments_->own();
  State state{};
  state.waits_for = own.waits_for.load(std::memory_order_acquire);
  const uint64_t looked_ns = own.looked_ns.load(std::memory_order_acquire);  // first: the other is then not before it
  state.looked_ago_ns = control::monotonic_ns() - looked_ns;
  state.call = segments_->call_of(segments_->rank());
  return state;
}

void RemoteRanks::note(uint32_t source, const State& state) noexcept {
  control::ControlBlock& theirs = segments_->control(source);
  theirs.waits_for.store(static_cast<uint32_t>(state.waits_for), std::memory_order_release);
  const uint64_t now_ns = control::monotonic_ns();
  theirs.looked_ns.store(state.looked_ago_ns < now_ns ? now_ns - state.looked_ago_ns : 0, std::memory_order_release);
  nvrar_call call = state.call;
  call.begin_ns = call.end_ns = 0;  // by another host's clock
  Known& known = known_[source];
  nvrar_call as_before = call;
  as_before.state = known.call.state;
  if (std::memcmp(&as_before, &known.call, sizeof call) != 0) {
    // What the rank was in before has ended, or it would be in it still.
    if (known.call.state != NVRAR_CALL_NONE) theirs.flight.end_unless_failed(known.number, NVRAR_CALL_DONE);
    if (call.state != NVRAR_CALL_NONE) known.number = theirs.flight.begin(call, call.state);
  } else if (call.state != known.call.state) {
    theirs.flight.end(known.number, call.state);
  }
  known.call = call;
  answers_[source].fetch_add(1);
}

const char* RemoteRanks::take(link::Link& from, const FrameHead& head, const uint8_t* payload) noexcept {
  const uint32_t source = from.peer();
  switch (head.kind) {
    case FrameKind::kPackets:
    case FrameKind::kNumbered:
      return store(source, head, payload);
    case FrameKind::kAsk: {
      if (head.bytes != 0) return "a question with a payload";
      if (from.is_stuffed()) return nullptr;  // else questions of a rank that reads nothing would fill the memory
      const State state = own_state();
      from.put(FrameKind::kState, 0, 0, &state, sizeof state);
      from.flush();
      if (from.is_behind()) links_.flush();  // has the thread of the links go on with it
      return nullptr;
    }
    case FrameKind::kState: {
      State state;
      if (head.bytes != sizeof state) return "a state of another size";
      std::memcpy(&state, payload, sizeof state);
      note(source, state);
      return nullptr;
    }
    case FrameKind::kPoison: {
      uint64_t word = 0;
      if (head.bytes != sizeof word) return "a poison word of another size";
      std::memcpy(&word, payload, sizeof word);
      if (word == 0) return "a poison word without a failure";
      segments_->poison(control::Poison::unpack(word));
      return nullptr;
    }
    case FrameKind::kGoodbye:
      if (head.bytes != 0) return "a goodbye with a payload";
      segments_->control(source).closed.store(1);
      return nullptr;
  }
  return "a frame of no kind";
}

const char* RemoteRanks::store(uint32_t source, const FrameHead& head, const uint8_t* payload) noexcept {
  if (head.bytes == 0) return "packets without a payload";
  const bool numbered = head.kind == FrameKind::kNumbered;
  Place place{head.slot, packets_of<EpochPacket>(head)};
  bool sentinel = false;
  if (numbered) {
    const bool whole = head.bytes % EpochPacket::kPayloadBytes == 0;
    const bool owned = place.is_in(layout_.transfer_ring_begin(source), layout_.transfer_ring_slots()) ||
                       place.is_in(layout_.credit_slot(source), 1);
    if (!whole || !owned) return "numbered packets for slots that are not the sender's";
  } else {
    const uint64_t epoch = epoch_.load(std::memory_order_acquire);
    if (head.epoch != epoch && head.epoch != epoch + 1) return "packets of an epoch that is not near";
    const auto area = [&](PacketKind kind) { return layout_.area_begin(kind, head.epoch, Hop::kData); };
    const auto slots = [&](PacketKind kind) { return layout_.hops() * layout_.area_slots(kind); };
    if (!place.is_in(RingLayout::header_slot(head.epoch, source), 1) &&
        !place.is_in(area(PacketKind::kEpoch), slots(PacketKind::kEpoch))) {
      place.packets = packets_of<SentinelPacket>(head);
      sentinel = place.is_in(area(PacketKind::kSentinel), slots(PacketKind::kSentinel));
      if (!sentinel) return "packets for slots that are not of their epoch";
    }
  }
  protocol::Packet* const rings = segments_->rings(segments_->rank());
  [[maybe_unused]] const uint64_t rings_name = segments_->own().owner_base + control::kControlBytes;
  const auto put = [&](uint64_t i, protocol::Packet packet) {
    announce_packet_sent(rings_name + (place.slot + i) * protocol::kPacketBytes);
    store_packet(rings + place.slot + i, packet);
  };
  if (sentinel) {
    each_packet<SentinelPacket>(payload, head.bytes, [&](uint64_t i, protocol::Packet packet) {
      put(i, SentinelPacket::seal(packet, head.epoch));
    });
  } else {
    each_packet<EpochPacket>(payload, head.bytes, [&](uint64_t i, protocol::Packet packet) {
      put(i, EpochPacket::seal(packet, numbered ? head.epoch + i : head.epoch));
    });
  }
  return nullptr;
}

void RemoteRanks::broke(uint32_t source) noexcept {
  if (segments_->closed(source)) return;
  const control::Poison lost{NVRAR_PEER_LOST, segments_->rank(), static_cast<uint8_t>(1u << source), 0};
  segments_->poison(lost);
  tell(segments_->poisoned());
}

void RemoteRanks::settled() noexcept {
  full_fence();
  control::wake_if_asleep(segments_->own());
}

}  // namespace nvrar::cpu
