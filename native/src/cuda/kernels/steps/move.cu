// Collectives that move bytes, and the barrier, by the steps of protocol/: for every address and count.
#include "call/steps.h"
#include "kernels/steps/warp_port.cuh"

namespace nvrar::cuda {
namespace {

struct Move {
  static __device__ __forceinline__ void run(const KernelArgs& args, const protocol::Launch& launch) {
    WarpPort<NoSums> port(args, launch.topology(), launch.rank);
    (void)move_steps<protocol::MarkedPacket>(port, static_cast<Algorithm>(args.algorithm), launch);
  }
};

}  // namespace

NVRAR_KERNEL(move, kWorkerWarps* kWarpThreads, kPlaces, run_steps<Move>)

}  // namespace nvrar::cuda
