// Which ranks share a node. The order of sums depends only on this (protocol.md 10).
#ifndef NVRAR_PROTOCOL_TOPOLOGY_H
#define NVRAR_PROTOCOL_TOPOLOGY_H

#include "protocol/packet.h"

namespace nvrar::protocol {

constexpr uint32_t kMaxRanks = 8;

// Each node has ranks_per_node consecutive ranks; the last node may have fewer.
struct Topology {
  uint32_t world;
  uint32_t ranks_per_node;  // between 1 and world

  NVRAR_HD uint32_t nodes() const { return (world + ranks_per_node - 1) / ranks_per_node; }
  NVRAR_HD uint32_t node_of(uint32_t rank) const { return rank / ranks_per_node; }
  NVRAR_HD uint32_t first_of(uint32_t node) const { return node * ranks_per_node; }
  NVRAR_HD uint32_t size_of(uint32_t node) const {
    const uint32_t left = world - first_of(node);
    return left < ranks_per_node ? left : ranks_per_node;
  }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TOPOLOGY_H
