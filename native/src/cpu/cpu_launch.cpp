#include "cpu/cpu_launch.h"

#include "protocol/hierarchical.h"
#include "protocol/one_shot.h"
#include "protocol/two_shot.h"

namespace nvrar::cpu {
namespace {

using protocol::EpochPacket;
using protocol::Launch;
using protocol::PacketKind;
using protocol::SentinelPacket;

template <class Packets>
bool sum_launch(CpuLane& lane, Algorithm algorithm, const Launch& launch) noexcept {
  switch (algorithm) {
    case Algorithm::kTwoShot:
      return protocol::two_shot<Packets>(lane, launch);
    case Algorithm::kHierarchical: {
      protocol::DirectExchange exchange;
      return protocol::hierarchical<Packets>(lane, exchange, launch);
    }
    case Algorithm::kReduce:
      return protocol::reduce<Packets>(lane, launch);
    case Algorithm::kReduceScatter:
      return protocol::reduce_scatter<Packets>(lane, launch);
    default:
      return protocol::one_shot<Packets>(lane, launch);
  }
}

}  // namespace

bool run_launch(CpuLane& lane, const Plan& plan, const Launch& launch) noexcept {
  switch (plan.algorithm) {
    case Algorithm::kAllGather:
      return protocol::all_gather(lane, launch);
    case Algorithm::kAllToAll:
      return protocol::all_to_all(lane, launch);
    case Algorithm::kBroadcast:
      return protocol::broadcast(lane, launch);
    case Algorithm::kBarrier:
      return protocol::barrier(lane, launch);
    default:
      return plan.packet_kind == PacketKind::kSentinel ? sum_launch<SentinelPacket>(lane, plan.algorithm, launch)
                                                       : sum_launch<EpochPacket>(lane, plan.algorithm, launch);
  }
}

}  // namespace nvrar::cpu
