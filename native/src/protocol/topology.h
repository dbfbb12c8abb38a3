// Which ranks share a node. The order of sums depends only on this (protocol.md 10).
#ifndef NVRAR_PROTOCOL_TOPOLOGY_H
#define NVRAR_PROTOCOL_TOPOLOGY_H

#include "protocol/packet.h"

namespace nvrar::protocol {

constexpr uint32_t kMaxRanks = 8;  // of a node
constexpr uint32_t kMaxNodes = 64;
constexpr uint32_t kMaxWorld = kMaxNodes * kMaxRanks;

// The sizes of a group's nodes, as a table of what the steps ask.
struct NodeList {
  uint32_t count = 0;
  uint32_t largest = 0;
  uint16_t first[kMaxNodes + 1] = {};  // of each node; behind the last one, the number of ranks
  uint8_t node_of[kMaxWorld] = {};

  constexpr uint32_t world() const { return first[count]; }
  // Whether one more node of this size is not too many.
  constexpr bool has_room(uint32_t size) const { return count < kMaxNodes && size <= kMaxRanks; }
  constexpr void add(uint32_t size) {
    const uint32_t begin = first[count];
    for (uint32_t rank = begin; rank < begin + size; ++rank) node_of[rank] = static_cast<uint8_t>(count);
    first[++count] = static_cast<uint16_t>(begin + size);
    if (size > largest) largest = size;
  }
};

// The ranks of a node are consecutive. Nodes may differ in size. For host and device it has the same size and
// alignment, because kernels get one from the host.
struct alignas(8) Topology {
  uint32_t world = 0;
  uint32_t largest = 0;  // the ranks of the largest node
#if defined(__CUDACC__)
  uint64_t firsts = 0;  // bit r: rank r is the first of its node
#else
  // Outlives this. Null: all nodes have `largest` ranks, the last one may have fewer.
  const NodeList* list = nullptr;
#endif

  constexpr Topology() = default;
  // Every node has ranks_per_node ranks, between 1 and world; the last node may have fewer.
  NVRAR_HD constexpr Topology(uint32_t ranks, uint32_t ranks_per_node) : world(ranks), largest(ranks_per_node) {
#if defined(__CUDACC__)
    // Nothing asks for it, but without it nvcc takes a register more in some kernels.
    for (uint32_t first = 0; first < ranks; first += ranks_per_node) firsts |= uint64_t{1} << first;
#endif
  }

#if defined(__CUDACC__)
  NVRAR_HD uint32_t nodes() const { return static_cast<uint32_t>(__popcll(firsts)); }
  NVRAR_HD uint32_t node_of(uint32_t rank) const {
    return static_cast<uint32_t>(__popcll(firsts & (~uint64_t{0} >> (63 - rank)))) - 1;
  }
  NVRAR_HD bool is_first(uint32_t rank) const { return (firsts >> rank & 1) != 0; }
  NVRAR_HD uint32_t first_of(uint32_t node) const {
    uint64_t left = firsts;
    for (; node != 0; --node) left &= left - 1;
    return static_cast<uint32_t>(__ffsll(static_cast<long long>(left))) - 1;
  }
  NVRAR_HD static constexpr bool is_large() { return false; }
  NVRAR_HD static constexpr bool has_many_nodes() { return false; }
  NVRAR_HD uint32_t size_of(uint32_t node) const {
    const uint32_t first = first_of(node);
    const uint64_t behind = firsts >> first >> 1;
    return behind == 0 ? world - first : static_cast<uint32_t>(__ffsll(static_cast<long long>(behind)));
  }
#else
  explicit constexpr Topology(const NodeList& nodes) : world(nodes.world()), largest(nodes.largest), list(&nodes) {}
  NVRAR_HD uint32_t nodes() const { return list != nullptr ? list->count : (world + largest - 1) / largest; }
  NVRAR_HD uint32_t node_of(uint32_t rank) const { return list != nullptr ? list->node_of[rank] : rank / largest; }
  NVRAR_HD bool is_first(uint32_t rank) const { return first_of(node_of(rank)) == rank; }
  NVRAR_HD uint32_t first_of(uint32_t node) const { return list != nullptr ? list->first[node] : node * largest; }
  // Whether there are more ranks than a node may have. Their evidence passes through the nodes (call_header.h).
  NVRAR_HD bool is_large() const { return world > kMaxRanks; }
  // Whether there are so many nodes that they do not send their sums to all others (doubling.h).
  NVRAR_HD bool has_many_nodes() const { return is_large() && nodes() > kMaxRanks; }
  NVRAR_HD uint32_t size_of(uint32_t node) const {
    if (list != nullptr) return list->first[node + 1] - list->first[node];
    const uint32_t left = world - first_of(node);
    return left < largest ? left : largest;
  }
#endif
  // Whether all ranks are in one node.
  NVRAR_HD bool is_one_node() const { return largest == world; }
  // Whether the order of sums is that of the ranks, without a sum of a node that would be rounded or kept apart.
  NVRAR_HD bool sums_in_rank_order() const { return is_one_node() || (largest == 1 && nodes() <= 3); }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TOPOLOGY_H
