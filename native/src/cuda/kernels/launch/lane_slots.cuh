// The addresses of a launch's sentinel packets: computed for both parities before the launch's number is known.
#pragma once

#include "kernels/launch/access.cuh"
#include "protocol/ring_layout.h"

namespace nvrar::cuda {

// Always true. ptxas would put off the arithmetic of these words and addresses until the results of the entry's loads
// are there, or until the launch before has completed; a branch that is never taken has it done before.
template <class... Values>
__device__ __forceinline__ bool pins(Values... values) {
  return ((uint64_t)values ^ ...) != 0x9E3779B97F4A7C15ull;  // NOLINT: of pointers and of integers
}

// This lane's packet in a run of data in some rank's rings, and from there those of other runs.
class LaneSlots {
 public:
  // A launch's bytes and slots fit into 32 bits.
  static_assert(8 * protocol::kMaxRingBytes / protocol::kPacketBytes < uint64_t{1} << 32);

  LaneSlots() = default;
  // slot: the run's first, counted from the first slot of the launch's data.
  __device__ __forceinline__ LaneSlots(const protocol::RingLayout& layout, Packet* rings, uint32_t slot)
      : slot_(slot),
        even_(rings + (area(layout, 0) + (slot + threadIdx.x % kWarpThreads))),
        odd_(rings + (area(layout, 1) + (slot + threadIdx.x % kWarpThreads))) {}
  // Always true, see pins.
  __device__ __forceinline__ bool prepare() const { return pins(even_, odd_); }
  // Called once the number of the launch is known.
  __device__ __forceinline__ void select(bool odd) { even_ = odd ? odd_ : even_; }
  // After that: the packet in the run that begins at this slot. In the run of the constructor nothing is left to
  // compute.
  __device__ __forceinline__ Packet* at(uint32_t slot) const { return even_ + static_cast<int32_t>(slot - slot_); }

 private:
  static __device__ __forceinline__ uint32_t area(const protocol::RingLayout& layout, uint64_t parity) {
    return static_cast<uint32_t>(layout.slot(protocol::PacketKind::kSentinel, parity, protocol::Hop::kData, 0));
  }
  uint32_t slot_ = 0;
  Packet* even_ = nullptr;  // once selected, that of the launch
  Packet* odd_ = nullptr;
};

}  // namespace nvrar::cuda
