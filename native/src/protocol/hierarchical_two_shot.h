// The hierarchical all-reduce of large messages among several nodes (protocol.md 9). The owners of a slice in all nodes
// divide its runs among them: each node finishes the sums of its share and sends the results to the others. A node
// sends and receives 2 (n - 1) / n of a slice between n nodes, and not n - 1 slices, for one hop more.
#ifndef NVRAR_PROTOCOL_HIERARCHICAL_TWO_SHOT_H
#define NVRAR_PROTOCOL_HIERARCHICAL_TWO_SHOT_H

#include "protocol/node_phases.h"

namespace nvrar::protocol {

// Sums a run in this node, takes the sums of the other nodes, and stores the result.
template <class Packets, class Port>
NVRAR_HD bool finish_run(Port& port, const Launch& launch, const HierarchicalTwoShotRuns& slices, uint64_t j,
                         typename Port::Partial* of_nodes, typename Port::Run* result) {
  const MessageRuns<Packets> runs{launch.bytes};
  const uint32_t own = launch.topology().node_of(launch.rank);
  const uint32_t bytes = runs.length(j);
  if (!sum_within_node<Packets>(port, launch, slices, j, &of_nodes[own])) return false;
  for (uint32_t node = 0; node < launch.topology().nodes(); ++node) {
    if (node == own) continue;
    const uint64_t slot =
        launch.layout.slot(Packets::kKind, launch.epoch, Hop::kExchange, slices.exchange_run(j, node));
    const uint32_t place = planted(Defect::kSwappedNodes) ? (node + 1) % launch.topology().nodes() : node;
    if (!port.template take_partial<Packets>(slot, slices.owner(j, node), bytes, launch.epoch, &of_nodes[place])) {
      return false;
    }
  }
  port.finish(of_nodes, launch.recv + runs.offset(j), bytes, result);
  return true;
}

template <class Packets, class Port>
[[gnu::noinline]] bool hierarchical_two_shot(Port& port, const Launch& launch) {
  const Topology& topology = launch.topology();
  const uint32_t own = topology.node_of(launch.rank);
  const HierarchicalTwoShotRuns slices{{topology, launch.partial_parts}};
  const MessageRuns<Packets> runs{launch.bytes};
  typename Port::Partial of_nodes[kMaxRanks];

  if (!scatter_within_node<Packets, HeadersOf::kNode>(port, launch, slices)) return false;
  tell_other_nodes(port, launch, slices);

  const bool given = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
    const uint32_t finisher = slices.finisher(j);
    if (finisher == own) return true;
    if (!sum_within_node<Packets>(port, launch, slices, j, &of_nodes[own])) return false;
    const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kExchange, slices.exchange_run(j, own));
    port.template push_partial<Packets>(slices.owner(j, finisher), slot, of_nodes[own], runs.length(j), launch.epoch);
    return true;
  });
  if (!given) return false;
  port.sent();
  if (!hear_from_other_nodes(port, launch, slices)) return false;

  const bool finished = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
    if (slices.finisher(j) != own) return true;
    typename Port::Run result;
    if (!finish_run<Packets>(port, launch, slices, j, of_nodes, &result)) return false;
    const uint64_t slot = result_slot<Packets>(launch, slices, j);
    for (uint32_t node = 0; node < topology.nodes(); ++node) {
      if (node == own) continue;
      port.template push<Packets>(Peers::one(slices.owner(j, node)), slot, result, runs.length(j), launch.epoch);
    }
    push_result<Packets>(port, launch, slices, j, result, runs.length(j));
    return true;
  });
  if (!finished) return false;
  port.sent();

  const bool passed_on = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
    const uint32_t finisher = slices.finisher(j);
    if (finisher == own) return true;
    const uint64_t slot = result_slot<Packets>(launch, slices, j);
    typename Port::Run result;
    if (!port.template drain<Packets>(slot, slices.owner(j, finisher), launch.recv + runs.offset(j), runs.length(j),
                                      launch.epoch, &result)) {
      return false;
    }
    push_result<Packets>(port, launch, slices, j, result, runs.length(j));
    return true;
  });
  if (!passed_on) return false;
  port.sent();
  return drain_results<Packets>(port, launch, slices);
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_HIERARCHICAL_TWO_SHOT_H
