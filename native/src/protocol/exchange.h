// How nodes exchange partial sums in the hierarchical all-reduce. An Exchange is an interface of its own, because the
// link between two nodes differs: here it is memory that both can store to, elsewhere it is a network.
//
//   void give<Packets>(port, launch, slices, uint64_t j, const Partial&, uint32_t bytes)
//                                 sends this node's sum of run j to the run's owner in every node, its own included;
//                                 all of a rank's gives precede its first collect
//   void given(port)              called after the last give
//   bool collect<Packets>(port, launch, slices, uint64_t j, uint32_t bytes, Partial* of_nodes)
//                                 waits for every node's sum of run j and writes it to the element of its node; false:
//                                 return at once
//
// An Exchange carries partial sums and never adds, so the order of sums remains that of protocol.md 10.
#ifndef NVRAR_PROTOCOL_EXCHANGE_H
#define NVRAR_PROTOCOL_EXCHANGE_H

#include "protocol/launch.h"
#include "protocol/slices.h"

namespace nvrar::protocol {

// Every owner stores straight into the rings of its counterparts, and into its own.
struct DirectExchange {
  template <class Packets, class Port, class Partial>
  NVRAR_HD void give(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t j,
                     const Partial& partial, uint32_t bytes) {
    const uint32_t own_node = launch.topology().node_of(launch.rank);
    for (uint32_t node = 0; node < launch.topology().nodes(); ++node) {
      const uint64_t run = slices.exchange_run(j, node, own_node);
      const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kExchange, run);
      port.template push_partial<Packets>(slices.owner(j, node), slot, partial, bytes, launch.epoch);
    }
  }
  template <class Port>
  NVRAR_HD void given(Port& port) {
    port.sent();
  }
  template <class Packets, class Port, class Partial>
  NVRAR_HD bool collect(Port& port, const Launch& launch, const HierarchicalRuns& slices, uint64_t j, uint32_t bytes,
                        Partial* of_nodes) {
    const uint32_t own_node = launch.topology().node_of(launch.rank);
    for (uint32_t node = 0; node < launch.topology().nodes(); ++node) {
      const uint64_t run = slices.exchange_run(j, own_node, node);
      const uint64_t slot = launch.layout.slot(Packets::kKind, launch.epoch, Hop::kExchange, run);
      const uint32_t place = planted(Defect::kSwappedNodes) ? (node + 1) % launch.topology().nodes() : node;
      if (!port.template take_partial<Packets>(slot, slices.owner(j, node), bytes, launch.epoch, of_nodes + place)) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_EXCHANGE_H
