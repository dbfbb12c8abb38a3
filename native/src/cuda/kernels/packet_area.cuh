// The addresses of a launch's sentinel packets: computed for both parities before the launch's number is known.
#pragma once

#include "kernels/access.cuh"
#include "protocol/ring_layout.h"

namespace nvrar::cuda {

// Always true. ptxas would put off the address arithmetic until the results of the entry's loads are there, or until
// the launch before has completed; a branch that is never taken has it done before.
template <class... Pointers>
__device__ __forceinline__ bool pins_addresses(uint32_t even, uint32_t odd, const Pointers*... pointers) {
  return (even ^ uint64_t{odd} << 32 ^ (reinterpret_cast<uint64_t>(pointers) ^ ...)) != 0x9E3779B97F4A7C15ull;
}

class PacketArea {
 public:
  // A launch's bytes and slots fit into 32 bits.
  static_assert(8 * protocol::kMaxRingBytes / protocol::kPacketBytes < uint64_t{1} << 32);

  // Always true. Must be called before the launch's number is known.
  template <class... Pointers>
  __device__ __forceinline__ bool prepare(const protocol::RingLayout& layout, const Pointers*... pointers) {
    even_ = slot(layout, 0);
    odd_ = slot(layout, 1);
    return pins_addresses(even_, odd_, pointers...);
  }
  // The first data slot.
  __device__ __forceinline__ uint32_t of(uint64_t epoch) const {
    return epoch % protocol::kParities == 0 ? even_ : odd_;
  }

 private:
  static __device__ __forceinline__ uint32_t slot(const protocol::RingLayout& layout, uint64_t parity) {
    return static_cast<uint32_t>(layout.slot(protocol::PacketKind::kSentinel, parity, protocol::Hop::kData, 0));
  }
  uint32_t even_ = 0;
  uint32_t odd_ = 0;
};

}  // namespace nvrar::cuda
