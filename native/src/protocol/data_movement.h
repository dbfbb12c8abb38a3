// Barrier, broadcast, all-gather and all-to-all. They move bytes, so they use epoch packets, which preserve the bits of
// every type.
#ifndef NVRAR_PROTOCOL_DATA_MOVEMENT_H
#define NVRAR_PROTOCOL_DATA_MOVEMENT_H

#include "protocol/call_header.h"
#include "protocol/slices.h"

namespace nvrar::protocol {

// Pushes the message at `from` to all of `peers`, into the same slots at each.
template <class Packets, class Port>
NVRAR_HD void push_message(Port& port, const Launch& launch, const Peers& peers, const uint8_t* from) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, flat.data_run(j, launch.rank));
    const uint32_t bytes = runs.length(j);
    if (j + kAhead < runs.count()) port.soon_pushed(peers, slot + kAhead * flat.stride());
    port.template push<Packets>(peers, slot, port.template load<Packets>(from + runs.offset(j), bytes), bytes,
                                launch.epoch);
  }
}

// Pushes to each peer its part of send, run by run for all peers in turn, so that all of them can start early.
template <class Packets, class Port>
NVRAR_HD void push_parts(Port& port, const Launch& launch) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  const Peers peers = Peers::all(launch);
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, flat.data_run(j, launch.rank));
    const uint32_t bytes = runs.length(j);
    if (j + kAhead < runs.count()) port.soon_pushed(peers, slot + kAhead * flat.stride());
    for (uint32_t i = 0; i < peers.count(); ++i) {
      const uint8_t* from = launch.send + peers[i] * launch.send_stride_bytes + runs.offset(j);
      port.template push<Packets>(Peers::one(peers[i]), slot, port.template load<Packets>(from, bytes), bytes,
                                  launch.epoch);
    }
  }
}

template <class Port>
NVRAR_HD bool drain_message(Port& port, const Launch& launch, uint32_t source, uint8_t* to) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<EpochPacket> runs{launch.bytes};
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    const uint64_t slot = launch.layout.slot(PacketKind::kEpoch, launch.epoch, Hop::kData, flat.data_run(j, source));
    if (j + kAhead < runs.count()) port.template soon_taken<EpochPacket>(slot + kAhead * flat.stride());
    if (!port.template drain<EpochPacket>(slot, source, to + runs.offset(j), runs.length(j), launch.epoch)) {
      return false;
    }
  }
  return true;
}

// This rank's part is copied from `own`, the other parts are taken from the rings.
template <class Port>
NVRAR_HD bool drain_parts(Port& port, const Launch& launch, const uint8_t* own) {
  port.copy(launch.recv + launch.rank * launch.recv_stride_bytes, own, launch.bytes);
  const Peers peers = Peers::all(launch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    if (!drain_message(port, launch, peers[i], launch.recv + peers[i] * launch.recv_stride_bytes)) return false;
  }
  return true;
}

template <class Port>
NVRAR_HD bool barrier(Port& port, const Launch& launch) {
  send_phase(port, launch, [] {});
  return check_headers(port, launch);
}

template <class Port>
NVRAR_HD bool broadcast(Port& port, const Launch& launch) {
  send_phase(port, launch, [&] {
    if (launch.rank == launch.root) push_message<EpochPacket>(port, launch, Peers::all(launch), launch.send);
  });
  // The root waits for headers, too: its own data is no evidence that the others have entered (protocol.md 3).
  if (!check_headers(port, launch)) return false;
  if (launch.rank != launch.root) return drain_message(port, launch, launch.root, launch.recv);
  port.copy(launch.recv, launch.send, launch.bytes);
  return true;
}

template <class Port>
NVRAR_HD bool all_gather(Port& port, const Launch& launch) {
  send_phase(port, launch, [&] { push_message<EpochPacket>(port, launch, Peers::all(launch), launch.send); });
  return check_headers(port, launch) && drain_parts(port, launch, launch.send);
}

template <class Port>
NVRAR_HD bool all_to_all(Port& port, const Launch& launch) {
  send_phase(port, launch, [&] { push_parts<EpochPacket>(port, launch); });
  return check_headers(port, launch) && drain_parts(port, launch, launch.send + launch.rank * launch.send_stride_bytes);
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_DATA_MOVEMENT_H
