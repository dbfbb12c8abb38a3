// What the kernel of sends and receives is given: the transfers of one batch, by queue.
#ifndef NVRAR_CUDA_KERNELS_TRANSFER_ARGS_H
#define NVRAR_CUDA_KERNELS_TRANSFER_ARGS_H

#include "cuda/kernels/kernel_args.h"
#include "protocol/point_to_point.h"

namespace nvrar::cuda {

constexpr uint32_t kTransferThreads = 256;
// Of one batch: what fits into a kernel's 4 KiB of arguments with the rest.
constexpr uint32_t kMaxTransfers = 128;

// One end of an ordered pair, as it stands between batches; in the device's memory, because a captured batch is
// launched many times.
struct alignas(16) PairState {
  uint64_t packets;    // sent or read so far
  uint64_t credited;   // of them read, as the receiver has told the sender
  uint64_t transfers;  // begun so far
  uint32_t busy;       // a batch has this end
  uint32_t steps;      // that it has made
};

struct TransferItem {
  uint64_t address;
  uint64_t count;
  uint16_t type;  // NVRAR_FLOAT32 ...
  uint16_t next;  // of the same queue, kNoTransfer if it is the last
  uint32_t element_bytes;
};
constexpr uint16_t kNoTransfer = 0xFFFF;

struct TransferQueue {
  uint8_t peer;
  uint8_t sends;
  uint16_t first;  // transfer
};

struct TransferArgs {
  KernelArgs member;                              // rings, state, page, limit and tag
  PairState* pairs;                               // of sends to each rank, then of receives from each
  TransferQueue queues[2 * protocol::kMaxRanks];  // one block each
  TransferItem items[kMaxTransfers];
};

static_assert(sizeof(TransferArgs) <= 4096);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_TRANSFER_ARGS_H
