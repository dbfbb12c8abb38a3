// Which rank sums which part of a message, and in which run of an area a packet of it lies. A message is divided into
// runs of kRunPackets packets; run j belongs to slice j mod slices, so the slices of a message differ by at most one
// run.
#ifndef NVRAR_PROTOCOL_SLICES_H
#define NVRAR_PROTOCOL_SLICES_H

#include "protocol/ring_layout.h"

namespace nvrar::protocol {

// Every source sends straight to the rank that uses the data: the runs of all sources lie side by side.
struct FlatRuns {
  Topology topology;
  template <class Index>
  NVRAR_HD Index data_run(Index j, uint32_t source) const {
    return j * topology.world + source;
  }
  // The distance from a source's run to its next one, in slots.
  NVRAR_HD uint64_t stride() const { return uint64_t{topology.world} * kRunPackets; }
  NVRAR_HD uint64_t runs_that_fit(uint64_t area_runs) const { return area_runs / topology.world; }
};

// Two-shot: rank s owns slice s.
struct TwoShotRuns {
  Topology topology;
  NVRAR_HD uint32_t owner(uint64_t j) const {
    return static_cast<uint32_t>((planted(Defect::kNextOwner) ? j + 1 : j) % topology.world);
  }
  NVRAR_HD uint64_t data_run(uint64_t j, uint32_t source) const { return tile_data_run(j / topology.world, source); }
  template <class Index>
  NVRAR_HD Index result_run(Index j) const {
    return j;
  }
  // A tile is one run of each slice: tile t has `world` runs from t * world on.
  template <class Index>
  NVRAR_HD Index run_of(Index tile, uint32_t owner) const {
    return tile * topology.world + owner;
  }
  template <class Index>
  NVRAR_HD Index tile_data_run(Index tile, uint32_t source) const {
    return tile * topology.world + source;
  }
  // The distance from a rank's run to its next one, in slots; the same in both hops.
  NVRAR_HD uint64_t stride() const { return uint64_t{topology.world} * kRunPackets; }
  NVRAR_HD uint64_t runs_that_fit(uint64_t area_runs) const { return area_runs / topology.world * topology.world; }
};

// How often pairs are combined until the sum of that many nodes is complete.
NVRAR_HD uint32_t levels_of(uint32_t nodes) {
  uint32_t levels = 0;
  while (1u << levels < nodes) ++levels;
  return levels;
}

// Hierarchical: there are as many slices as the largest node has ranks. In a node of g ranks, slice s belongs to its
// rank s mod g.
struct HierarchicalRuns {
  Topology topology;
  uint32_t parts;  // packets for the partial sums of one packet: 2 for 16-bit floats, which are sent as float32

  NVRAR_HD uint32_t slices() const { return topology.largest; }
  NVRAR_HD uint32_t slice(uint64_t j) const { return static_cast<uint32_t>(j % slices()); }
  NVRAR_HD uint32_t owner(uint64_t j, uint32_t node) const {
    return topology.first_of(node) + slice(j) % topology.size_of(node);
  }
  // The index of run j among the runs that its owner in that node sums.
  NVRAR_HD uint64_t owned_run(uint64_t j, uint32_t node) const {
    const uint32_t size = topology.size_of(node);
    return j / slices() * slices_per_owner(size) + slice(j) / size;
  }
  NVRAR_HD uint64_t data_run(uint64_t j, uint32_t node, uint32_t source) const {
    return owned_run(j, node) * topology.size_of(node) + (source - topology.first_of(node));
  }
  // How many sums the exchange has for each owned run: of all nodes or, if these are many, of two blocks at each level
  // (doubling.h).
  NVRAR_HD uint32_t exchange_places() const {
    return topology.has_many_nodes() ? 2 * levels_of(topology.nodes()) : topology.nodes();
  }
  // The first of `parts` runs.
  NVRAR_HD uint64_t exchange_run(uint64_t j, uint32_t node, uint32_t place) const {
    return (owned_run(j, node) * exchange_places() + place) * parts;
  }
  NVRAR_HD uint64_t result_run(uint64_t j) const { return j; }
  NVRAR_HD uint64_t runs_that_fit(uint64_t area_runs) const {
    uint32_t most = 0;
    for (uint32_t node = 0; node < topology.nodes(); ++node) {
      const uint32_t needed = needs(topology.size_of(node));
      if (needed > most) most = needed;
    }
    return area_runs / most * slices();
  }

 protected:
  NVRAR_HD uint32_t slices_per_owner(uint32_t node_size) const { return (slices() + node_size - 1) / node_size; }

 private:
  // For one run of each slice: the number of runs that the fullest area of one owner needs.
  NVRAR_HD uint32_t needs(uint32_t node_size) const {
    const uint32_t exchanged = exchange_places() * parts;
    const uint32_t summed = slices_per_owner(node_size) * (node_size > exchanged ? node_size : exchanged);
    return summed > slices() ? summed : slices();
  }
};

// The hierarchical two-shot: every run is finished in one node only, in which its owner has the sums of the others.
struct HierarchicalTwoShotRuns : HierarchicalRuns {
  NVRAR_HD uint32_t finisher(uint64_t j) const { return static_cast<uint32_t>(j / slices() % topology.nodes()); }
  // The first of `parts` runs in the finisher's rings, for the sum of that other node.
  NVRAR_HD uint64_t exchange_run(uint64_t j, uint32_t node) const {
    const uint32_t own = finisher(j);
    const uint32_t size = topology.size_of(own);
    const uint64_t finished = j / slices() / topology.nodes() * slices_per_owner(size) + slice(j) / size;
    return (finished * others() + (node < own ? node : node - 1)) * parts;
  }
  NVRAR_HD uint64_t runs_that_fit(uint64_t area_runs) const {
    uint64_t rows = ~uint64_t{0};  // each a run of every slice
    for (uint32_t node = 0; node < topology.nodes(); ++node) {
      const uint32_t size = topology.size_of(node);
      const uint32_t owned = slices_per_owner(size);
      const uint64_t summed = area_runs / (owned * size);
      const uint64_t exchanged = area_runs / (owned * others() * parts) * topology.nodes();
      rows = least(rows, least(summed, exchanged));
    }
    return rows * slices();
  }

 private:
  NVRAR_HD uint32_t others() const { return topology.nodes() - 1; }
  static NVRAR_HD uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_SLICES_H
