#include "cpu/cpu_launch.h"

#include "call/steps.h"

namespace nvrar::cpu {
namespace {

using protocol::Launch;

// Functions of their own: the steps are always inlined, and all of them in one function would share its registers and
// its frame.
template <class Port>
[[gnu::noinline]] bool move_launch(Port& port, Algorithm algorithm, const Launch& launch) noexcept {
  return move_steps<protocol::EpochPacket>(port, algorithm, launch);
}

template <class Packets, class Port>
[[gnu::noinline]] bool sum_launch(Port& port, Algorithm algorithm, const Launch& launch) noexcept {
  return sum_steps<Packets, true>(port, algorithm, launch);
}

}  // namespace

template <bool kLinks>
bool run_launch(CpuPort<kLinks>& port, const Plan& plan, const Launch& launch) noexcept {
  if (!sums(plan.algorithm)) return move_launch(port, plan.algorithm, launch);
  return plan.packet_kind == protocol::PacketKind::kSentinel
             ? sum_launch<protocol::SentinelPacket>(port, plan.algorithm, launch)
             : sum_launch<protocol::EpochPacket>(port, plan.algorithm, launch);
}

template bool run_launch(CpuPort<false>& port, const Plan& plan, const Launch& launch) noexcept;
template bool run_launch(CpuPort<true>& port, const Plan& plan, const Launch& launch) noexcept;

}  // namespace nvrar::cpu
