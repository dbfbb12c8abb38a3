// The header packet. Every launch sends one to each peer and consumes data only after it has received one from each
// peer. It is the evidence that protocol.md 3 requires (every rank has entered this epoch, so no rank runs ahead) and
// the check of protocol.md 13.
#ifndef NVRAR_PROTOCOL_CALL_HEADER_H
#define NVRAR_PROTOCOL_CALL_HEADER_H

#include "protocol/launch.h"

namespace nvrar::protocol {

struct CallSignature {
  uint64_t sequence;  // the call's number in its communicator: a rank one call off differs
  int32_t collective;
  int32_t data_type;
  int32_t op;
  int32_t root;
  uint64_t count;  // elements of the whole call, not of the launch
  uint32_t algorithm;
  PacketKind packet_kind;
  uint64_t elements_per_launch;
};

NVRAR_HD uint32_t hash_step(uint32_t hash, uint32_t word) {  // murmur3's block step
  word *= 0xCC9E2D51u;
  word = (word << 15) | (word >> 17);
  hash ^= word * 0x1B873593u;
  hash = (hash << 13) | (hash >> 19);
  return hash * 5u + 0xE6546B64u;
}

NVRAR_HD uint32_t header_hash(const CallSignature& call) {
  uint32_t hash = 0;
  hash = hash_step(hash, static_cast<uint32_t>(call.sequence));
  hash = hash_step(hash, static_cast<uint32_t>(call.sequence >> 32));
  hash = hash_step(hash, static_cast<uint32_t>(call.collective));
  hash = hash_step(hash, static_cast<uint32_t>(call.data_type));
  if (!planted(Defect::kHashWithoutOp)) hash = hash_step(hash, static_cast<uint32_t>(call.op));
  hash = hash_step(hash, static_cast<uint32_t>(call.root));
  if (!planted(Defect::kHashWithoutCount)) {
    hash = hash_step(hash, static_cast<uint32_t>(call.count));
    hash = hash_step(hash, static_cast<uint32_t>(call.count >> 32));
  }
  hash = hash_step(hash, call.algorithm);
  hash = hash_step(hash, static_cast<uint32_t>(call.packet_kind));
  hash = hash_step(hash, static_cast<uint32_t>(call.elements_per_launch));
  hash = hash_step(hash, static_cast<uint32_t>(call.elements_per_launch >> 32));
  hash ^= hash >> 16;
  hash *= 0x85EBCA6Bu;
  hash ^= hash >> 13;
  hash *= 0xC2B2AE35u;
  return hash ^ (hash >> 16);
}

NVRAR_HD Packet header_packet(uint32_t hash, uint64_t epoch) {
  Packet payload{};
  payload[0] = hash;
  return EpochPacket::seal(payload, epoch);
}
// Whether the rank that sent this header is in the same call.
NVRAR_HD bool is_same_call(const Packet& header, uint32_t hash) { return header[0] == hash; }

// Headers follow the data. On a host with total store order, a header then shows that the data has arrived, too, so a
// receiver that shares its core with the sender wakes only once. Nothing may depend on this order: device memory does
// not keep it, and a test build sends the headers first.
#if defined(NVRAR_TEST_ADVERSE)
constexpr bool kHeadersFirst = true;
#else
constexpr bool kHeadersFirst = false;
#endif

template <class Port>
NVRAR_HD void send_headers(Port& port, const Launch& launch) {
  if (port.worker() != 0) return;
  const uint64_t slot = RingLayout::header_slot(launch.epoch, launch.rank);
  const Packet packet = header_packet(launch.header_hash, launch.epoch);
  const Peers peers = Peers::all(launch);
  for (uint32_t i = 0; i < peers.count(); ++i) port.put(peers[i], slot, packet);
}

// One worker checks for all workers, because a rank has exited a launch only when all its workers have. It checks all
// headers even if one differs, so that every rank is told of every difference.
template <class Port>
NVRAR_HD bool check_headers(Port& port, const Launch& launch) {
  if (planted(Defect::kNoHeaderWait) || port.worker() != 0) return true;
  bool same = true;
  const Peers peers = Peers::all(launch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    const uint32_t source = peers[i];
    Packet packet;
    if (!port.template take<EpochPacket>(RingLayout::header_slot(launch.epoch, source), source, launch.epoch,
                                         &packet)) {
      return false;
    }
    if (!is_same_call(packet, launch.header_hash)) {
      port.differ(source);
      same = false;
    }
  }
  return same;
}

// The sending half of a launch: `send_data`, which pushes this rank's data, and the headers. It completes before the
// caller's first poll (protocol.md 11).
template <class Port, class SendData>
NVRAR_HD void send_phase(Port& port, const Launch& launch, SendData send_data) {
  if (planted(Defect::kPollsFirst)) (void)check_headers(port, launch);
  if (kHeadersFirst) send_headers(port, launch);
  send_data();
  if (!kHeadersFirst) send_headers(port, launch);
  port.sent();
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_CALL_HEADER_H
