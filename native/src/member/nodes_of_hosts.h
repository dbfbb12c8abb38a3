// Which ranks of a group share memory, and the nodes that follow: a pure function of the descriptors, so that all ranks
// agree.
#ifndef NVRAR_MEMBER_NODES_OF_HOSTS_H
#define NVRAR_MEMBER_NODES_OF_HOSTS_H

#include <cstdint>
#include <vector>

#include "common/rank_set.h"
#include "link/candidate.h"
#include "member/descriptor.h"
#include "protocol/ring_layout.h"

namespace nvrar {

struct NodeLayout {
  protocol::NodeList nodes;
  RankSet remote;  // the ranks that `rank` reaches by links only
};

// prepared: with the topology of the configuration. Throws NVRAR_UNAVAILABLE or NVRAR_INVALID_ARGUMENT with a sentence
// that says why these hosts cannot form the group.
NodeLayout node_layout_of(const std::vector<Descriptor>& descriptors, uint32_t rank, int32_t links,
                          const protocol::RingLayout& prepared);

// How this rank reaches those.
std::vector<link::Remote> remotes_of(const std::vector<Descriptor>& descriptors, uint32_t rank, const RankSet& remote);

}  // namespace nvrar

#endif  // NVRAR_MEMBER_NODES_OF_HOSTS_H
