// Sends and receives of a group that spans nodes: one block for each queue. What goes to other nodes crosses through
// the rings of the arena (protocol/crossing.h, TransferLine).
#include "kernels/crossing/far_wait.cuh"
#include "kernels/move/transfer_end.cuh"

namespace nvrar::cuda {
namespace {

class FarEnd : public PairUse<CrossingTransferArgs, true> {
 public:
  __device__ FarEnd(const CrossingTransferArgs& batch, const TransferQueue& queue) : PairUse(batch, queue) {
    const protocol::CrossingLayout& layout = batch.memory.layout;
    line_ = reinterpret_cast<protocol::TransferLine*>(batch.memory.arena + layout.transfer_line(peer_));
    ring_ =
        reinterpret_cast<uint64_t*>(batch.memory.arena + (sends_ ? layout.outgoing(peer_) : layout.incoming(peer_)));
  }

  __device__ bool run(const TransferItem& item) {
    return move_all(item, kStep,
                    [&](const TransferHeader& header, uint64_t bytes, uint64_t moved, uint64_t total, uint64_t* count) {
                      return sends_ ? push(item, header, bytes, moved, count)
                                    : pull(item, header, bytes, moved, total, count);
                    });
  }

 private:
  static constexpr uint64_t kSlots = protocol::kTransferSlots;
  static constexpr uint64_t kStep = kSlots / protocol::kStepsPerRing;
  static constexpr uint32_t kLoadsAtOnce = 8;

  // Sends as many packets as there is room for, at least one.
  __device__ bool push(const TransferItem& item, const TransferHeader& header, uint64_t bytes, uint64_t moved,
                       uint64_t* count) {
    if (packets_ - credited_ == kSlots && !await(&line_->credited, credited_, 1, &credited_)) return false;
    const uint64_t room = kSlots - (packets_ - credited_);
    if (*count > room) *count = room;
    for (uint64_t i = threadIdx.x; i < *count; i += blockDim.x) {
      ring_[(packets_ + i) % kSlots] = payload(item, header, bytes, moved + i);
    }
    packets_ += *count;
    __syncthreads();
    if (threadIdx.x == 0) CrossingAccess::ring(&line_->written, packets_);
    note_step();
    return true;
  }

  // Takes what has arrived, at least one packet, and of a transfer's beginning its header.
  __device__ bool pull(const TransferItem& item, const TransferHeader& header, uint64_t bytes, uint64_t moved,
                       uint64_t total, uint64_t* count) {
    uint64_t arrived;
    if (!await(&line_->arrived, packets_, moved == 0 ? TransferHeader::kPackets : 1, &arrived)) return false;
    if (*count > arrived - packets_) *count = arrived - packets_;
    if (moved == 0) {
      TransferHeader theirs{};
      for (uint32_t i = 0; i < TransferHeader::kPackets; ++i) theirs.take(i, far_word(packets_ + i));
      if (!(theirs == header)) {  // for all threads
        const bool tells = threadIdx.x == 0 && fail_far(args_, FailureKind::kMismatch, uint64_t{1} << peer_);
        if (tells) show_difference(header, theirs);
        return false;
      }
    }
#pragma unroll 1
    for (uint64_t first = threadIdx.x; first < *count; first += blockDim.x * kLoadsAtOnce) {
      uint64_t words[kLoadsAtOnce];
      // Without a branch between them, or one load would wait for the other: behind the end the last one again.
#pragma unroll
      for (uint32_t i = 0; i < kLoadsAtOnce; ++i) {
        const uint64_t at = first + uint64_t{i} * blockDim.x;
        words[i] = far_word(packets_ + (at < *count ? at : *count - 1));
      }
#pragma unroll
      for (uint32_t i = 0; i < kLoadsAtOnce; ++i) {
        const uint64_t at = first + uint64_t{i} * blockDim.x;
        if (at >= *count || moved + at < TransferHeader::kPackets) continue;
        const uint64_t offset = (moved + at - TransferHeader::kPackets) * kPayloadBytes;
        store_user<kPayloadBytes>(reinterpret_cast<uint8_t*>(item.address + offset), packet_of(words[i], 0),
                                  length(bytes, offset));
      }
    }
    packets_ += *count;
    __syncthreads();
    note_step();
    if (packets_ - credited_ < kStep && moved + *count != total) return true;
    credited_ = packets_;
    if (threadIdx.x == 0) CrossingAccess::ring(&line_->read, packets_);
    return true;
  }

  __device__ uint64_t far_word(uint64_t number) const {
    uint64_t word;
    asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(word) : "l"(ring_ + number % kSlots) : "memory");
    return word;
  }

  // Waits until a count of the proxy is at least so much more than is known; by one thread.
  __device__ bool await(const uint64_t* word, uint64_t known, uint64_t least, uint64_t* value) const {
    __shared__ uint64_t seen;
    __shared__ uint32_t good;
    if (threadIdx.x == 0) {
      good = 1;
      Patience patience;
      for (uint32_t polls = 1; (seen = CrossingAccess::look(word)) - known < least; ++polls) {
        if (polls % kPollsBetweenFarChecks != 0) continue;
        see_progress(&patience);
        if (far_wait_lasts(args_, peer_, &patience.since_ns)) continue;
        good = 0;
        break;
      }
    }
    __syncthreads();
    *value = seen;
    const bool came = good != 0;
    __syncthreads();  // before the next call overwrites it
    return came;
  }

  protocol::TransferLine* line_;
  uint64_t* ring_;
};

__device__ __forceinline__ void run_crossing_queue(const CrossingTransferArgs& args) {
  const TransferQueue& queue = args.queues[block_index()];
  if ((queue.sends & kFarQueue) != 0) {
    run_transfers<FarEnd>(args, queue);
  } else {
    run_transfers<End<CrossingTransferArgs>>(args, queue);
  }
  __syncthreads();
  if (threadIdx.x == 0) count_ended(args.member, blockDim.x / kWarpThreads);
}

}  // namespace

NVRAR_KERNEL_OF(CrossingTransferArgs, crossing_transfer, kTransferThreads, 0, run_crossing_queue)

}  // namespace nvrar::cuda
