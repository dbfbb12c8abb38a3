// Which ranks of a group share memory, and the nodes that follow: a pure function of the descriptors, so that all ranks
// agree.
#ifndef NVRAR_CPU_REACH_H
#define NVRAR_CPU_REACH_H

#include <cstdint>
#include <vector>

#include "backend/descriptor.h"
#include "common/rank_set.h"
#include "protocol/ring_layout.h"

namespace nvrar::cpu {

struct Reach {
  protocol::NodeList nodes;
  RankSet remote;  // the ranks that `rank` reaches by links only
};

// prepared: with the topology of the configuration. Throws NVRAR_UNAVAILABLE or NVRAR_INVALID_ARGUMENT with a sentence
// that says why these hosts cannot form the group.
Reach reach_of(const std::vector<Descriptor>& descriptors, uint32_t rank, int32_t links,
               const protocol::RingLayout& prepared);

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_REACH_H
