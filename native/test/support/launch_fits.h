// Checks that the packets of a plan's launches lie in the areas of a ring, by the indices of the last runs.
#ifndef NVRAR_TEST_SUPPORT_LAUNCH_FITS_H
#define NVRAR_TEST_SUPPORT_LAUNCH_FITS_H

#include "call/call.h"
#include "plan/plan.h"
#include "protocol/slices.h"

namespace nvrar::test {

inline bool launch_fits(const Plan& plan, const Call& call, const protocol::RingLayout& layout,
                        const PlanLimits& limits) {
  const uint64_t size = element_bytes(call.data_type);
  const uint64_t run_bytes = plan.packet_kind == protocol::PacketKind::kEpoch ? protocol::EpochPacket::kRunBytes
                                                                              : protocol::SentinelPacket::kRunBytes;
  const uint64_t last = (plan.elements_per_launch * size + run_bytes - 1) / run_bytes - 1;
  const uint64_t room = layout.area_runs(plan.packet_kind);
  const protocol::Topology& topology = layout.topology;
  if (plan.algorithm == Algorithm::kTwoShot) {
    const protocol::TwoShotRuns slices{topology};
    return slices.data_run(last, topology.world - 1) < room && slices.result_run(last) < room;
  }
  const uint32_t parts = element_type(call.data_type).partial_parts;
  if (plan.algorithm == Algorithm::kHierarchicalTwoShot) {
    const protocol::HierarchicalTwoShotRuns slices{{topology, parts}};
    // The last run of each slice in each finisher.
    const uint64_t of_all = uint64_t{slices.slices()} * topology.nodes();
    for (uint64_t j = last + 1 < of_all ? 0 : last + 1 - of_all; j <= last; ++j) {
      for (uint32_t node = 0; node < topology.nodes(); ++node) {
        const uint32_t last_rank = topology.first_of(node) + topology.size_of(node) - 1;
        const bool fits = slices.data_run(j, node, last_rank) < room && slices.result_run(j) < room &&
                          (node == slices.finisher(j) || slices.exchange_run(j, node) + parts <= room);
        if (!fits) return false;
      }
    }
    return true;
  }
  if (plan.algorithm != Algorithm::kHierarchical) {
    const uint64_t last_run = protocol::FlatRuns{topology}.data_run(last, topology.world - 1);
    return limits.one_hop_areas <= layout.hops() && last_run < room * limits.one_hop_areas &&
           (plan.packet_kind != protocol::PacketKind::kMarked ||
            last_run < layout.area_slots(protocol::PacketKind::kEpoch));
  }
  const protocol::HierarchicalRuns slices{topology, parts};
  for (uint32_t node = 0; node < topology.nodes(); ++node) {
    const uint32_t last_rank = topology.first_of(node) + topology.size_of(node) - 1;
    // The last run of each slice: an owner of several slices has them one after the other.
    const uint64_t first = last + 1 < slices.slices() ? 0 : last + 1 - slices.slices();
    for (uint64_t j = first; j <= last; ++j) {
      const bool fits = slices.data_run(j, node, last_rank) < room && slices.result_run(j) < room &&
                        slices.exchange_run(j, node, slices.exchange_places() - 1) + slices.parts <= room;
      if (!fits) return false;
    }
  }
  return true;
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_LAUNCH_FITS_H
