// Barrier, broadcast and all-gather: they move bytes, so they use epoch packets, which are bit-exact for every type.
#ifndef NVRAR_PROTOCOL_DATA_MOVEMENT_H
#define NVRAR_PROTOCOL_DATA_MOVEMENT_H

#include "protocol/call_header.h"

namespace nvrar::protocol {

NVRAR_HD uint64_t vectors_of(uint64_t bytes, uint32_t payload_bytes) {
  return (bytes + payload_bytes - 1) / payload_bytes;
}

// Pushes launch.send to every peer. All of it goes out before the caller's first poll (protocol.md 11).
template <class Packets, class Lane>
NVRAR_HD void push_to_all(Lane& lane, const Launch& launch) {
  constexpr uint32_t kBytes = Packets::kPayloadBytes;
  const uint32_t world = launch.layout.world;
  const uint64_t whole = launch.bytes / kBytes;
  const uint32_t rest_bytes = static_cast<uint32_t>(launch.bytes % kBytes);
  for (uint64_t begin = 0; begin < whole; begin += kGroupVectors) {
    const uint64_t run = launch.layout.run_begin(Packets::kKind, launch.epoch, begin / kGroupVectors, launch.rank);
    const uint32_t vectors = static_cast<uint32_t>(whole - begin < kGroupVectors ? whole - begin : kGroupVectors);
    const uint8_t* from = launch.send + begin * kBytes;
    for (uint32_t i = 0; i < vectors; ++i) {
      const Packet packet = Packets::seal(lane.template load<kBytes>(from + i * kBytes), launch.epoch);
      for (uint32_t hop = 1; hop < world; ++hop) {
        const uint32_t peer = launch.rank + hop;
        lane.put(peer < world ? peer : peer - world, run + i, packet);
      }
    }
  }
  if (rest_bytes != 0) {
    const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, whole, launch.rank);
    const Packet packet = Packets::seal(lane.load_part(launch.send + whole * kBytes, rest_bytes), launch.epoch);
    for (uint32_t hop = 1; hop < world; ++hop) lane.put((launch.rank + hop) % world, slot, packet);
  }
}

// The sending half of a launch: the own data if this rank has some to give, and the headers.
template <class Packets, class Lane>
NVRAR_HD void send_phase(Lane& lane, const Launch& launch, bool has_data) {
  if (kHeadersFirst) send_headers(lane, launch);
  if (has_data) push_to_all<Packets>(lane, launch);
  if (!kHeadersFirst) send_headers(lane, launch);
  lane.sent();
}

template <class Lane>
NVRAR_HD bool drain(Lane& lane, const Launch& launch, uint32_t source, uint8_t* to) {
  constexpr uint32_t kBytes = EpochPacket::kPayloadBytes;
  const uint64_t vectors = vectors_of(launch.bytes, kBytes);
  for (uint64_t v = 0; v < vectors; ++v) {
    Packet packet;
    const uint64_t slot = launch.layout.slot(PacketKind::kEpoch, launch.epoch, v, source);
    if (!lane.template take<EpochPacket>(slot, source, launch.epoch, &packet)) return false;
    const uint64_t left_bytes = launch.bytes - v * kBytes;
    if (left_bytes >= kBytes) {
      lane.template store<kBytes>(to + v * kBytes, packet);
    } else {
      lane.store_part(to + v * kBytes, packet, static_cast<uint32_t>(left_bytes));
    }
  }
  return true;
}

template <class Lane>
NVRAR_HD bool barrier(Lane& lane, const Launch& launch) {
  send_phase<EpochPacket>(lane, launch, false);
  return check_headers(lane, launch);
}

template <class Lane>
NVRAR_HD bool broadcast(Lane& lane, const Launch& launch) {
  send_phase<EpochPacket>(lane, launch, launch.rank == launch.root);
  // The root waits for headers too: its own data is no evidence that the others are here (protocol.md 3).
  if (!check_headers(lane, launch)) return false;
  if (launch.rank != launch.root) return drain(lane, launch, launch.root, launch.recv);
  lane.copy(launch.recv, launch.send, launch.bytes);
  return true;
}

template <class Lane>
NVRAR_HD bool all_gather(Lane& lane, const Launch& launch) {
  send_phase<EpochPacket>(lane, launch, true);
  if (!check_headers(lane, launch)) return false;
  lane.copy(launch.recv + launch.rank * launch.recv_stride_bytes, launch.send, launch.bytes);
  for (uint32_t hop = 1; hop < launch.layout.world; ++hop) {
    const uint32_t source = (launch.rank + hop) % launch.layout.world;
    if (!drain(lane, launch, source, launch.recv + source * launch.recv_stride_bytes)) return false;
  }
  return true;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_DATA_MOVEMENT_H
