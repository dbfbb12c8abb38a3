// The phases within a node of the hierarchical all-reduces between many nodes (doubling.h) and of large messages
// (hierarchical_two_shot.h). hierarchical.h stays in one piece, because nvcc makes larger kernels of its parts.
#ifndef NVRAR_PROTOCOL_NODE_PHASES_H
#define NVRAR_PROTOCOL_NODE_PHASES_H

#include "protocol/hierarchical.h"

namespace nvrar::protocol {

// The first phase: sends this rank's contributions to the owners in its node, and exchanges headers, of those that kOf
// names. If these are those of its node, more for other nodes follows.
template <class Packets, HeadersOf kOf = HeadersOf::kAll, class Port>
NVRAR_HD bool scatter_within_node(Port& port, const Launch& launch, const HierarchicalRuns& slices) {
  const uint32_t node = launch.topology().node_of(launch.rank);
  const MessageRuns<Packets> runs{launch.bytes};
  send_phase<kOf>(port, launch, [&] {
    each_run_of(port, runs.count(), slices.slices(), [&](uint64_t j) {
      const uint32_t owner = slices.owner(j, node);
      if (owner == launch.rank) return true;
      const uint64_t run = slices.data_run(j, node, launch.rank);
      const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, run);
      port.template push<Packets>(Peers::one(owner), slot,
                                  port.template load<Packets>(launch.send + runs.offset(j), runs.length(j)),
                                  runs.length(j), launch.epoch);
      return true;
    });
  });
  return check_headers<kOf>(port, launch);
}

// Sums the contributions of this rank's node to a run that this rank owns.
template <class Packets, class Port>
NVRAR_HD bool sum_within_node(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t j,
                              typename Port::Partial* sum) {
  const MessageRuns<Packets> runs{launch.bytes};
  const uint32_t node = launch.topology().node_of(launch.rank);
  const Peers peers = Peers::of_node(launch);
  const uint64_t run = slices.data_run(j, node, launch.topology().first_of(node));
  const Sources sources{launch.layout.slot(Packets::kKind, launch.epoch, Hop::kData, run), peers.first, peers.size,
                        peers.self};
  const uint32_t bytes = runs.length(j);
  const auto own = port.template load<Packets>(launch.send + runs.offset(j), bytes);
  return port.template node_sum<Packets>(sources, own, bytes, launch.epoch, sum);
}

template <class Packets>
NVRAR_HD uint64_t result_slot(const Launch& launch, const HierarchicalRuns& slices, uint64_t j) {
  return launch.layout.slot(Packets::kKind, launch.epoch, Hop::kResult, slices.result_run(j));
}

template <class Packets, class Port>
NVRAR_HD void push_result(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t j,
                          const typename Port::Run& result, uint32_t bytes) {
  const uint64_t slot = result_slot<Packets>(launch, slices, j);
  port.template push<Packets>(Peers::of_node(launch), slot, result, bytes, launch.epoch);
}

// The last phase: takes the results that other ranks of the node own.
template <class Packets, class Port>
NVRAR_HD bool drain_results(Port& port, const Launch& launch, const HierarchicalRuns& slices) {
  const uint32_t node = launch.topology().node_of(launch.rank);
  const MessageRuns<Packets> runs{launch.bytes};
  return each_run_of(port, runs.count(), slices.slices(), [&](uint64_t j) {
    const uint32_t owner = slices.owner(j, node);
    if (owner == launch.rank) return true;
    const uint64_t slot = result_slot<Packets>(launch, slices, j);
    return port.template drain<Packets>(slot, owner, launch.recv + runs.offset(j), runs.length(j), launch.epoch);
  });
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_NODE_PHASES_H
