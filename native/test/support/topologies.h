// The topologies in which every rule of layout and plan is tested, and the smallest ring of each.
#ifndef NVRAR_TEST_SUPPORT_TOPOLOGIES_H
#define NVRAR_TEST_SUPPORT_TOPOLOGIES_H

#include "protocol/ring_layout.h"

namespace nvrar::test {

template <uint32_t... kSizes>
constexpr protocol::NodeList kNodeList = [] {
  protocol::NodeList nodes;
  (nodes.add(kSizes), ...);
  return nodes;
}();
// Nodes of these sizes, as hosts may have them.
template <uint32_t... kSizes>
constexpr protocol::Topology nodes_of() {
  return protocol::Topology(kNodeList<kSizes...>);
}

constexpr protocol::Topology kTopologies[] = {{1, 1},
                                              {2, 2},
                                              {3, 3},
                                              {4, 4},
                                              {5, 5},
                                              {7, 7},
                                              {8, 8},
                                              {2, 1},
                                              {3, 2},
                                              {4, 1},
                                              {4, 2},
                                              {5, 2},
                                              {5, 3},
                                              {6, 2},
                                              {7, 1},
                                              {7, 3},
                                              {8, 1},
                                              {8, 2},
                                              {8, 3},
                                              {8, 4},
                                              {8, 5},
                                              {8, 7},
                                              nodes_of<2, 3>(),
                                              nodes_of<1, 7>(),
                                              nodes_of<1, 3, 2>(),
                                              nodes_of<1, 1, 1, 5>(),
                                              nodes_of<1, 1, 1, 1, 4>(),
                                              nodes_of<3, 1, 4>(),
                                              {9, 8},
                                              {9, 1},
                                              {16, 8},
                                              {24, 3},
                                              {61, 7},
                                              {64, 8},
                                              {64, 1},
                                              {512, 8},
                                              nodes_of<8, 1>(),
                                              nodes_of<1, 8>(),
                                              nodes_of<2, 8, 1, 1, 3, 1, 1, 4, 1>(),
                                              nodes_of<1, 1, 1, 1, 1, 1, 1, 1, 8, 8, 8>()};

inline uint64_t small_ring(const protocol::Topology& topology) {
  return protocol::min_ring_bytes(topology.world, topology.nodes() > 1);
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_TOPOLOGIES_H
