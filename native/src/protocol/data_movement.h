// Barrier, broadcast, all-gather and all-to-all. They move bytes, so they use the packets that preserve the bits of
// every type: epoch packets or marked ones.
#ifndef NVRAR_PROTOCOL_DATA_MOVEMENT_H
#define NVRAR_PROTOCOL_DATA_MOVEMENT_H

#include "protocol/call_header.h"
#include "protocol/slices.h"

namespace nvrar::protocol {

enum class Movement : uint32_t { kAllGather, kAllToAll, kBroadcast };

// Which parts of its buffers a rank sends and receives in a call that moves data.
struct Parts {
  const Launch& launch;
  Movement movement;

  NVRAR_HD bool sends() const { return movement != Movement::kBroadcast || launch.rank == launch.root; }
  // Whether every peer gets the same part.
  NVRAR_HD bool sends_one() const { return movement != Movement::kAllToAll; }
  NVRAR_HD const uint8_t* to_send(uint32_t peer) const {
    return launch.send + (sends_one() ? 0 : peer * launch.send_stride_bytes);
  }
  // The own rank is a source, too: its part is copied.
  NVRAR_HD bool takes_from(uint32_t source) const { return movement != Movement::kBroadcast || source == launch.root; }
  NVRAR_HD uint8_t* to_store(uint32_t source) const {
    return launch.recv + (movement == Movement::kBroadcast ? 0 : source * launch.recv_stride_bytes);
  }
};

// Where run j of a source lies, in a launch whose sources send straight to the rank that uses the data.
template <class Packets>
NVRAR_HD uint64_t flat_slot(const Launch& launch, uint64_t j, uint32_t source) {
  const FlatRuns flat{launch.topology()};
  return launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, flat.data_run(j, source));
}
NVRAR_HD uint64_t flat_mark_slot(const Launch& launch, uint64_t j, uint32_t source) {
  return launch.layout.mark_slot(launch.epoch, Hop::kData, FlatRuns{launch.topology()}.data_run(j, source));
}

template <class Packets, class Port, class Run>
NVRAR_HD void push_loaded_run(Port& port, const Launch& launch, const Peers& peers, uint64_t j, const Run& run,
                              uint32_t bytes) {
  const uint64_t slot = flat_slot<Packets>(launch, j, launch.rank);
  if constexpr (Packets::kKind == PacketKind::kMarked) {
    port.push_marked(peers, slot, flat_mark_slot(launch, j, launch.rank), run, bytes, launch.epoch);
  } else {
    port.template push<Packets>(peers, slot, run, bytes, launch.epoch);
  }
}
template <class Packets, class Port>
NVRAR_HD void push_run(Port& port, const Launch& launch, const Peers& peers, uint64_t j, const uint8_t* from,
                       uint32_t bytes) {
  push_loaded_run<Packets>(port, launch, peers, j, port.template load<Packets>(from, bytes), bytes);
}

template <class Packets, class Port>
NVRAR_HD bool drain_run(Port& port, const Launch& launch, uint32_t source, uint64_t j, uint8_t* to, uint32_t bytes) {
  const uint64_t slot = flat_slot<Packets>(launch, j, source);
  if constexpr (Packets::kKind == PacketKind::kMarked) {
    return port.drain_marked(slot, flat_mark_slot(launch, j, source), source, to, bytes, launch.epoch);
  } else {
    return port.template drain<Packets>(slot, source, to, bytes, launch.epoch);
  }
}

// Whether the message at `from` was pushed to all of `peers` as a whole. A Port that can does it by a function of this
// name, and may read the message as long as the call runs and has not written there.
template <class Packets, class Port>
NVRAR_HD constexpr bool push_whole(Port&, const Launch&, const Peers&, const uint8_t*) {
  return false;
}

// Pushes the message at `from` to all of `peers`, into the same slots at each.
template <class Packets, class Port>
NVRAR_HD void push_message(Port& port, const Launch& launch, const Peers& peers, const uint8_t* from) {
  if (push_whole<Packets>(port, launch, peers, from)) return;
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    if (j + kAhead < runs.count()) {
      port.soon_pushed(peers, flat_slot<Packets>(launch, j, launch.rank) + kAhead * flat.stride());
    }
    push_run<Packets>(port, launch, peers, j, from + runs.offset(j), runs.length(j));
  }
}

// Pushes to each peer its part of send, run by run for all peers in turn, so that all of them can start early.
template <class Packets, class Port>
NVRAR_HD void push_parts(Port& port, const Launch& launch) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  const Peers peers = Peers::all(launch);
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    if (j + kAhead < runs.count()) {
      port.soon_pushed(peers, flat_slot<Packets>(launch, j, launch.rank) + kAhead * flat.stride());
    }
    for (uint32_t i = 0; i < peers.count(); ++i) {
      const uint8_t* from = launch.send + peers[i] * launch.send_stride_bytes + runs.offset(j);
      push_run<Packets>(port, launch, Peers::one(peers[i]), j, from, runs.length(j));
    }
  }
}

template <class Packets, class Port>
NVRAR_HD bool drain_message(Port& port, const Launch& launch, uint32_t source, uint8_t* to) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    if (j + kAhead < runs.count()) {
      port.template soon_taken<Packets>(flat_slot<Packets>(launch, j, source) + kAhead * flat.stride());
    }
    if (!drain_run<Packets>(port, launch, source, j, to + runs.offset(j), runs.length(j))) return false;
  }
  return true;
}

template <class Port>
NVRAR_HD bool barrier(Port& port, const Launch& launch) {
  send_phase(port, launch, [] {});
  return check_headers(port, launch);
}

// All ranks wait for all headers: a broadcast's own data is no evidence to its root that the others have entered
// (protocol.md 3).
template <Movement kMovement, class Packets, class Port>
NVRAR_HD bool move_data(Port& port, const Launch& launch) {
  const Parts parts{launch, kMovement};
  send_phase(port, launch, [&] {
    if (!parts.sends()) return;
    if (parts.sends_one()) {
      push_message<Packets>(port, launch, Peers::all(launch), launch.send);
    } else {
      push_parts<Packets>(port, launch);
    }
  });
  if (!check_headers(port, launch)) return false;
  if (parts.takes_from(launch.rank)) {
    port.copy(parts.to_store(launch.rank), parts.to_send(launch.rank), launch.bytes);
  }
  const Peers peers = Peers::all(launch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    if (!parts.takes_from(peers[i])) continue;
    if (!drain_message<Packets>(port, launch, peers[i], parts.to_store(peers[i]))) return false;
  }
  return true;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_DATA_MOVEMENT_H
