// Sends and receives: one block for each queue.
#include "kernels/move/transfer_end.cuh"

namespace nvrar::cuda {
namespace {

__device__ __forceinline__ void run_queue(const TransferArgs& args) {
  run_transfers<End<TransferArgs>>(args, args.queues[block_index()]);
  __syncthreads();
  if (threadIdx.x == 0) count_ended(args.member, blockDim.x / kWarpThreads);
}

}  // namespace

NVRAR_KERNEL_OF(TransferArgs, transfer, kTransferThreads, 0, run_queue)

}  // namespace nvrar::cuda
