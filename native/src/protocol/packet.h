// The 16-byte packets of the protocol. "protocol.md N" in this folder is invariant N of docs/protocol.md; this file is
// about number 1. Compiled for host and device, so nothing from std:: may be used here.
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

enum class PacketKind : uint32_t { kEpoch = 0, kSentinel = 1 };

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

// 16 bytes of payload; an empty slot's last word is kEmptyWord. Only for float reductions: in floats, that word is part
// of a NaN, so changing its payload bits changes no result (a NaN result has one canonical form, protocol.md 10).
// kFitsSentinels in element.h tells for which types this holds; the code that sums by these packets asserts it.
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

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_PACKET_H
