// Invariants that hold in every order of events, tested over a memory that records all accesses (invariants/trace.h).
// Names are those of docs/concepts/protocol.md.
#include "invariants/trace.h"

#include <gtest/gtest.h>

#include "call/steps.h"
#include "protocol/slices.h"
#include "support/pool.h"
#include "support/topologies.h"

namespace nvrar::test {
namespace {

using protocol::PacketKind;
using protocol::Topology;

constexpr Topology kTopologies[] = {{2, 2},
                                    {3, 3},
                                    {4, 4},
                                    {5, 5},
                                    {8, 8},
                                    {2, 1},
                                    {4, 2},
                                    {5, 3},
                                    {6, 2},
                                    {7, 3},
                                    {8, 2},
                                    {8, 4},
                                    {4, 1},
                                    nodes_of<2, 3>(),
                                    nodes_of<1, 3, 2>(),
                                    nodes_of<1, 1, 1, 5>(),
                                    {9, 8},
                                    {9, 1},
                                    {12, 4},
                                    {20, 2},
                                    nodes_of<1, 3, 8>(),
                                    nodes_of<2, 1, 1, 4, 1, 1, 1, 1, 3, 1, 1>()};

std::string name_of(const Topology& topology) {
  std::string sizes;
  for (uint32_t node = 0; node < topology.nodes(); ++node) sizes += " " + std::to_string(topology.size_of(node));
  return "nodes of" + sizes + " ranks";
}

// Every algorithm that a group has, with packets of both kinds, at sizes from one element to a full launch.
std::vector<TracedLaunch> all_launches(const Topology& topology, const std::vector<Algorithm>& algorithms) {
  std::vector<TracedLaunch> launches;
  for (Algorithm algorithm : algorithms) {
    if (algorithm == Algorithm::kHierarchical && topology.nodes() == 1) continue;
    if (algorithm == Algorithm::kHierarchicalTwoShot && (topology.nodes() == 1 || topology.has_many_nodes())) continue;
    for (PacketKind kind : {PacketKind::kEpoch, PacketKind::kSentinel, PacketKind::kMarked}) {
      if (kind == PacketKind::kSentinel && !sums(algorithm)) continue;
      if (kind == PacketKind::kMarked && (sums(algorithm) || algorithm == Algorithm::kBarrier)) continue;
      const protocol::RingLayout layout{small_ring(topology), topology};
      const uint64_t run_bytes = kind == PacketKind::kEpoch ? 256 : 512;
      const uint32_t parts = kind == PacketKind::kSentinel ? 2 : 1;
      uint64_t full = protocol::FlatRuns{topology}.runs_that_fit(layout.area_runs(kind));
      if (algorithm == Algorithm::kTwoShot)
        full = protocol::TwoShotRuns{topology}.runs_that_fit(layout.area_runs(kind));
      if (algorithm == Algorithm::kHierarchical) {
        full = protocol::HierarchicalRuns{topology, parts}.runs_that_fit(layout.area_runs(kind));
      }
      if (algorithm == Algorithm::kHierarchicalTwoShot) {
        full = protocol::HierarchicalTwoShotRuns{{topology, parts}}.runs_that_fit(layout.area_runs(kind));
      }
      for (uint64_t bytes : {uint64_t{4}, run_bytes, (full - 1) * run_bytes + 20, full * run_bytes}) {
        if (algorithm == Algorithm::kBarrier) bytes = 0;
        launches.push_back({algorithm, kind, bytes, static_cast<uint32_t>(launches.size()) % topology.world});
        const bool sums_in_teams = algorithm == Algorithm::kOneShot || algorithm == Algorithm::kTwoShot ||
                                   algorithm == Algorithm::kReduceScatter;
        if (!(sums_in_teams && topology.nodes() == 1) && kind != PacketKind::kMarked) continue;
        if (kind == PacketKind::kEpoch) continue;
        // Teams have whole packets. A rank whose buffer is at an odd address works without them beside those that do.
        bytes = (bytes + protocol::kPacketBytes - 1) / protocol::kPacketBytes * protocol::kPacketBytes;
        const uint32_t root = static_cast<uint32_t>(launches.size()) % topology.world;
        for (const uint32_t in_teams : {~0u, 0b10110101u}) launches.push_back({algorithm, kind, bytes, root, in_teams});
      }
    }
  }
  return launches;
}

const std::vector<Algorithm> kEvery = {Algorithm::kOneShot,       Algorithm::kTwoShot,
                                       Algorithm::kHierarchical,  Algorithm::kReduce,
                                       Algorithm::kReduceScatter, Algorithm::kAllGather,
                                       Algorithm::kAllToAll,      Algorithm::kBroadcast,
                                       Algorithm::kBarrier,       Algorithm::kHierarchicalTwoShot};

// Each launch by itself, three times, so that slots are used again as soon as they can be.
void expect_each(const std::vector<Algorithm>& algorithms) {
  uint64_t number = 0;
  for (const Topology& topology : kTopologies) {
    for (const TracedLaunch& launch : all_launches(topology, algorithms)) {
      if (!runs_case(++number, 0)) continue;
      Trace trace(topology);
      EXPECT_EQ(trace.run({launch, launch, launch}), "")
          << name_of(topology) << ", algorithm " << static_cast<int>(launch.algorithm) << ", " << launch.bytes
          << " bytes";
    }
  }
}

TEST(Invariant02_Rings, NoSlotIsOverwrittenBeforeItsReaderHasReadItInAnyOrderOfEvents) {
  for (const Topology& topology : kTopologies) {
    const std::vector<TracedLaunch> all = all_launches(topology, kEvery);
    std::vector<TracedLaunch> shuffled;
    for (uint64_t i = 0; i < repetitions(300); ++i) shuffled.push_back(all[mix(i) % all.size()]);
    Trace trace(topology);
    EXPECT_EQ(trace.run(shuffled), "") << name_of(topology);
  }
}

TEST(Invariant03_NobodyRunsAhead, NoCollectiveEndsBeforeAllRanksHaveEntered) {
  expect_each({Algorithm::kBarrier});
  expect_each({Algorithm::kBroadcast, Algorithm::kReduce});
}

TEST(Invariant07_OneShot, EveryRankSumsEveryContributionOnce) {
  expect_each({Algorithm::kOneShot, Algorithm::kReduce, Algorithm::kReduceScatter});
}

TEST(Invariant08_TwoShot, TheOwnersSumsReachAllRanks) { expect_each({Algorithm::kTwoShot}); }

TEST(Invariant09_Hierarchical, TheNodesSumsAreCombinedInNodeOrder) {
  expect_each({Algorithm::kHierarchical, Algorithm::kHierarchicalTwoShot});
}

TEST(Invariant11_Progress, AllSendsOfAPhasePrecedeItsFirstWaitAndNoRanksWaitInACircle) { expect_each(kEvery); }

}  // namespace
}  // namespace nvrar::test
