// Maps an algorithm to its steps in protocol/. This is the only such switch; both backends and the trace of the tests
// use it. Compiled for host and device.
#ifndef NVRAR_CALL_STEPS_H
#define NVRAR_CALL_STEPS_H

#include "call/algorithm.h"
#include "protocol/crossing_steps.h"
#include "protocol/doubling.h"
#include "protocol/hierarchical_two_shot.h"
#include "protocol/one_shot.h"
#include "protocol/two_shot.h"

namespace nvrar {

// Of an algorithm that moves data.
NVRAR_HD constexpr protocol::Movement movement_of(Algorithm algorithm) {
  return algorithm == Algorithm::kAllToAll    ? protocol::Movement::kAllToAll
         : algorithm == Algorithm::kBroadcast ? protocol::Movement::kBroadcast
                                              : protocol::Movement::kAllGather;
}

// False: the launch has failed, return at once. Also false for an algorithm that sums.
template <class Packets, class Port>
NVRAR_HD bool move_steps(Port& port, Algorithm algorithm, const protocol::Launch& launch) {
  switch (algorithm) {
    case Algorithm::kCopy:
      port.copy(launch.recv, launch.send, launch.bytes);
      return true;
    case Algorithm::kAllGather:
      return protocol::move_data<protocol::Movement::kAllGather, Packets>(port, launch);
    case Algorithm::kAllToAll:
      return protocol::move_data<protocol::Movement::kAllToAll, Packets>(port, launch);
    case Algorithm::kBroadcast:
      return protocol::move_data<protocol::Movement::kBroadcast, Packets>(port, launch);
    case Algorithm::kBarrier:
      return protocol::barrier(port, launch);
    default:
      return false;
  }
}

// kNodes: whether the port can sum over several nodes; if not, there is no hierarchical all-reduce. False: the launch
// has failed, return at once. Also false for an algorithm that does not sum.
template <class Packets, bool kNodes, class Port>
NVRAR_HD bool sum_steps(Port& port, Algorithm algorithm, const protocol::Launch& launch) {
  switch (algorithm) {
    case Algorithm::kOneShot:
      return protocol::one_shot<Packets>(port, launch);
    case Algorithm::kTwoShot:
      return protocol::two_shot<Packets>(port, launch);
    case Algorithm::kHierarchical:
      if constexpr (kNodes) {
#if !defined(__CUDACC__)  // groups on GPUs have no more nodes than this
        if (launch.topology().has_many_nodes()) return protocol::hierarchical_by_doubling<Packets>(port, launch);
#endif
        protocol::DirectExchange exchange;
        return protocol::hierarchical<Packets>(port, exchange, launch);
      }
      return false;
#if !defined(__CUDACC__)
    case Algorithm::kHierarchicalTwoShot:
      return protocol::hierarchical_two_shot<Packets>(port, launch);
#endif
    case Algorithm::kReduce:
      return protocol::reduce<Packets>(port, launch);
    case Algorithm::kReduceScatter:
      return protocol::reduce_scatter<Packets>(port, launch);
    default:
      return false;
  }
}

// Of groups whose data crosses between nodes. False: the launch has failed.
template <class Packets, class Port>
NVRAR_HD bool crossing_sum_steps(Port& port, Algorithm algorithm, const protocol::Launch& launch) {
  if (algorithm == Algorithm::kHierarchical) return protocol::crossing_hierarchical<Packets>(port, launch);
  return protocol::crossing_one_hop_sum<Packets>(port, launch, algorithm == Algorithm::kOneShot,
                                                 algorithm == Algorithm::kReduce);
}
template <class Packets, class Port>
NVRAR_HD bool crossing_move_steps(Port& port, Algorithm algorithm, const protocol::Launch& launch) {
  switch (algorithm) {
    case Algorithm::kAllGather:
      return protocol::crossing_move<protocol::Movement::kAllGather, Packets>(port, launch);
    case Algorithm::kAllToAll:
      return protocol::crossing_move<protocol::Movement::kAllToAll, Packets>(port, launch);
    case Algorithm::kBroadcast:
      return protocol::crossing_move<protocol::Movement::kBroadcast, Packets>(port, launch);
    case Algorithm::kBarrier:
      return !port.checks() || protocol::exchange_crossing_headers(port, launch);
    default:
      return false;
  }
}

}  // namespace nvrar

#endif  // NVRAR_CALL_STEPS_H
