#include "cpu/cpu_launch.h"

#include "call/steps.h"

namespace nvrar::cpu {

bool run_launch(CpuLane& lane, const Plan& plan, const protocol::Launch& launch) noexcept {
  if (!sums(plan.algorithm)) return move_steps(lane, plan.algorithm, launch);
  return plan.packet_kind == protocol::PacketKind::kSentinel
             ? sum_steps<protocol::SentinelPacket, true>(lane, plan.algorithm, launch)
             : sum_steps<protocol::EpochPacket, true>(lane, plan.algorithm, launch);
}

}  // namespace nvrar::cpu
