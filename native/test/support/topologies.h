// The topologies in which every rule of layout and plan is tested, and the smallest ring of each.
#ifndef NVRAR_TEST_SUPPORT_TOPOLOGIES_H
#define NVRAR_TEST_SUPPORT_TOPOLOGIES_H

#include <initializer_list>

#include "protocol/ring_layout.h"

namespace nvrar::test {

// Nodes of these sizes, as hosts may have them.
constexpr protocol::Topology nodes_of(std::initializer_list<uint32_t> sizes) {
  protocol::Topology topology;
  for (const uint32_t size : sizes) {
    topology.firsts |= 1u << topology.world;
    topology.world += size;
    topology.largest = size > topology.largest ? size : topology.largest;
  }
  return topology;
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
                                              nodes_of({2, 3}),
                                              nodes_of({1, 7}),
                                              nodes_of({1, 3, 2}),
                                              nodes_of({1, 1, 1, 5}),
                                              nodes_of({1, 1, 1, 1, 4}),
                                              nodes_of({3, 1, 4})};

inline uint64_t small_ring(const protocol::Topology& topology) {
  return topology.nodes() == 1 ? protocol::kMinRingBytes : protocol::kMinRingBytesOfNodes;
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_TOPOLOGIES_H
