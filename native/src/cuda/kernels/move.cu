// Collectives that move bytes, and the barrier.
#include "call/algorithm.h"
#include "kernels/warp_lane.cuh"
#include "protocol/data_movement.h"

namespace nvrar::cuda {
namespace {

__device__ bool run(const KernelArgs& args, const protocol::Launch& launch) {
  WarpLane<NoSums> lane(args, launch.topology(), launch.rank);
  switch (static_cast<Algorithm>(args.algorithm)) {
    case Algorithm::kAllGather:
      return protocol::all_gather(lane, launch);
    case Algorithm::kAllToAll:
      return protocol::all_to_all(lane, launch);
    case Algorithm::kBroadcast:
      return protocol::broadcast(lane, launch);
    case Algorithm::kBarrier:
      return protocol::barrier(lane, launch);
    default:  // a group of one
      lane.copy(launch.recv, launch.send, launch.bytes);
      return true;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kMoveWarps* kWarpThreads, kPlaces)
    nvrar_move(const __grid_constant__ Launched<KernelArgs> launched) {
  const KernelArgs& args = args_of(launched);
  protocol::Launch launch = args.launch;
  Entry entry(args);
  launch.epoch = entry.epoch();
  if (launch.epoch == 0) return;
  entry.look_back(launch.epoch);
  (void)run(args, launch);
  entry.leave(launch.epoch);
}

}  // namespace nvrar::cuda
