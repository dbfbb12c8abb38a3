// Which algorithm, packets and launches a call gets: a pure function of its arguments, so that all ranks agree
// (protocol.md 12).
#ifndef NVRAR_PLAN_H
#define NVRAR_PLAN_H

#include "call.h"
#include "protocol/ring_layout.h"
#include "tuning.h"

namespace nvrar {

enum class Algorithm : uint32_t {
  kCopy,  // a group of one
  kOneShot,
  kTwoShot,
  kHierarchical,
  kReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier
};

// A reduction up to this size uses epoch packets: they need no cleaning, and twice the packets of so few is nothing.
constexpr uint64_t kEpochReductionBytesMax = 64;

struct Plan {
  Algorithm algorithm;
  protocol::PacketKind packet_kind;
  uint64_t elements_per_launch;  // of what one source sends to one destination; 0 for a barrier
  uint64_t launches;
  int32_t choice;  // NVRAR_ALGORITHM_* of an all-reduce; 0 where there is no choice
};

// Built-in choice: up to so many bytes an all-reduce of that world size is one-shot. Measured with float32 and
// processes on two cores, where the two algorithms cross (between 2 and 16 KB for up to 4 ranks, 4 and 8 KB for 6).
constexpr uint64_t kOneShotBytesMax[protocol::kMaxRanks + 1] = {0, 0, 8192, 8192, 8192, 4096, 4096, 4096, 4096};

// What passes through the rings twice goes in launches that use no more than this of an area: then all that a launch
// touches stays in a core's cache. Measured: half the time from 1 MB on, against launches of a whole area of 1 MB.
constexpr uint64_t kTwoPhaseAreaBytesMax = 128 << 10;

// Packets that the partial sums of a packet of elements take.
uint32_t partial_parts(int32_t data_type) noexcept;

// The call has passed check_call.
Plan make_plan(const Call& call, const protocol::RingLayout& layout, const TuningTable& tuning) noexcept;

}  // namespace nvrar

#endif  // NVRAR_PLAN_H
