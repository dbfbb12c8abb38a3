// Two-shot all-reduce (protocol.md 8): each slice goes to its owner, which sums it, rounds once and sends the result to
// all ranks.
#ifndef NVRAR_PROTOCOL_TWO_SHOT_H
#define NVRAR_PROTOCOL_TWO_SHOT_H

#include "protocol/call_header.h"
#include "protocol/slices.h"

namespace nvrar::protocol {

template <class Packets, class Port>
NVRAR_HD bool two_shot(Port& port, const Launch& launch) {
  constexpr PacketKind kKind = Packets::kKind;
  const TwoShotRuns slices{launch.topology()};
  const MessageRuns<Packets> runs{launch.bytes};
  const uint32_t world = launch.topology().world;
  const uint64_t ahead = kAhead * slices.stride();

  send_phase(port, launch, [&] {
    each_run_of(port, runs.count(), world, [&](uint64_t j) {
      const uint32_t owner = slices.owner(j);
      if (owner == launch.rank) return true;
      const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kData, slices.data_run(j, launch.rank));
      if (j + kAhead * world < runs.count()) port.soon_pushed(Peers::one(owner), slot + ahead);
      const auto run = port.template load<Packets>(launch.send + runs.offset(j), runs.length(j));
      port.template push<Packets>(Peers::one(owner), slot, run, runs.length(j), launch.epoch);
      return true;
    });
  });
  if (!check_headers(port, launch)) return false;

  const Peers all = Peers::all(launch);
  for (uint64_t j = port.worker() * world + launch.rank; j < runs.count(); j += port.workers() * world) {
    const Sources sources{launch.layout.slot(kKind, launch.epoch, Hop::kData, slices.data_run(j, 0)), 0, world,
                          launch.rank};
    const uint64_t result_slot = launch.layout.slot(kKind, launch.epoch, Hop::kResult, slices.result_run(j));
    if (j + kAhead * world < runs.count()) {
      soon_reduced<Packets>(port, sources, ahead);
      port.soon_pushed(all, result_slot + ahead);
    }
    const uint32_t bytes = runs.length(j);
    const auto own = port.template load<Packets>(launch.send + runs.offset(j), bytes);
    typename Port::Run result;
    if (!port.template reduce<Packets>(sources, own, launch.recv + runs.offset(j), bytes, launch.epoch, &result)) {
      return false;
    }
    port.template push<Packets>(all, result_slot, result, bytes, launch.epoch);
  }
  port.sent();

  return each_run_of(port, runs.count(), world, [&](uint64_t j) {
    const uint32_t owner = slices.owner(j);
    if (owner == launch.rank) return true;
    const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kResult, slices.result_run(j));
    if (j + kAhead * world < runs.count()) port.template soon_taken<Packets>(slot + ahead);
    return port.template drain<Packets>(slot, owner, launch.recv + runs.offset(j), runs.length(j), launch.epoch);
  });
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TWO_SHOT_H
