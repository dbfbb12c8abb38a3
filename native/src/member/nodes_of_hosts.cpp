#include "member/nodes_of_hosts.h"

#include <string>

#include "common/error.h"

namespace nvrar {
namespace {

using protocol::NodeList;
using protocol::Topology;

[[noreturn]] void refuse(nvrar_status status, const std::string& sentence) { throw Error(status, sentence); }

std::string name(uint32_t rank) { return "rank " + std::to_string(rank); }

void add_node(NodeList* nodes, uint32_t size) {
  if (nodes->has_room(size)) return nodes->add(size);
  if (size > protocol::kMaxRanks) {
    refuse(NVRAR_INVALID_ARGUMENT, std::to_string(size) + " ranks from " + name(nodes->world()) +
                                       " on are in one node, which has at most " + std::to_string(protocol::kMaxRanks));
  }
  refuse(NVRAR_INVALID_ARGUMENT, name(nodes->world()) + " is in node " + std::to_string(nodes->count + 1) +
                                     " of the group, which has at most " + std::to_string(protocol::kMaxNodes));
}

// A host per node. Throws if the ranks of a host are not consecutive.
NodeList nodes_of_hosts(const std::vector<Descriptor>& descriptors) {
  NodeList nodes;
  const auto world = static_cast<uint32_t>(descriptors.size());
  uint32_t first = 0;
  for (uint32_t rank = 1; rank < world; ++rank) {
    if (descriptors[rank].host == descriptors[rank - 1].host) continue;
    for (uint32_t before = 0; before + 1 < rank; ++before) {
      if (!(descriptors[before].host == descriptors[rank].host)) continue;
      refuse(NVRAR_INVALID_ARGUMENT, "the ranks of a host must be consecutive: " + name(rank) + " is on the host of " +
                                         name(before) + ", and " + name(rank - 1) + " between them is on another");
    }
    add_node(&nodes, rank - first);
    first = rank;
  }
  add_node(&nodes, world - first);
  return nodes;
}

NodeList nodes_of(const Topology& topology) {
  NodeList nodes;
  for (uint32_t node = 0; node < topology.nodes(); ++node) add_node(&nodes, topology.size_of(node));
  return nodes;
}

}  // namespace

NodeLayout node_layout_of(const std::vector<Descriptor>& descriptors, uint32_t rank, int32_t links,
                          const protocol::RingLayout& prepared) {
  bool spans = false;
  for (const Descriptor& descriptor : descriptors) spans = spans || !(descriptor.host == descriptors[rank].host);
  if (spans && prepared.topology.nodes() > 1) {
    refuse(NVRAR_INVALID_ARGUMENT, "ranks_per_node " + std::to_string(prepared.topology.largest) +
                                       " divides the ranks of one host into nodes, and these are on several hosts");
  }
  NodeLayout layout{spans ? nodes_of_hosts(descriptors) : nodes_of(prepared.topology), {}};
  const uint32_t world = prepared.topology.world;
  const auto node_of = [&](uint32_t peer) { return layout.nodes.node_of[peer]; };
  if (spans || links == NVRAR_LINKS_BETWEEN_NODES) {
    for (uint32_t peer = 0; peer < world; ++peer) {
      if (node_of(peer) != node_of(rank)) layout.remote.add(peer);
    }
  }
  if (layout.remote.empty()) return layout;
  uint32_t other = 0;  // a rank that is not in rank 0's node
  while (node_of(other) == 0) ++other;
  const HostKey& first = descriptors[0].host;
  const HostKey& second = descriptors[other].host;
  const std::string apart =
      second == first             ? name(other) + " is in another node than " + name(0) + " and to be linked (links)"
      : second.same_kernel(first) ? name(other) + " is in another PID or user namespace of the host of " + name(0) +
                                        " (containers need to share both)"
                                  : name(other) + " is on another host than " + name(0);
  for (uint32_t peer = 0; peer < world; ++peer) {
    if (descriptors[peer].link.exists()) continue;
    refuse(NVRAR_UNAVAILABLE, apart + ", and " + name(peer) + " has no address for links (link_address)");
  }
  const uint64_t least = protocol::min_ring_bytes(world, true);
  if (prepared.ring_bytes < least) {
    refuse(NVRAR_INVALID_ARGUMENT, "ring_bytes " + std::to_string(prepared.ring_bytes) +
                                       " is too small for ranks on several hosts, which need " + std::to_string(least));
  }
  return layout;
}

std::vector<link::Remote> remotes_of(const std::vector<Descriptor>& descriptors, uint32_t rank, const RankSet& remote) {
  std::vector<link::Remote> remotes;
  const Descriptor& own = descriptors[rank];
  remote.each([&](uint32_t peer) {
    const Descriptor& other = descriptors[peer];
    const bool shares_network = other.host.same_kernel(own.host) && own.network_namespace != 0 &&
                                other.network_namespace == own.network_namespace;
    remotes.push_back({peer, other.link, shares_network});
  });
  return remotes;
}

}  // namespace nvrar
