// The collectives that sum, by the steps of protocol/: for every type, operator, world size and topology. Groups in one
// node have kernels of their own, which use fewer registers than those for several nodes and hardly any local memory.
#pragma once

#include "call/steps.h"
#include "kernels/steps/warp_port.cuh"
#include "protocol/element_types.h"

namespace nvrar::cuda {

// Packets: the only packet kind that the type's sums use on GPUs.
template <class Element, class Packets, bool kNodes>
struct SumSteps {
  static __device__ __forceinline__ void run(const KernelArgs& args, const protocol::Launch& launch) {
    if constexpr (Packets::kKind == protocol::PacketKind::kSentinel) {
      static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");
    }
    WarpPort<Sums<Element, Packets::kPayloadBytes, kNodes>> port(args, launch.topology(), launch.rank);
    (void)sum_steps<Packets, kNodes>(port, static_cast<Algorithm>(args.algorithm), launch);
  }
};

}  // namespace nvrar::cuda

// The kernels for one row of protocol/element_types.h.
#define NVRAR_SUM_KERNEL(code, name, element, packets, ...)                      \
  NVRAR_KERNEL(sum_##name, kWorkerWarps* kWarpThreads, kPlaces,                  \
               run_steps<SumSteps<protocol::element, protocol::packets, false>>) \
  NVRAR_KERNEL(sum_nodes_##name, kWorkerWarps* kWarpThreads, 0,                  \
               run_steps<SumSteps<protocol::element, protocol::packets, true>>)
