// Hierarchical all-reduce (protocol.md 9). Within a node, each slice goes to its owner, which sums it. The owners of a
// slice in all nodes exchange their sums, combine them in node order and round once. Each owner sends the result to its
// node.
#ifndef NVRAR_PROTOCOL_HIERARCHICAL_H
#define NVRAR_PROTOCOL_HIERARCHICAL_H

#include "protocol/call_header.h"
#include "protocol/exchange.h"

namespace nvrar::protocol {

// Visits the runs that this rank owns, in an order that is the same on every rank.
template <class Port, class Visit>
NVRAR_HD bool for_owned_runs(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t runs,
                             Visit visit) {
  const uint32_t node = launch.topology().node_of(launch.rank);
  return each_run_of(port, runs, slices.slices(),
                     [&](uint64_t j) { return slices.owner(j, node) != launch.rank || visit(j); });
}

template <class Packets, class Port, class Exchange>
NVRAR_HD bool hierarchical(Port& port, Exchange& exchange, const Launch& launch) {
  constexpr PacketKind kKind = Packets::kKind;
  const Topology& topology = launch.topology();
  const uint32_t node = topology.node_of(launch.rank);
  const Peers node_peers = Peers::of_node(launch);
  const HierarchicalRuns slices{topology, launch.partial_parts};
  const MessageRuns<Packets> runs{launch.bytes};
  typename Port::Partial of_nodes[kMaxRanks];

  send_phase<true>(port, launch, [&] {
    each_run_of(port, runs.count(), slices.slices(), [&](uint64_t j) {
      const uint32_t owner = slices.owner(j, node);
      if (owner == launch.rank) return true;
      const uint64_t run = slices.data_run(j, node, launch.rank);
      const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kData, run);
      port.template push<Packets>(Peers::one(owner), slot,
                                  port.template load<Packets>(launch.send + runs.offset(j), runs.length(j)),
                                  runs.length(j), launch.epoch);
      return true;
    });
  });
  // What the node's ranks have sent needs only their headers, and waiting for the others first would cost a way between
  // nodes. Nothing is stored to recv before all of them are there.
  if (!check_headers<HeadersOf::kNode>(port, launch)) return false;

  const bool summed = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
    const uint64_t run = slices.data_run(j, node, topology.first_of(node));
    const Sources sources{launch.layout.slot(kKind, launch.epoch, Hop::kData, run), node_peers.first, node_peers.size,
                          node_peers.self};
    const uint32_t bytes = runs.length(j);
    const auto own = port.template load<Packets>(launch.send + runs.offset(j), bytes);
    if (!port.template node_sum<Packets>(sources, own, bytes, launch.epoch, &of_nodes[node])) return false;
    exchange.template give<Packets>(port, launch, slices, j, of_nodes[node], bytes);
    return true;
  });
  if (!summed) return false;
  exchange.given(port);
  if (!check_headers<HeadersOf::kOtherNodes>(port, launch)) return false;

  const bool finished = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
    const uint32_t bytes = runs.length(j);
    if (!exchange.template collect<Packets>(port, launch, slices, j, bytes, of_nodes)) return false;
    typename Port::Run result;
    port.finish(of_nodes, launch.recv + runs.offset(j), bytes, &result);
    const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kResult, slices.result_run(j));
    port.template push<Packets>(node_peers, slot, result, bytes, launch.epoch);
    return true;
  });
  if (!finished) return false;
  port.sent();

  return each_run_of(port, runs.count(), slices.slices(), [&](uint64_t j) {
    const uint32_t owner = slices.owner(j, node);
    if (owner == launch.rank) return true;
    const uint64_t slot = launch.layout.slot(kKind, launch.epoch, Hop::kResult, slices.result_run(j));
    return port.template drain<Packets>(slot, owner, launch.recv + runs.offset(j), runs.length(j), launch.epoch);
  });
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_HIERARCHICAL_H
