// The arguments of the kernel for sends and receives: the transfers of one batch, by queue.
#ifndef NVRAR_CUDA_KERNELS_MOVE_TRANSFER_ARGS_H
#define NVRAR_CUDA_KERNELS_MOVE_TRANSFER_ARGS_H

#include "cuda/kernels/launch/kernel_args.h"
#include "protocol/point_to_point.h"

namespace nvrar::cuda {

// In one batch: as many as fit into the 4 KiB of a kernel's arguments.
constexpr uint32_t kMaxTransfers = 128;

// The state of one end of an ordered pair between batches. It is in device memory, because a captured batch may be
// launched many times.
struct alignas(16) PairState {
  uint64_t packets;    // sent or read so far
  uint64_t credited;   // packets known to be read: what the receiver has reported as credit
  uint64_t transfers;  // begun so far
  uint32_t busy;       // not 0 while a batch uses this end
  uint32_t steps;      // steps completed so far, which show progress
};

struct TransferItem {
  uint64_t address;
  uint64_t count;
  uint16_t type;  // NVRAR_FLOAT32 ...
  uint16_t next;  // the next one of the same queue; kNoTransfer if this is the last
  uint32_t element_bytes;
};
constexpr uint16_t kNoTransfer = 0xFFFF;

struct TransferQueue {
  uint8_t peer;    // rank; in a group that spans hosts the place in the node, of a far one the rank
  uint8_t sends;   // 1, or 0; beside it kFarQueue
  uint16_t first;  // index of the first transfer
};

// The peer is a rank of another node.
constexpr uint8_t kFarQueue = 2;

struct TransferArgs {
  KernelArgs member;                              // rings, state, page, timeout and tag
  PairState* pairs;                               // sends to each rank, then receives from each rank
  TransferQueue queues[2 * protocol::kMaxRanks];  // one block for each
  TransferItem items[kMaxTransfers];

  // The index of a queue's pair.
  static NVRAR_HD uint32_t pair_of(const TransferQueue& queue) {
    return (queue.sends != 0 ? 0 : protocol::kMaxRanks) + queue.peer;
  }
};

static_assert(sizeof(TransferArgs) <= 4096);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_MOVE_TRANSFER_ARGS_H
