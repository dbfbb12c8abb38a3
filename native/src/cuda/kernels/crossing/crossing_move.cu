#include "call/steps.h"
#include "kernels/crossing/crossing_port.cuh"

namespace nvrar::cuda {
namespace {

struct CrossingMove {
  static __device__ __forceinline__ void run(const CrossingArgs& args, const protocol::Launch& launch) {
    CrossingPort<NoSums> port(args, launch, protocol::MessageRuns<MarkedPacket>{launch.bytes}.count());
    (void)crossing_move_steps<MarkedPacket>(port, static_cast<Algorithm>(args.member.algorithm), launch);
  }
};

}  // namespace

NVRAR_KERNEL_OF(CrossingArgs, crossing_move, kWorkerWarps* kWarpThreads, 0, run_crossing<CrossingMove>)

}  // namespace nvrar::cuda
