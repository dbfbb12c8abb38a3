// How partial sums cross between nodes in the hierarchical all-reduce. An Exchange is a port of its own, because what
// lies between two nodes differs: here memory that both can store to, elsewhere a network.
//
//   void give<Packets>(lane, launch, slices, uint64_t j, const Partial&, uint32_t bytes)
//                                 brings this node's sum of run j on its way to the run's owner in every other node,
//                                 and keeps it for this one; all of a rank's gives precede its first collect
//   void given(lane)              that was the last one
//   bool collect<Packets>(lane, launch, slices, uint64_t j, uint32_t bytes, Partial* of_nodes)
//                                 waits for every node's sum of run j, puts each at its node's place; false: leave at
//                                 once
//
// It carries partial sums, it never adds: whatever way they take, the order of sums stays that of protocol.md 10.
#ifndef NVRAR_PROTOCOL_EXCHANGE_H
#define NVRAR_PROTOCOL_EXCHANGE_H

#include "protocol/launch.h"
#include "protocol/slices.h"

namespace nvrar::protocol {

// Every owner stores straight into the rings of its counterparts, and into its own.
struct DirectExchange {
  template <class Packets, class Lane, class Partial>
  NVRAR_HD void give(Lane& lane, const Launch& launch, const HierarchicalRuns& slices, uint64_t j,
                     const Partial& partial, uint32_t bytes) {
    const uint32_t own_node = launch.topology().node_of(launch.rank);
    for (uint32_t node = 0; node < launch.topology().nodes(); ++node) {
      const uint64_t run = slices.exchange_run(j, node, own_node);
      const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kExchange, run);
      lane.template push_partial<Packets>(slices.owner(j, node), slot, partial, bytes, launch.epoch);
    }
  }
  template <class Lane>
  NVRAR_HD void given(Lane& lane) {
    lane.sent();
  }
  template <class Packets, class Lane, class Partial>
  NVRAR_HD bool collect(Lane& lane, const Launch& launch, const HierarchicalRuns& slices, uint64_t j, uint32_t bytes,
                        Partial* of_nodes) {
    const uint32_t own_node = launch.topology().node_of(launch.rank);
    for (uint32_t node = 0; node < launch.topology().nodes(); ++node) {
      const uint64_t run = slices.exchange_run(j, own_node, node);
      const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kExchange, run);
      const uint32_t place = planted(Defect::kSwappedNodes) ? (node + 1) % launch.topology().nodes() : node;
      if (!lane.template take_partial<Packets>(slot, slices.owner(j, node), bytes, launch.epoch, of_nodes + place)) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_EXCHANGE_H
