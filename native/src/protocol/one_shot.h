// Reductions in one hop (protocol.md 7): contributions go straight to the rank that sums them. In an all-reduce that is
// every rank, in a reduce the root, and in a reduce-scatter each rank for its part.
#ifndef NVRAR_PROTOCOL_ONE_SHOT_H
#define NVRAR_PROTOCOL_ONE_SHOT_H

#include "protocol/data_movement.h"

namespace nvrar::protocol {

// Sums all ranks' contributions into recv; `own` is this rank's contribution.
template <class Packets, class Lane>
NVRAR_HD bool reduce_message(Lane& lane, const Launch& launch, const uint8_t* own) {
  const FlatRuns flat{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  for (uint64_t j = lane.worker(); j < runs.count(); j += lane.workers()) {
    const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, flat.data_run(j, 0));
    const uint32_t bytes = runs.length(j);
    const Sources sources{slot, 0, launch.topology().world, launch.rank};
    if (j + kAhead < runs.count()) soon_reduced<Packets>(lane, sources, kAhead * flat.stride());
    const auto own_run = lane.template load<Packets>(own + runs.offset(planted(Defect::kStuckOwnData) ? 0 : j), bytes);
    typename Lane::Run result;
    if (!lane.template reduce<Packets>(sources, own_run, launch.recv + runs.offset(j), bytes, launch.epoch, &result)) {
      return false;
    }
  }
  return true;
}

template <class Packets, class Lane>
NVRAR_HD bool one_shot(Lane& lane, const Launch& launch) {
  send_phase(lane, launch, [&] { push_message<Packets>(lane, launch, Peers::all(launch), launch.send); });
  return check_headers(lane, launch) && reduce_message<Packets>(lane, launch, launch.send);
}

template <class Packets, class Lane>
NVRAR_HD bool reduce(Lane& lane, const Launch& launch) {
  send_phase(lane, launch, [&] {
    if (launch.rank != launch.root) push_message<Packets>(lane, launch, Peers::one(launch.root), launch.send);
  });
  // All ranks wait for all headers: what a rank has sent is no evidence that the others have entered (protocol.md 3).
  if (!check_headers(lane, launch)) return false;
  return launch.rank != launch.root || reduce_message<Packets>(lane, launch, launch.send);
}

template <class Packets, class Lane>
NVRAR_HD bool reduce_scatter(Lane& lane, const Launch& launch) {
  send_phase(lane, launch, [&] { push_parts<Packets>(lane, launch); });
  return check_headers(lane, launch) &&
         reduce_message<Packets>(lane, launch, launch.send + launch.rank * launch.send_stride_bytes);
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_ONE_SHOT_H
