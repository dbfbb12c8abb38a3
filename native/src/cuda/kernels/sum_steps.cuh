// The collectives that sum, by the steps of protocol/: for every type, operator, world and topology. Groups in one node
// have kernels of their own, which take fewer registers than those for several nodes, and hardly any memory.
#pragma once

#include "call/algorithm.h"
#include "kernels/warp_lane.cuh"
#include "protocol/element_types.h"
#include "protocol/hierarchical.h"
#include "protocol/one_shot.h"
#include "protocol/two_shot.h"

namespace nvrar::cuda {

template <class Element, class Packets, bool kNodes>
__device__ __forceinline__ bool run_sum(const KernelArgs& args, const protocol::Launch& launch) {
  WarpLane<Sums<Element, Packets::kPayloadBytes, kNodes>> lane(args, launch.topology(), launch.rank);
  switch (static_cast<Algorithm>(args.algorithm)) {
    case Algorithm::kTwoShot:
      return protocol::two_shot<Packets>(lane, launch);
    case Algorithm::kHierarchical:
      if constexpr (kNodes) {
        protocol::DirectExchange exchange;
        return protocol::hierarchical<Packets>(lane, exchange, launch);
      }
      return false;
    case Algorithm::kReduce:
      return protocol::reduce<Packets>(lane, launch);
    case Algorithm::kReduceScatter:
      return protocol::reduce_scatter<Packets>(lane, launch);
    default:
      return protocol::one_shot<Packets>(lane, launch);
  }
}

// Packets: the one kind that the type's sums use.
template <class Element, class Packets, bool kNodes>
__device__ __forceinline__ void sum_kernel(const KernelArgs& args) {
  if constexpr (Packets::kKind == protocol::PacketKind::kSentinel) {
    static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");
  }
  protocol::Launch launch = args.launch;
  Entry entry(args);
  launch.epoch = entry.epoch();
  if (launch.epoch == 0) return;
  entry.look_back(launch.epoch);
  (void)run_sum<Element, Packets, kNodes>(args, launch);
  entry.leave(launch.epoch);
}

}  // namespace nvrar::cuda

// Of a row of protocol/element_types.h.
#define NVRAR_SUM_KERNEL(code, name, element, packets, ...)                           \
  extern "C" __global__ void __launch_bounds__(kWorkerWarps* kWarpThreads, kPlaces)   \
      nvrar_sum_##name(const __grid_constant__ Launched<KernelArgs> launched) {       \
    sum_kernel<protocol::element, protocol::packets, false>(args_of(launched));       \
  }                                                                                   \
  extern "C" __global__ void __launch_bounds__(kWorkerWarps* kWarpThreads)            \
      nvrar_sum_nodes_##name(const __grid_constant__ Launched<KernelArgs> launched) { \
    sum_kernel<protocol::element, protocol::packets, true>(args_of(launched));        \
  }
