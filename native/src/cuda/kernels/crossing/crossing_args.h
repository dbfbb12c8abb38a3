// The arguments of the kernels of groups that span nodes. Compiled for the host and the device.
#ifndef NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H
#define NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H

#include <cstddef>

#include "cuda/kernels/launch/kernel_args.h"
#include "cuda/kernels/move/transfer_args.h"
#include "protocol/crossing.h"

namespace nvrar::cuda {

// `member` has the rings of the node's ranks only. A failure names ranks by their place in the node.
struct CrossingArgs {
  KernelArgs member;
  protocol::CrossingMemory memory;
  protocol::CrossingShape shape;
};
static_assert(offsetof(CrossingArgs, memory) % 8 == 0 && sizeof(protocol::CrossingMemory) == 48);

// A batch of transfers, as TransferArgs. The rank and the peers within the node are places in it.
struct CrossingTransferArgs {
  static constexpr uint32_t kMostQueues = 64;

  KernelArgs member;
  PairState* pairs;  // as TransferArgs has them, then sends to each rank and receives from each rank of other nodes
  protocol::CrossingMemory memory;
  TransferQueue queues[kMostQueues];
  TransferItem items[kMaxTransfers];

  static constexpr uint32_t kPairs = 2 * (protocol::kMaxRanks + protocol::kMaxGpuWorld);
  static NVRAR_HD uint32_t pair_of(const TransferQueue& queue) {
    if ((queue.sends & kFarQueue) == 0) return TransferArgs::pair_of(queue);
    const bool sends = (queue.sends & ~kFarQueue) != 0;
    return 2 * protocol::kMaxRanks + (sends ? 0 : protocol::kMaxGpuWorld) + queue.peer;
  }
};
static_assert(sizeof(CrossingTransferArgs) <= 4096);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_CROSSING_CROSSING_ARGS_H
