// Which algorithm, packets and launches a call gets: a pure function of its arguments, so that all ranks agree
// (protocol.md 12).
#ifndef NVRAR_PLAN_H
#define NVRAR_PLAN_H

#include "protocol/ring_layout.h"

namespace nvrar {

enum class Algorithm : uint32_t { kCopy, kOneShot, kAllGather, kBroadcast, kBarrier };

// A reduction up to this size uses epoch packets: they need no cleaning, and twice the packets of so few is nothing.
constexpr uint64_t kEpochReductionBytesMax = 64;

struct Plan {
  Algorithm algorithm;
  protocol::PacketKind packet_kind;
  uint64_t elements_per_launch;  // of what one source sends; 0 for a barrier
  uint64_t launches;
  int32_t choice = 0;  // NVRAR_ALGORITHM_*; 0 where there is none
};

Plan make_plan(int32_t collective, uint64_t count, int32_t data_type, uint32_t world, uint64_t ring_bytes) noexcept;

}  // namespace nvrar

#endif  // NVRAR_PLAN_H
