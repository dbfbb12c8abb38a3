// The hierarchical all-reduce of a group of many nodes. The owners of a slice exchange their sums level by level
// instead of sending each to all (protocol.md 9), so that a sum takes the logarithm of the number of nodes in packets
// and in memory.
//
// At level k the nodes form blocks of 2^k, the last one of which may have fewer, and all nodes of a block have its sum.
// Two adjacent blocks, 2i and 2i + 1, are siblings. Each node takes the sum of its sibling block from one node there
// and combines the two in the order of the nodes: the order of protocol.md 10. If there is no sibling, the sum passes
// up unchanged.
#ifndef NVRAR_PROTOCOL_DOUBLING_H
#define NVRAR_PROTOCOL_DOUBLING_H

#include "protocol/node_phases.h"

namespace nvrar::protocol {

// A node's block at a level, and its sibling.
struct Blocks {
  uint32_t first;          // node of the own block
  uint32_t size;           // of the own block
  uint32_t sibling_first;  // node of the sibling block
  uint32_t sibling_size;   // 0: there is none
  uint32_t place;          // of the node in its block

  static NVRAR_HD Blocks of(uint32_t node, uint32_t level, uint32_t nodes) {
    const uint32_t block = node >> level;
    const uint32_t first = block << level;
    const uint32_t sibling = (block ^ 1) << level;
    return {first, size_of(first, level, nodes), sibling, size_of(sibling, level, nodes), node - first};
  }
  NVRAR_HD bool has_sibling() const { return sibling_size != 0; }
  NVRAR_HD bool is_lower() const { return first < sibling_first; }
  // The node of the sibling block that this node takes its sum from.
  NVRAR_HD uint32_t source() const { return sibling_first + place % sibling_size; }
  // The nodes of the sibling block that take this node's sum.
  template <class Visit>
  NVRAR_HD void each_taker(Visit visit) const {
    for (uint32_t taker = place; taker < sibling_size; taker += size) visit(sibling_first + taker);
  }

 private:
  static NVRAR_HD uint32_t size_of(uint32_t first, uint32_t level, uint32_t nodes) {
    if (first >= nodes) return 0;
    const uint32_t left = nodes - first;
    return left < 1u << level ? left : 1u << level;
  }
};

// The slot of the own block's sum of a run at a level, and of the sibling's.
NVRAR_HD uint64_t block_slot(const Launch& launch, PacketKind kind, const HierarchicalRuns& slices, uint64_t j,
                             uint32_t node, uint32_t level, bool sibling) {
  const uint64_t run = slices.exchange_run(j, node, 2 * level + (sibling ? 1 : 0));
  return launch.layout.slot(kind, launch.epoch, Hop::kExchange, run);
}

// Sends the sum of this rank's block to the owners that take it, and to this rank itself. Packets of sums may change
// the payload of a NaN, which no result keeps.
template <class Packets, class Port>
NVRAR_HD void give_block(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t j, uint32_t level,
                         const typename Port::Partial& sum, uint32_t bytes) {
  const uint32_t own = launch.topology().node_of(launch.rank);
  const auto give = [&](uint32_t node, bool sibling) {
    port.template push_partial<Packets>(slices.owner(j, node),
                                        block_slot(launch, Packets::kKind, slices, j, node, level, sibling), sum, bytes,
                                        launch.epoch);
  };
  give(own, false);
  Blocks::of(own, level, launch.topology().nodes()).each_taker([&](uint32_t node) { give(node, true); });
}

// Waits for the sums of this rank's block and of its sibling, and combines them into *sum.
template <class Packets, class Port>
NVRAR_HD bool take_blocks(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t j, uint32_t level,
                          typename Port::Partial* sum, typename Port::Partial* room, uint32_t bytes) {
  const uint32_t own = launch.topology().node_of(launch.rank);
  const Blocks blocks = Blocks::of(own, level, launch.topology().nodes());
  const auto take = [&](bool sibling, uint32_t node, typename Port::Partial* to) {
    return port.template take_partial<Packets>(block_slot(launch, Packets::kKind, slices, j, own, level, sibling),
                                               slices.owner(j, node), bytes, launch.epoch, to);
  };
  const bool own_first = blocks.is_lower() != planted(Defect::kSwappedNodes);
  if (!blocks.has_sibling()) return take(false, own, sum);
  if (!take(false, own, own_first ? sum : room) || !take(true, blocks.source(), own_first ? room : sum)) return false;
  port.combine(sum, *room, bytes);
  return true;
}

// In the order of levels, and in each of the runs: no rank waits for one that waits for it.
template <class Packets, class Port>
NVRAR_LARGE bool hierarchical_by_doubling(Port& port, const Launch& launch) {
  const HierarchicalRuns slices{launch.topology(), launch.partial_parts};
  const MessageRuns<Packets> runs{launch.bytes};
  const uint32_t levels = levels_of(launch.topology().nodes());
  typename Port::Partial sum;
  typename Port::Partial room;

  if (!scatter_within_node<Packets>(port, launch, slices)) return false;
  const bool summed = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
    if (!sum_within_node<Packets>(port, launch, slices, j, &sum)) return false;
    give_block<Packets>(port, launch, slices, j, 0, sum, runs.length(j));
    return true;
  });
  if (!summed) return false;
  port.sent();

  for (uint32_t level = 0; level < levels; ++level) {
    const bool combined = for_owned_runs(port, launch, slices, runs.count(), [&](uint64_t j) {
      const uint32_t bytes = runs.length(j);
      if (!take_blocks<Packets>(port, launch, slices, j, level, &sum, &room, bytes)) return false;
      if (level + 1 < levels) {
        give_block<Packets>(port, launch, slices, j, level + 1, sum, bytes);
      } else {
        typename Port::Run result;
        port.round(sum, launch.recv + runs.offset(j), bytes, &result);
        push_result<Packets>(port, launch, slices, j, result, bytes);
      }
      return true;
    });
    if (!combined) return false;
    port.sent();
  }
  return drain_results<Packets>(port, launch, slices);
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_DOUBLING_H
