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

// The ranks of other nodes that own a slice with this rank, each once.
template <class Visit>
NVRAR_HD bool each_other_owner(const Launch& launch, const HierarchicalRuns& slices, Visit visit) {
  const Topology& topology = launch.topology();
  const uint32_t own = topology.node_of(launch.rank);
  const uint32_t size = topology.size_of(own);
  uint32_t seen = 0;  // by rank; for groups of up to kMaxRanks ranks
  for (uint32_t slice = launch.rank - topology.first_of(own); slice < slices.slices(); slice += size) {
    for (uint32_t hop = 1; hop < topology.nodes(); ++hop) {
      const uint32_t peer = slices.owner(slice, (own + hop) % topology.nodes());
      if ((seen >> peer & 1) != 0) continue;
      seen |= 1u << peer;
      if (!visit(peer)) return false;
    }
  }
  return true;
}

// With its node's sums an owner sends the other owners its header, which tells of all ranks of its node: it has theirs.
// Every rank owns a slice, and every slice has an owner in every node, so that a rank hears from all nodes. Over links
// this takes as many messages as the sums alone.
template <class Port>
NVRAR_HD void tell_other_nodes(Port& port, const Launch& launch, const HierarchicalRuns& slices) {
  if (!kOwnersTell || launch.topology().is_large()) return;
  const Packet packet = node_header_packet(launch.header_hash, launch.epoch);
  each_other_owner(launch, slices, [&](uint32_t peer) {
    port.put(peer, RingLayout::header_slot(launch.epoch, launch.rank), packet);
    return true;
  });
}

template <class Port>
NVRAR_HD bool hear_from_other_nodes(Port& port, const Launch& launch, const HierarchicalRuns& slices) {
  if (!kOwnersTell || launch.topology().is_large()) return check_headers<HeadersOf::kOtherNodes>(port, launch);
  if (planted(Defect::kNoHeaderWait) || planted(Defect::kNodeEvidence)) return true;
  bool same = true;
  const bool came = each_other_owner(launch, slices, [&](uint32_t peer) {
    Packet packet;
    const uint64_t slot = RingLayout::header_slot(launch.epoch, peer);
    if (!port.template take<EpochPacket>(slot, peer, launch.epoch, &packet)) return false;
    if (!is_same_call(packet, launch.header_hash)) {
      note_difference(port, launch, peer, packet);
      same = false;
    }
    return true;
  });
  return came && same;
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

  send_phase<HeadersOf::kNode>(port, launch, [&] {
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
  tell_other_nodes(port, launch, slices);

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
  if (!hear_from_other_nodes(port, launch, slices)) return false;

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
