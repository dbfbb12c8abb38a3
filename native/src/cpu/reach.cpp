#include "cpu/reach.h"

#include <algorithm>
#include <string>

#include "common/error.h"

namespace nvrar::cpu {
namespace {

using protocol::Topology;

[[noreturn]] void refuse(nvrar_status status, const std::string& sentence) { throw Error(status, sentence); }

std::string name(uint32_t rank) { return "rank " + std::to_string(rank); }

// A host per node. Throws if the ranks of a host are not consecutive.
Topology topology_of_hosts(const std::vector<Descriptor>& descriptors) {
  Topology topology;
  topology.world = static_cast<uint32_t>(descriptors.size());
  for (uint32_t rank = 0; rank < topology.world; ++rank) {
    if (rank != 0 && descriptors[rank].host == descriptors[rank - 1].host) continue;
    for (uint32_t before = 0; before + 1 < rank; ++before) {
      if (!(descriptors[before].host == descriptors[rank].host)) continue;
      refuse(NVRAR_INVALID_ARGUMENT, "the ranks of a host must be consecutive: " + name(rank) + " is on the host of " +
                                         name(before) + ", and " + name(rank - 1) + " between them is on another");
    }
    topology.firsts |= 1u << rank;
  }
  for (uint32_t node = 0; node < topology.nodes(); ++node) {
    topology.largest = std::max(topology.largest, topology.size_of(node));
  }
  return topology;
}

}  // namespace

Reach reach_of(const std::vector<Descriptor>& descriptors, uint32_t rank, int32_t links,
               const protocol::RingLayout& prepared) {
  Reach reach{prepared.topology, 0};
  const uint32_t world = prepared.topology.world;
  bool spans = false;
  for (const Descriptor& descriptor : descriptors) spans = spans || !(descriptor.host == descriptors[rank].host);
  if (spans) {
    if (prepared.topology.nodes() > 1) {
      refuse(NVRAR_INVALID_ARGUMENT, "ranks_per_node " + std::to_string(prepared.topology.largest) +
                                         " divides the ranks of one host into nodes, and these are on several hosts");
    }
    reach.topology = topology_of_hosts(descriptors);
  }
  if (spans || links == NVRAR_LINKS_BETWEEN_NODES) {
    for (uint32_t peer = 0; peer < world; ++peer) {
      if (reach.topology.node_of(peer) != reach.topology.node_of(rank)) reach.remote |= 1u << peer;
    }
  }
  if (reach.remote == 0) return reach;
  uint32_t other = 0;  // a rank that is not in rank 0's node
  while (reach.topology.node_of(other) == 0) ++other;
  for (uint32_t peer = 0; peer < world; ++peer) {
    if (descriptors[peer].link.exists()) continue;
    refuse(NVRAR_UNAVAILABLE, name(other) + " is on another host than " + name(0) + ", and " + name(peer) +
                                  " has no address for links (link_address)");
  }
  if (prepared.ring_bytes < protocol::kMinRingBytesOfNodes) {
    refuse(NVRAR_INVALID_ARGUMENT, "ring_bytes " + std::to_string(prepared.ring_bytes) +
                                       " is too small for ranks on several hosts, which need " +
                                       std::to_string(protocol::kMinRingBytesOfNodes));
  }
  return reach;
}

}  // namespace nvrar::cpu
