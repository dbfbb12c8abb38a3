// The 16-byte packets of the protocol. "protocol.md N" in this folder is invariant N of docs/concepts/protocol.md; this
// file is about number 1. Compiled for host and device, so nothing from std:: may be used here.
#ifndef NVRAR_PROTOCOL_PACKET_H
#define NVRAR_PROTOCOL_PACKET_H

#include <stdint.h>

#include "protocol/attributes.h"
#include "protocol/test_build.h"

namespace nvrar::protocol {

#if defined(__CUDACC__)
struct alignas(16) Packet {
  uint32_t words[4];
  NVRAR_HD uint32_t& operator[](int i) { return words[i]; }
  NVRAR_HD uint32_t operator[](int i) const { return words[i]; }
};
#else
// A register type: a struct of words would be written to memory between the packet's load and its use.
typedef uint32_t Packet __attribute__((vector_size(16)));
#endif
static_assert(sizeof(Packet) == 16 && alignof(Packet) == 16, "a packet is one atomic access");

constexpr uint32_t kPacketBytes = 16;
// How many packets are sent, awaited and summed together; on a GPU one for each lane of a warp.
constexpr uint32_t kRunPackets = 32;

enum class PacketKind : uint32_t { kEpoch = 0, kSentinel = 1, kMarked = 2 };

// 8 bytes of payload and 8 of epoch. It preserves all bits, and its slots need no clearing, because the next epoch of a
// slot is always another one than the last.
struct EpochPacket {
  static constexpr PacketKind kKind = PacketKind::kEpoch;
  static constexpr uint32_t kPayloadBytes = 8;
  static constexpr uint32_t kRunBytes = kRunPackets * kPayloadBytes;
  static constexpr bool kMustClear = false;

  static NVRAR_HD Packet seal(Packet payload, uint64_t epoch) {
    payload[2] = static_cast<uint32_t>(epoch);
    payload[3] = static_cast<uint32_t>(epoch >> 32);
    return payload;
  }
  static NVRAR_HD bool arrived(Packet packet, uint64_t epoch) {
    return packet[2] == static_cast<uint32_t>(epoch) && packet[3] == static_cast<uint32_t>(epoch >> 32);
  }
};

// 16 bytes of payload; an empty slot's last word is kEmptyWord. By themselves only for float reductions: in floats,
// that word is part of a NaN, so changing its payload bits changes no result (a NaN result has one canonical form,
// protocol.md 10). kFitsSentinels in element.h tells for which types this holds; the code that sums by these packets
// asserts it. Data of any type goes as MarkedPacket.
struct SentinelPacket {
  static constexpr PacketKind kKind = PacketKind::kSentinel;
  static constexpr uint32_t kPayloadBytes = 16;
  static constexpr uint32_t kRunBytes = kRunPackets * kPayloadBytes;
  static constexpr bool kMustClear = true;
  static constexpr uint32_t kEmptyWord = 0xFFFFFFFFu;
  static constexpr uint32_t kCanonicalWord = 0xFFFFFFFEu;  // still a NaN in every type that kFitsSentinels admits

  static NVRAR_HD Packet seal(Packet payload, uint64_t) {
    if (planted(Defect::kRawSentinels)) return payload;
#if defined(__CUDACC__)
    if (payload[3] == kEmptyWord) payload[3] = kCanonicalWord;
    return payload;
#else  // the same in one instruction: the unsigned minimum, which can change only the last word
    const Packet most = {kEmptyWord, kEmptyWord, kEmptyWord, kCanonicalWord};
    return payload < most ? payload : most;
#endif
  }
  static NVRAR_HD bool arrived(Packet packet, uint64_t) { return packet[3] != kEmptyWord; }
  static NVRAR_HD Packet empty() { return Packet{kEmptyWord, kEmptyWord, kEmptyWord, kEmptyWord}; }
};

// The mark of a run of marked packets: an epoch packet that tells which of them had kEmptyWord as their last word.
struct MarkPacket {
  static constexpr bool kMustClear = false;

  // replaced: bit i for packet i of the run.
  static NVRAR_HD Packet seal(uint32_t replaced, uint64_t epoch) {
    Packet payload{};
    payload[0] = replaced;
    return EpochPacket::seal(payload, epoch);
  }
  static NVRAR_HD bool arrived(Packet packet, uint64_t epoch) {
    return planted(Defect::kStaleMarks) || EpochPacket::arrived(packet, epoch);
  }
};

// Sentinel packets, in their slots, for data of any type: all bits survive. A packet whose last word looks like an
// empty slot is sent with kCanonicalWord instead. So a packet that arrives with that word is in doubt: it may have had
// either. If any packet of a run is in doubt, the sender sends the run's mark, too, and the receiver of a packet in
// doubt waits for it. So a mark is read if, and only if, it was sent, and a run of other data has none.
struct MarkedPacket {
  static constexpr PacketKind kKind = PacketKind::kMarked;
  static constexpr uint32_t kPayloadBytes = SentinelPacket::kPayloadBytes;
  static constexpr uint32_t kRunBytes = SentinelPacket::kRunBytes;
  static constexpr bool kMustClear = true;

  static NVRAR_HD Packet seal(Packet payload, uint64_t epoch) { return SentinelPacket::seal(payload, epoch); }
  static NVRAR_HD bool arrived(Packet packet, uint64_t epoch) { return SentinelPacket::arrived(packet, epoch); }
  static NVRAR_HD Packet empty() { return SentinelPacket::empty(); }
  static NVRAR_HD bool is_in_doubt(Packet packet) { return packet[3] == SentinelPacket::kCanonicalWord; }
  static NVRAR_HD bool is_replaced(Packet payload) { return payload[3] == SentinelPacket::kEmptyWord; }
  // The payload of a packet in doubt, which was packet i of its run.
  static NVRAR_HD Packet restore(Packet packet, Packet mark, uint32_t i) {
    if (!planted(Defect::kLostWords) && (mark[0] >> i & 1) != 0) packet[3] = SentinelPacket::kEmptyWord;
    return packet;
  }
};
static_assert(kRunPackets <= 32, "a mark has a bit for each packet of a run");

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_PACKET_H
