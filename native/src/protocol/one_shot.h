// Reductions in one hop (protocol.md 7): contributions go straight to the rank that sums them. In an all-reduce that is
// every rank, in a reduce the root, and in a reduce-scatter each rank for its part.
#ifndef NVRAR_PROTOCOL_ONE_SHOT_H
#define NVRAR_PROTOCOL_ONE_SHOT_H

#include "protocol/data_movement.h"

namespace nvrar::protocol {

// How many of the runs from j on have been reduced at once, after run j - 1 and without waiting. A Port that can does
// it by a function of this name.
template <class Packets, class Port>
NVRAR_HD constexpr uint64_t reduce_following(Port&, const Launch&, const uint8_t*, uint64_t) {
  return 0;
}

// Sums all ranks' contributions into recv; `own` is this rank's contribution.
template <class Packets, class Port>
NVRAR_HD bool reduce_message(Port& port, const Launch& launch, const uint8_t* own) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  for (uint64_t j = port.worker(); j < runs.count(); j += port.workers()) {
    const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, flat.data_run(j, 0));
    const uint32_t bytes = runs.length(j);
    const Sources sources{slot, 0, launch.topology().world, launch.rank};
    if (j + kAhead < runs.count()) soon_reduced<Packets>(port, sources, kAhead * flat.stride());
    const auto own_run = port.template load<Packets>(own + runs.offset(planted(Defect::kStuckOwnData) ? 0 : j), bytes);
    typename Port::Run result;
    if (!port.template reduce<Packets>(sources, own_run, launch.recv + runs.offset(j), bytes, launch.epoch, &result)) {
      return false;
    }
    j += reduce_following<Packets>(port, launch, own, j + 1);
  }
  return true;
}

template <class Packets, class Port>
NVRAR_HD bool one_shot(Port& port, const Launch& launch) {
  send_phase(port, launch, [&] { push_message<Packets>(port, launch, Peers::all(launch), launch.send); });
  return check_headers(port, launch) && reduce_message<Packets>(port, launch, launch.send);
}

template <class Packets, class Port>
NVRAR_HD bool reduce(Port& port, const Launch& launch) {
  send_phase(port, launch, [&] {
    if (launch.rank != launch.root) push_message<Packets>(port, launch, Peers::one(launch.root), launch.send);
  });
  // All ranks wait for all headers: what a rank has sent is no evidence that the others have entered (protocol.md 3).
  if (!check_headers(port, launch)) return false;
  return launch.rank != launch.root || reduce_message<Packets>(port, launch, launch.send);
}

template <class Packets, class Port>
NVRAR_HD bool reduce_scatter(Port& port, const Launch& launch) {
  send_phase(port, launch, [&] { push_parts<Packets>(port, launch); });
  return check_headers(port, launch) &&
         reduce_message<Packets>(port, launch, launch.send + launch.rank * launch.send_stride_bytes);
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_ONE_SHOT_H
