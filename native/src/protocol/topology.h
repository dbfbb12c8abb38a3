// Which ranks share a node. The order of sums depends only on this (protocol.md 10).
#ifndef NVRAR_PROTOCOL_TOPOLOGY_H
#define NVRAR_PROTOCOL_TOPOLOGY_H

#include "protocol/packet.h"

namespace nvrar::protocol {

constexpr uint32_t kMaxRanks = 8;

// The ranks of a node are consecutive. Nodes may differ in size.
struct Topology {
  uint32_t world = 0;
  uint32_t largest = 0;  // the ranks of the largest node
  uint32_t firsts = 0;   // bit r: rank r is the first of its node

  constexpr Topology() = default;
  // Every node has ranks_per_node ranks, between 1 and world; the last node may have fewer.
  NVRAR_HD constexpr Topology(uint32_t ranks, uint32_t ranks_per_node) : world(ranks), largest(ranks_per_node) {
    for (uint32_t first = 0; first < ranks; first += ranks_per_node) firsts |= 1u << first;
  }

#if defined(__CUDA_ARCH__)
  // Groups on GPUs cannot span hosts yet, so only their last node may differ; this takes fewer registers.
  NVRAR_HD uint32_t nodes() const { return (world + largest - 1) / largest; }
  NVRAR_HD uint32_t node_of(uint32_t rank) const { return rank / largest; }
  NVRAR_HD bool is_first(uint32_t rank) const { return rank % largest == 0; }
  NVRAR_HD uint32_t first_of(uint32_t node) const { return node * largest; }
  NVRAR_HD uint32_t size_of(uint32_t node) const {
    const uint32_t left = world - first_of(node);
    return left < largest ? left : largest;
  }
#else
  // The number of bits that are set below and at a rank's is that of the nodes up to the rank's own.
  NVRAR_HD uint32_t nodes() const { return count_ones(firsts); }
  NVRAR_HD uint32_t node_of(uint32_t rank) const { return count_ones(firsts & ((2u << rank) - 1)) - 1; }
  NVRAR_HD bool is_first(uint32_t rank) const { return (firsts >> rank & 1) != 0; }
  NVRAR_HD uint32_t first_of(uint32_t node) const {
    uint32_t left = firsts;
    for (uint32_t i = 0; i < node; ++i) left &= left - 1;  // without its lowest bit
    return left == 0 ? world : lowest_one(left);
  }
  NVRAR_HD uint32_t size_of(uint32_t node) const { return first_of(node + 1) - first_of(node); }
#endif
  // Whether all ranks are in one node.
  NVRAR_HD bool is_one_node() const { return largest == world; }

 private:
  static NVRAR_HD uint32_t count_ones(uint32_t word) { return static_cast<uint32_t>(__builtin_popcount(word)); }
  static NVRAR_HD uint32_t lowest_one(uint32_t word) { return static_cast<uint32_t>(__builtin_ctz(word)); }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TOPOLOGY_H
