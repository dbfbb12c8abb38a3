// One end of a pair of ranks of a node while a batch of sends and receives uses it: one packet per thread at a time.
// The packets, slots and credits are those of the sequential steps in protocol/point_to_point.h.
#pragma once

#include "cuda/kernels/move/transfer_args.h"
#include "kernels/launch/entry.cuh"

namespace nvrar::cuda {

using protocol::EpochPacket;
using protocol::RingLayout;
using protocol::TransferHeader;

constexpr uint32_t kPayloadBytes = EpochPacket::kPayloadBytes;

__device__ __forceinline__ Packet packet_of(uint64_t payload, uint64_t epoch) {
  Packet packet{};
  packet[0] = static_cast<uint32_t>(payload);
  packet[1] = static_cast<uint32_t>(payload >> 32);
  return EpochPacket::seal(packet, epoch);
}
__device__ __forceinline__ uint64_t payload_of(const Packet& packet) { return packet[0] | uint64_t{packet[1]} << 32; }

// What is the same for every way to a peer. All threads of the block call every function together.
template <class Batch, bool kFar>
class PairUse {
 public:
  // False: exit at once.
  __device__ bool enter() {
    __shared__ uint32_t good;
    if (threadIdx.x == 0) {
      good = load_word(&line_of(args_).beside.poison) == 0 ? 1 : 0;
      if (good != 0 && atomicExch(&state_->busy, 1u) != 0) {
        fail(args_, FailureKind::kOverlap, ranks());
        good = 0;
      }
    }
    __syncthreads();
    packets_ = state_->packets;
    credited_ = state_->credited;
    transfers_ = state_->transfers;
    return good != 0;
  }
  __device__ void leave() {
    __syncthreads();
    if (threadIdx.x != 0) return;
    state_->packets = packets_;
    state_->credited = credited_;
    state_->transfers = transfers_;
    atomicExch(&state_->busy, 0u);
  }

 protected:
  __device__ PairUse(const Batch& batch, const TransferQueue& queue)
      : batch_(batch),
        args_(batch.member),
        layout_(batch.member.launch.layout),
        peer_(queue.peer),
        sends_((kFar ? queue.sends & ~kFarQueue : queue.sends) != 0),
        state_(batch.pairs + Batch::pair_of(queue)) {}

  // As a DeviceFailure has them.
  __device__ uint32_t ranks() const { return kFar ? 0 : 1u << peer_; }

  // Runs a transfer in steps of at most so many packets. move(header, bytes, moved, total, &count) moves some of
  // `count` packets behind those that were moved, and says in it how many; false: it has failed.
  template <class Move>
  __device__ bool move_all(const TransferItem& item, uint64_t most, Move move) {
    ++transfers_;
    if (item.count == 0) return true;  // sends nothing, but the numbers in later headers count it
    const TransferHeader header{item.count, static_cast<uint32_t>(transfers_), item.type};
    const uint64_t bytes = item.count * item.element_bytes;
    const uint64_t total = TransferHeader::kPackets + (bytes + kPayloadBytes - 1) / kPayloadBytes;
    for (uint64_t moved = 0; moved < total;) {
      uint64_t count = total - moved;
      if (count > most) count = most;
      if (!move(header, bytes, moved, total, &count)) return false;
      moved += count;
    }
    return true;
  }
  // The number of bytes of user memory in the packet at this offset.
  static __device__ uint32_t length(uint64_t bytes, uint64_t offset) {
    return bytes - offset < kPayloadBytes ? static_cast<uint32_t>(bytes - offset) : kPayloadBytes;
  }
  // Of packet `number` of the transfer.
  static __device__ uint64_t payload(const TransferItem& item, const TransferHeader& header, uint64_t bytes,
                                     uint64_t number) {
    if (number < TransferHeader::kPackets) return header.word(number);
    const uint64_t offset = (number - TransferHeader::kPackets) * kPayloadBytes;
    return payload_of(
        load_user<kPayloadBytes>(reinterpret_cast<const uint8_t*>(item.address + offset), length(bytes, offset)));
  }

  // The timeout of a batch restarts whenever any of its transfers makes progress.
  struct Patience {
    uint64_t since_ns = 0;
    uint32_t steps = 0;
  };
  __device__ void see_progress(Patience* patience) const {
    uint32_t steps = 0;
    for (uint32_t i = 0; i < grid_blocks(); ++i)
      steps += load_word(&batch_.pairs[Batch::pair_of(batch_.queues[i])].steps);
    if (steps != patience->steps) *patience = {0, steps};
  }
  __device__ void note_step() const {
    if (threadIdx.x == 0) *reinterpret_cast<volatile uint32_t*>(&state_->steps) = state_->steps + 1;
  }
  __device__ void show_difference(const TransferHeader& expected, const TransferHeader& came) const {
    show(&args_.page->expected, expected);
    show(&args_.page->came, came);
  }

  const Batch& batch_;
  const KernelArgs& args_;
  const RingLayout& layout_;
  uint32_t peer_;
  bool sends_;
  PairState* state_;
  uint64_t packets_ = 0;
  uint64_t credited_ = 0;
  uint64_t transfers_ = 0;

 private:
  static __device__ void show(SeenTransfer* to, const TransferHeader& header) {
    Packet seen;
    seen[0] = static_cast<uint32_t>(header.count);
    seen[1] = static_cast<uint32_t>(header.count >> 32);
    seen[2] = header.sequence;
    seen[3] = static_cast<uint32_t>(header.data_type) + 1;
    store_packet(reinterpret_cast<Packet*>(to), seen);
  }
};

// Within a node, through the rings.
template <class Batch>
class End : public PairUse<Batch, false> {
 public:
  __device__ End(const Batch& batch, const TransferQueue& queue)
      : Base(batch, queue), slots_(layout_.transfer_ring_slots()) {
    const uint32_t own = args_.launch.rank;
    Packet* const mine = args_.rings[own];
    Packet* const theirs = args_.rings[peer_];
    ring_ = (sends_ ? theirs : mine) + layout_.transfer_ring_begin(sends_ ? own : peer_);
    credit_ = (sends_ ? mine : theirs) + layout_.credit_slot(sends_ ? peer_ : own);
  }

  __device__ bool run(const TransferItem& item) {
    return this->move_all(
        item, slots_ / protocol::kStepsPerRing,
        [&](const TransferHeader& header, uint64_t bytes, uint64_t moved, uint64_t total, uint64_t* count) {
          return sends_ ? push(item, header, bytes, moved, count) : pull(item, header, bytes, moved, *count, total);
        });
  }

 private:
  using Base = PairUse<Batch, false>;
  using Patience = typename Base::Patience;
  using Base::args_;
  using Base::credited_;
  using Base::layout_;
  using Base::length;
  using Base::note_step;
  using Base::packets_;
  using Base::payload;
  using Base::peer_;
  using Base::ranks;
  using Base::sends_;

  __device__ Packet* slot(uint64_t number) const { return ring_ + number % slots_; }

  // Sends as many packets as there is room for, at least one.
  __device__ bool push(const TransferItem& item, const TransferHeader& header, uint64_t bytes, uint64_t moved,
                       uint64_t* count) {
    const bool ignores_credit = protocol::planted(protocol::Defect::kIgnoredCredit);
    if (!ignores_credit && packets_ - credited_ == slots_ && !await_credit()) return false;
    const uint64_t room = ignores_credit ? slots_ : slots_ - (packets_ - credited_);
    if (*count > room) *count = room;
    for (uint64_t i = threadIdx.x; i < *count; i += blockDim.x) {
      send_packet(args_, slot(packets_ + i), packet_of(payload(item, header, bytes, moved + i), packets_ + i + 1));
    }
    packets_ += *count;
    note_step();
    return true;
  }

  __device__ bool goes_on(Patience* patience) const {
    this->see_progress(patience);
    patience->since_ns = check_wait(args_, ranks(), patience->since_ns);
    return patience->since_ns != kLeave;
  }

  __device__ bool await_packet(uint64_t number, Packet* packet) const {
    const Packet* const at = slot(number);
    const uint64_t epoch = number + 1;
    pass_moment(args_, protocol::Moment::kWaits, at);
    Patience patience;
    for (uint32_t polls = 1;; ++polls) {
      *packet = load_packet(at);
      if (EpochPacket::arrived(*packet, epoch)) return true;
      if (polls % kPollsBetweenChecks != 0) continue;
      if (((*packet)[2] | uint64_t{(*packet)[3]} << 32) > epoch) {
        fail(args_, FailureKind::kOverrun, ranks());
        return false;
      }
      if (!goes_on(&patience)) return false;
    }
  }

  // Called by the thread that has received the first header packet; it also takes the second one.
  __device__ bool check(const TransferHeader& header, const Packet& first) const {
    Packet second;
    if (!await_packet(packets_ + 1, &second)) return false;
    TransferHeader theirs{};
    theirs.take(0, payload_of(first));
    theirs.take(1, payload_of(second));
    if (theirs == header) return true;
    if (fail(args_, FailureKind::kMismatch, ranks())) this->show_difference(header, theirs);
    return false;
  }

  __device__ bool await_credit() {
    __shared__ uint64_t credited;
    __shared__ uint32_t good;
    if (threadIdx.x == 0) {
      good = 1;
      pass_moment(args_, protocol::Moment::kWaits, credit_);
      Patience patience;
      for (uint32_t polls = 1; (credited = payload_of(load_packet(credit_))) == credited_; ++polls) {
        if (polls % kPollsBetweenChecks != 0 || goes_on(&patience)) continue;
        good = 0;
        break;
      }
    }
    __syncthreads();
    credited_ = credited;
    const bool came = good != 0;
    __syncthreads();  // before the next call overwrites it
    return came;
  }

  __device__ bool pull(const TransferItem& item, const TransferHeader& header, uint64_t bytes, uint64_t moved,
                       uint64_t count, uint64_t total) {
    Packet packet{};
    bool good = threadIdx.x >= count || await_packet(packets_ + threadIdx.x, &packet);
    // Each thread that has received its first packet waits until the headers are known to agree, because nothing may be
    // stored before that (protocol.md 16).
    if (moved == 0) {
      if (threadIdx.x == 0) good = good && check(header, packet);
      if (__syncthreads_and(good) == 0) return false;
    }
    for (uint64_t i = threadIdx.x; good && i < count;) {
      const uint64_t number = moved + i;
      if (number >= TransferHeader::kPackets) {
        const uint64_t offset = (number - TransferHeader::kPackets) * kPayloadBytes;
        store_user<kPayloadBytes>(reinterpret_cast<uint8_t*>(item.address + offset), packet, length(bytes, offset));
      }
      i += blockDim.x;
      if (i < count) good = await_packet(packets_ + i, &packet);
    }
    if (__syncthreads_and(good) == 0) return false;
    packets_ += count;
    note_step();
    if (threadIdx.x == 0 && (packets_ - credited_ >= slots_ / protocol::kStepsPerRing || moved + count == total)) {
      send_packet(args_, credit_, packet_of(packets_, packets_));
    }
    if (packets_ - credited_ >= slots_ / protocol::kStepsPerRing || moved + count == total) credited_ = packets_;
    return true;
  }

  uint64_t slots_;
  Packet* ring_;
  Packet* credit_;
};

// Runs the transfers of a queue one after the other; by all threads of a block.
template <class PairEnd, class Batch>
__device__ __forceinline__ void run_transfers(const Batch& batch, const TransferQueue& queue) {
  PairEnd end(batch, queue);
  bool good = end.enter();
  for (uint16_t i = queue.first; good && i != kNoTransfer; i = batch.items[i].next) good = end.run(batch.items[i]);
  if (good) end.leave();
}

}  // namespace nvrar::cuda
