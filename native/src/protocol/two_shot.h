// Two-shot all-reduce (protocol.md 8): each slice goes to its owner, which sums it, rounds once and sends the result to
// all ranks.
#ifndef NVRAR_PROTOCOL_TWO_SHOT_H
#define NVRAR_PROTOCOL_TWO_SHOT_H

#include "protocol/call_header.h"
#include "protocol/slices.h"

namespace nvrar::protocol {

template <class Packets, class Lane>
NVRAR_HD bool two_shot(Lane& lane, const Launch& launch) {
  constexpr PacketKind kKind = Packets::kKind;
  const TwoShotRuns slices{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  const uint32_t world = launch.topology().world;
  const uint64_t ahead = kAhead * slices.stride();

  send_phase(lane, launch, [&] {
    each_run_of(lane, runs.count(), world, [&](uint64_t j) {
      const uint32_t owner = slices.owner(j);
      if (owner == launch.rank) return true;
      const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kData, slices.data_run(j, launch.rank));
      if (j + kAhead * world < runs.count()) lane.soon_pushed(Peers::one(owner), slot + ahead);
      const auto run = lane.template load<Packets>(launch.send + runs.offset(j), runs.length(j));
      lane.template push<Packets>(Peers::one(owner), slot, run, runs.length(j), launch.epoch);
      return true;
    });
  });
  if (!check_headers(lane, launch)) return false;

  const Peers all = Peers::all(launch);
  for (uint64_t j = lane.worker() * world + launch.rank; j < runs.count(); j += lane.workers() * world) {
    const Sources sources{launch.layout.slot(kKind, launch.epoch, Hop::kData, slices.data_run(j, 0)), 0, world,
                          launch.rank};
    const uint64_t result_slot = launch.layout.slot(kKind, launch.epoch, Hop::kResult, slices.result_run(j));
    if (j + kAhead * world < runs.count()) {
      soon_reduced<Packets>(lane, sources, ahead);
      lane.soon_pushed(all, result_slot + ahead);
    }
    const uint32_t bytes = runs.length(j);
    const auto own = lane.template load<Packets>(launch.send + runs.offset(j), bytes);
    typename Lane::Run result;
    if (!lane.template reduce<Packets>(sources, own, launch.recv + runs.offset(j), bytes, launch.epoch, &result)) {
      return false;
    }
    lane.template push<Packets>(all, result_slot, result, bytes, launch.epoch);
  }
  lane.sent();

  return each_run_of(lane, runs.count(), world, [&](uint64_t j) {
    const uint32_t owner = slices.owner(j);
    if (owner == launch.rank) return true;
    const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kResult, slices.result_run(j));
    if (j + kAhead * world < runs.count()) lane.template soon_taken<Packets>(slot + ahead);
    return lane.template drain<Packets>(slot, owner, launch.recv + runs.offset(j), runs.length(j), launch.epoch);
  });
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TWO_SHOT_H
