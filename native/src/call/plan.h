// Which algorithm, packets and launches a call gets: a pure function of its arguments, so that all ranks agree
// (protocol.md 12).
#ifndef NVRAR_CALL_PLAN_H
#define NVRAR_CALL_PLAN_H

#include "call/algorithm.h"
#include "call/call.h"
#include "call/launch_shape.h"
#include "call/tuning.h"
#include "protocol/ring_layout.h"

namespace nvrar {

struct Plan {
  Algorithm algorithm;
  protocol::PacketKind packet_kind;
  uint64_t elements_per_launch;  // of what one source sends to one destination; 0 for a barrier
  uint64_t launches;
  int32_t choice;  // NVRAR_ALGORITHM_* of an all-reduce; 0 where there is no choice
  // Of all launches but the last, and of the last. They are each rank's own: where its buffers lie may decide.
  LaunchShape shape{};
  LaunchShape last_shape{};
};

// Where a backend's algorithms and packets cross; measured, and part of its build.
struct PlanLimits {
  // A reduction up to this size uses epoch packets: they need no cleaning, and twice the packets of so few is nothing.
  uint64_t epoch_reduction_bytes;
  // Up to so many bytes an all-reduce of that world size is one-shot.
  uint64_t one_shot_bytes[protocol::kMaxRanks + 1];
  // What passes through the rings twice goes in launches that use no more than this of an area.
  uint64_t two_phase_area_bytes;
  ShapeLimits shape;
};

// Measured with float32 and processes on two cores: the two algorithms cross between 2 and 16 KB for up to 4 ranks,
// 4 and 8 KB for 6. With small areas all that a launch touches stays in a core's cache: half the time from 1 MB on,
// against launches of a whole area of 1 MB.
constexpr PlanLimits kCpuPlanLimits = {64,
                                       {0, 0, 8192, 8192, 8192, 4096, 4096, 4096, 4096},
                                       128 << 10,
                                       {.blocks_of_one_tile = 1, .tiles_of_small_blocks = 1}};

// All but the shapes: what ranks agree on. The call has passed check_call.
Plan make_plan(const Call& call, const protocol::RingLayout& layout, const TuningTable& tuning,
               const PlanLimits& limits) noexcept;
// The shapes, by the kernel that this rank runs the call with.
void give_shapes(Plan* plan, const Call& call, const protocol::Topology& topology, const KernelShape& kernel,
                 const PlanLimits& limits) noexcept;

}  // namespace nvrar

#endif  // NVRAR_CALL_PLAN_H
