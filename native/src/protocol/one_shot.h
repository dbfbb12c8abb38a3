// One-shot all-reduce (protocol.md 7): push the own vectors to all peers, then sum all ranks' vectors in rank order.
#ifndef NVRAR_PROTOCOL_ONE_SHOT_H
#define NVRAR_PROTOCOL_ONE_SHOT_H

#include "protocol/data_movement.h"
#include "protocol/element.h"

namespace nvrar::protocol {

// Rank order from rank 0's value (protocol.md 10): the same bits on every rank, and -0 + -0 stays -0.
template <class Packets, class Accumulator, class Lane>
NVRAR_HD bool reduce_vector(Lane& lane, const Launch& launch, uint64_t first_run, uint32_t index, Packet own,
                            Packet* result) {
  Packet packet = own;
  const uint64_t first_slot = first_run + index;
  if (launch.rank != 0 && !lane.template take<Packets>(first_slot, 0, launch.epoch, &packet)) return false;
  Accumulator sum(packet);
  for (uint32_t source = 1; source < launch.layout.world; ++source) {
    packet = own;
    if (source != launch.rank) {
      const uint64_t slot = first_slot + uint64_t{source} * kGroupVectors;
      if (!lane.template take<Packets>(slot, source, launch.epoch, &packet)) return false;
    }
    sum.combine(packet);
  }
  *result = sum.finish(launch.layout.world);
  return true;
}

template <class Packets, class Element, class Op, class Lane>
NVRAR_HD bool one_shot(Lane& lane, const Launch& launch) {
  using Accumulator = typename Lane::template Accumulator<Element, Op>;
  constexpr uint32_t kBytes = Packets::kPayloadBytes;
  send_phase<Packets>(lane, launch, true);
  if (!check_headers(lane, launch)) return false;

  const uint64_t whole = launch.bytes / kBytes;
  const uint32_t rest_bytes = static_cast<uint32_t>(launch.bytes % kBytes);
  Packet result;
  for (uint64_t begin = 0; begin < whole; begin += kGroupVectors) {
    const uint64_t first_run = launch.layout.run_begin(Packets::kKind, launch.epoch, begin / kGroupVectors, 0);
    const uint32_t vectors = static_cast<uint32_t>(whole - begin < kGroupVectors ? whole - begin : kGroupVectors);
    for (uint32_t i = 0; i < vectors; ++i) {
      const uint64_t offset_bytes = (begin + i) * kBytes;
      const Packet own = Packets::canonical(lane.template load<kBytes>(launch.send + offset_bytes));
      if (!reduce_vector<Packets, Accumulator>(lane, launch, first_run, i, own, &result)) return false;
      lane.template store<kBytes>(launch.recv + offset_bytes, result);
    }
  }
  if (rest_bytes != 0) {
    const uint64_t first_run = launch.layout.run_begin(Packets::kKind, launch.epoch, whole / kGroupVectors, 0);
    const Packet own = Packets::canonical(lane.load_part(launch.send + whole * kBytes, rest_bytes));
    const uint32_t index = static_cast<uint32_t>(whole % kGroupVectors);
    if (!reduce_vector<Packets, Accumulator>(lane, launch, first_run, index, own, &result)) return false;
    lane.store_part(launch.recv + whole * kBytes, result, rest_bytes);
  }
  return true;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_ONE_SHOT_H
