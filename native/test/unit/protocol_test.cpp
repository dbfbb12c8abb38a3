// Tests of the plan, the tuning table and the header hash, on which ranks must agree without communicating.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "call/call.h"
#include "common/error.h"
#include "cpu/reduction.h"
#include "plan/gpu_limits.h"
#include "plan/plan.h"
#include "protocol/call_header.h"
#include "support/abi.h"
#include "support/launch_fits.h"
#include "support/pool.h"
#include "support/topologies.h"

namespace nvrar::test {
namespace {

using protocol::CallSignature;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::Topology;

Call call_of(int32_t collective, uint64_t count, int32_t type, int32_t algorithm = NVRAR_ALGORITHM_AUTO) {
  const bool sums = collective == NVRAR_ALL_REDUCE || collective == NVRAR_REDUCE || collective == NVRAR_REDUCE_SCATTER;
  return {collective, 0, 0, count, type, sums ? NVRAR_SUM : kNoOp, 0, algorithm};
}

std::vector<int32_t> algorithms_of(int32_t collective, const Topology& topology) {
  if (collective != NVRAR_ALL_REDUCE) return {NVRAR_ALGORITHM_AUTO};
  std::vector<int32_t> all = {NVRAR_ALGORITHM_AUTO, NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT};
  if (topology.nodes() > 1) all.push_back(NVRAR_ALGORITHM_HIERARCHICAL);
  return all;
}

TEST(Invariant12_ThePlanIsPure, LaunchesCoverEveryElementAndFitTheirAreas) {
  for (const Topology& topology : kTopologies) {
    if (topology.world == 1) continue;
    for (uint64_t ring_bytes : {small_ring(topology), uint64_t{1} << 20}) {
      const RingLayout layout{ring_bytes, topology};
      for (int32_t collective : {NVRAR_ALL_REDUCE, NVRAR_REDUCE, NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER,
                                 NVRAR_ALL_TO_ALL, NVRAR_BROADCAST}) {
        for (int32_t type : kTypes) {
          for (uint64_t count : {uint64_t{1}, uint64_t{16}, uint64_t{17}, uint64_t{33}, uint64_t{1000},
                                 uint64_t{100000}, uint64_t{1} << 33}) {
            for (int32_t algorithm : algorithms_of(collective, topology)) {
              const Call call = call_of(collective, count, type, algorithm);
              for (const PlanLimits& limits : {kCpuPlanLimits, kLinkedPlanLimits, cuda::limits_of(90)}) {
                if (limits.one_hop_areas > layout.hops()) continue;  // ranks in one node are not linked
                const Plan plan = make_plan(call, layout, {}, limits);
                ASSERT_GE(plan.launches * plan.elements_per_launch, count);
                ASSERT_LT((plan.launches - 1) * plan.elements_per_launch, count);
                const uint64_t run_bytes = plan.packet_kind == PacketKind::kEpoch ? 256 : 512;
                ASSERT_EQ(plan.elements_per_launch * element_bytes(type) % run_bytes, 0u)
                    << "launches begin with a run";
                ASSERT_TRUE(launch_fits(plan, call, layout, limits))
                    << collective << " of " << count << " of type " << type << " in " << ring_bytes;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Invariant12_ThePlanIsPure, SmallMessagesOfLinkedNodesAreHierarchicalWhereANodeHasSeveralRanks) {
  const auto algorithm_of = [](const Topology& topology, const PlanLimits& limits) {
    const RingLayout layout{1 << 20, topology};
    return make_plan(call_of(NVRAR_ALL_REDUCE, 2, NVRAR_FLOAT32), layout, {}, limits).algorithm;
  };
  EXPECT_EQ(algorithm_of({6, 2}, kLinkedPlanLimits), Algorithm::kHierarchical);
  EXPECT_EQ(algorithm_of({3, 2}, kLinkedPlanLimits), Algorithm::kHierarchical);
  EXPECT_EQ(algorithm_of({3, 1}, kLinkedPlanLimits), Algorithm::kOneShot);
  EXPECT_EQ(algorithm_of({6, 2}, kCpuPlanLimits), Algorithm::kOneShot) << "where nodes are simulated";
}

TEST(Invariant12_ThePlanIsPure, LargeMessagesAreTwoShotBetweenThreeLinkedNodesAndMore) {
  const auto plan_of = [](const Topology& topology, uint64_t bytes) {
    const RingLayout layout{1 << 20, topology};
    return make_plan(call_of(NVRAR_ALL_REDUCE, bytes / 4, NVRAR_FLOAT32), layout, {}, kLinkedPlanLimits);
  };
  const uint64_t most = kLinkedPlanLimits.hierarchical_one_shot_bytes;
  EXPECT_EQ(plan_of({6, 2}, most).algorithm, Algorithm::kHierarchical);
  EXPECT_EQ(plan_of({6, 2}, most + 4).algorithm, Algorithm::kHierarchicalTwoShot);
  EXPECT_EQ(plan_of({6, 2}, most + 4).choice, NVRAR_ALGORITHM_HIERARCHICAL);
  EXPECT_EQ(plan_of({6, 2}, 1 << 20).launches, 1u);
  EXPECT_EQ(plan_of({4, 2}, 1 << 20).algorithm, Algorithm::kHierarchical) << "as many bytes in one hop less";
  EXPECT_EQ(plan_of({36, 4}, 1 << 20).algorithm, Algorithm::kHierarchical) << "nodes too many to send to all";
}

TEST(Invariant12_ThePlanIsPure, ItCountsAsManyPartialSumsAsTheReductionsWrite) {
  for (int32_t type : kTypes) {
    for (int32_t op : {NVRAR_SUM, NVRAR_PRODUCT, NVRAR_MAX, NVRAR_MIN, NVRAR_AVG}) {
      if (op == NVRAR_AVG && type <= NVRAR_INT64) continue;  // averages are for floats
      EXPECT_EQ(element_type(type).partial_parts, cpu::reduction_of(type, op).parts)
          << "type " << type << ", op " << op;
    }
  }
}

TEST(Invariant12_ThePlanIsPure, OnlyFloatReductionsUseSentinels) {
  const RingLayout layout{1 << 20, {2, 2}};
  const auto kind = [&](int32_t collective, uint64_t count, int32_t type) {
    return make_plan(call_of(collective, count, type), layout, {}, kCpuPlanLimits).packet_kind;
  };
  for (int32_t type : kTypes) {
    const bool spare = type == NVRAR_FLOAT32 || type == NVRAR_FLOAT16 || type == NVRAR_BFLOAT16;
    for (int32_t collective : {NVRAR_ALL_REDUCE, NVRAR_REDUCE, NVRAR_REDUCE_SCATTER}) {
      EXPECT_EQ(kind(collective, 1000, type), spare ? PacketKind::kSentinel : PacketKind::kEpoch) << type;
    }
  }
  EXPECT_EQ(kind(NVRAR_ALL_REDUCE, 16, NVRAR_FLOAT32), PacketKind::kEpoch);
  EXPECT_EQ(kind(NVRAR_ALL_REDUCE, 17, NVRAR_FLOAT32), PacketKind::kSentinel);
  EXPECT_EQ(kind(NVRAR_ALL_GATHER, 1000, NVRAR_FLOAT32), PacketKind::kEpoch);
  EXPECT_EQ(kind(NVRAR_BROADCAST, 1000, NVRAR_BFLOAT16), PacketKind::kEpoch);
}

TEST(Invariant12_ThePlanIsPure, OnGpusDataOfEveryTypeAndSizeMovesInMarkedRuns) {
  const RingLayout layout{1 << 20, {2, 2}};
  for (int32_t type : kTypes) {
    for (int32_t collective : {NVRAR_ALL_GATHER, NVRAR_ALL_TO_ALL, NVRAR_BROADCAST}) {
      for (uint64_t count : {1, 1000}) {
        const Plan plan = make_plan(call_of(collective, count, type), layout, {}, cuda::limits_of(90));
        EXPECT_EQ(plan.packet_kind, PacketKind::kMarked) << type;
        // An area of 1 MiB holds half of it from each of two ranks.
        EXPECT_EQ(plan.elements_per_launch * element_bytes(type), uint64_t{512} << 10);
      }
    }
  }
}

TEST(Invariant12_ThePlanIsPure, TheCallersAlgorithmGoesBeforeTheTableAndTheTableBeforeTheSize) {
  nvrar_tuning_rule rules[] = {
      rule_of(NVRAR_BFLOAT16, NVRAR_ALGORITHM_TWO_SHOT, 1000), rule_of(-1, NVRAR_ALGORITHM_HIERARCHICAL, 2000),
      rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 1 << 30), rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 1 << 30)};
  rules[1].world_size = rules[2].world_size = 4;
  rules[2].ranks_per_node = 2;
  rules[3].world_size = 8;
  const TuningTable table(rules);
  const auto choice = [&](uint64_t count, int32_t type, const Topology& topology, int32_t algorithm = 0) {
    const RingLayout layout{1 << 20, topology};
    return make_plan(call_of(NVRAR_ALL_REDUCE, count, type, algorithm), layout, table, kCpuPlanLimits).choice;
  };
  const Topology flat{4, 4};
  const Topology nodes{4, 2};
  EXPECT_EQ(choice(500, NVRAR_BFLOAT16, flat), NVRAR_ALGORITHM_TWO_SHOT);
  EXPECT_EQ(choice(501, NVRAR_BFLOAT16, flat), NVRAR_ALGORITHM_ONE_SHOT) << "beyond its bytes a rule does not match";
  EXPECT_EQ(choice(100, NVRAR_FLOAT32, nodes), NVRAR_ALGORITHM_HIERARCHICAL);
  EXPECT_EQ(choice(100, NVRAR_FLOAT32, flat), NVRAR_ALGORITHM_ONE_SHOT) << "there is nothing between nodes";
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, nodes), NVRAR_ALGORITHM_ONE_SHOT);
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, flat), NVRAR_ALGORITHM_TWO_SHOT) << "no rule: by size";
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, {6, 3}), NVRAR_ALGORITHM_HIERARCHICAL);
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, {4, 1}), NVRAR_ALGORITHM_TWO_SHOT) << "nodes of one rank";
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, {8, 8}), NVRAR_ALGORITHM_ONE_SHOT);
  EXPECT_EQ(choice(500, NVRAR_BFLOAT16, flat, NVRAR_ALGORITHM_ONE_SHOT), NVRAR_ALGORITHM_ONE_SHOT);
  EXPECT_EQ(choice(100, NVRAR_FLOAT32, {1, 1}), NVRAR_ALGORITHM_AUTO);
  const RingLayout layout{1 << 20, flat};
  EXPECT_EQ(make_plan(call_of(NVRAR_REDUCE, 10, NVRAR_BFLOAT16), layout, table, kCpuPlanLimits).choice,
            NVRAR_ALGORITHM_AUTO);
}

bool same(const Plan& a, const Plan& b) {
  return a.algorithm == b.algorithm && a.packet_kind == b.packet_kind &&
         a.elements_per_launch == b.elements_per_launch && a.launches == b.launches && a.choice == b.choice;
}

// Ranks do not exchange the plan, so it must not depend on anything that may differ between them.
TEST(Invariant12_ThePlanIsPure, NeitherAddressesNorThreadsNorTheEnvironmentChangeIt) {
  const nvrar_tuning_rule rule = rule_of(NVRAR_BFLOAT16, NVRAR_ALGORITHM_TWO_SHOT, 3000);
  uint64_t plans = 0;
  for (const Topology& topology : kTopologies) {
    const RingLayout layout{small_ring(topology), topology};
    for (int32_t collective : {NVRAR_ALL_REDUCE, NVRAR_REDUCE, NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER, NVRAR_ALL_TO_ALL,
                               NVRAR_BROADCAST, NVRAR_BARRIER}) {
      for (int32_t type : kTypes) {
        for (uint64_t count : {1u, 17u, 1000u, 100000u}) {
          const TuningTable table({&rule, 1});
          const Plan plan = make_plan(call_of(collective, count, type), layout, table, kCpuPlanLimits);
          Call elsewhere = call_of(collective, count, type);
          elsewhere.send = 0x1008;
          elsewhere.recv = 0x20F8;
          Plan other{};
          // As on another rank: its own copy of the table, another thread with other cores, another environment.
          std::thread([&] {
            ASSERT_EQ(::setenv("NVRAR_ALGORITHM", "1", 1), 0);
            cpu_set_t before;
            ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
            cpu_set_t one;
            CPU_ZERO(&one);
            for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
              if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
            }
            ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
            other = make_plan(elsewhere, layout, TuningTable({&rule, 1}), kCpuPlanLimits);
          }).join();
          ASSERT_TRUE(same(plan, other)) << "another plan on another rank for collective " << collective << " of "
                                         << count << " elements of type " << type;
          ++plans;
        }
      }
    }
  }
  ASSERT_EQ(::unsetenv("NVRAR_ALGORITHM"), 0);
  RecordProperty("plans", static_cast<int>(plans));
}

TEST(Tuning, RulesThatNoCallCanMeanAreRefused) {
  const nvrar_tuning_rule good = rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 4096);
  const auto sentence = [&](auto change) -> std::string {
    nvrar_tuning_rule rules[2] = {good, good};
    change(rules[1]);
    try {
      const TuningTable table(rules);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), NVRAR_INVALID_ARGUMENT);
      return error.what();
    }
  };
  EXPECT_EQ(sentence([](nvrar_tuning_rule&) {}), "");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.data_type = 3; }), "tuning rule 1: there is no data type 3");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.algorithm = 0; }),
            "tuning rule 1: 0 is no algorithm that a rule can name");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.world_size = -2; }), "tuning rule 1: a world size of -2 is negative");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.ranks_per_node = -1; }),
            "tuning rule 1: ranks_per_node -1 is negative");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.collective = NVRAR_BARRIER; }),
            "tuning rule 1: 4 is no collective that a rule can name");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.collective = NVRAR_REDUCE; }),
            "tuning rule 1: only an all-reduce has a choice of algorithms");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) {
              r.collective = NVRAR_REDUCE;
              r.algorithm = NVRAR_ALGORITHM_AUTO;
            }),
            "");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.architecture = -1; }), "tuning rule 1: there is no architecture -1");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.blocks = 1025; }), "tuning rule 1: 1025 blocks are more than 1024");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.tiles = 33; }), "tuning rule 1: 33 tiles are more than 32");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.threads = 48; }),
            "tuning rule 1: 48 threads are not a multiple of 32 up to 1024");
  EXPECT_EQ(sentence([](nvrar_tuning_rule& r) { r.threads = r.tiles = 32; }),
            "tuning rule 1: it has both threads and tiles, and each follows from the other");
  const std::vector<nvrar_tuning_rule> many(NVRAR_MAX_TUNING_RULES + 1, good);
  const auto table = [&](size_t first, size_t count) { return TuningTable({many.data() + first, count}); };
  EXPECT_THROW(table(0, many.size()), Error);
  EXPECT_EQ(table(0, 2).hash(), table(1, 2).hash());
  EXPECT_NE(table(0, 2).hash(), table(0, 3).hash());
}

TEST(Tuning, ATableOfAnotherArchitectureIsRefusedAndOfSeveralTheRulesHereMatch) {
  nvrar_tuning_rule rules[] = {rule_of(-1, NVRAR_ALGORITHM_TWO_SHOT, 4096),
                               rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 8192)};
  rules[0].architecture = 90;
  rules[1].architecture = NVRAR_ARCHITECTURE_X86_64;
  const auto matching = [&](int32_t architecture) {
    TuningTable table(rules);
    table.use_on(architecture, "rank 3");
    return table.match({NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_AUTO, NVRAR_FLOAT32, 100, 2, 2})->algorithm;
  };
  EXPECT_EQ(matching(90), NVRAR_ALGORITHM_TWO_SHOT);
  EXPECT_EQ(matching(NVRAR_ARCHITECTURE_X86_64), NVRAR_ALGORITHM_ONE_SHOT);
  try {
    matching(80);
    FAIL() << "a table for other architectures was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "the tuning table was made for compute capability 9.0, and rank 3 has compute capability 8.0: make one "
        "there with nvrar tune, or leave it out");
  }
  EXPECT_NO_THROW(TuningTable().use_on(80, "rank 3"));
}

TEST(Tuning, ARuleGivesTheShapeOfItsCollectiveAndAlgorithmAlone) {
  nvrar_tuning_rule rules[] = {rule_of(-1, NVRAR_ALGORITHM_TWO_SHOT, 4096), rule_of(-1, NVRAR_ALGORITHM_ONE_SHOT, 4096),
                               rule_of(-1, NVRAR_ALGORITHM_AUTO, 1 << 20)};
  rules[0].blocks = 3;
  rules[1].blocks = 5;
  rules[2].collective = NVRAR_ALL_GATHER;
  rules[2].tiles = 2;
  const TuningTable table(rules);
  const RingLayout layout{1 << 20, {4, 4}};
  const auto tuned = [&](int32_t collective, int32_t algorithm) {
    return make_plan(call_of(collective, 100, NVRAR_FLOAT32, algorithm), layout, table, kCpuPlanLimits).tuned;
  };
  EXPECT_EQ(tuned(NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_AUTO).blocks, 3U);
  EXPECT_EQ(tuned(NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_ONE_SHOT).blocks, 5U) << "the call's own algorithm";
  EXPECT_EQ(tuned(NVRAR_ALL_GATHER, NVRAR_ALGORITHM_AUTO).tiles, 2U);
  EXPECT_EQ(tuned(NVRAR_BROADCAST, NVRAR_ALGORITHM_AUTO).blocks, 0U);
}

TEST(Invariant13_DifferingCallsAreCaught, EveryFieldChangesTheHash) {
  const CallSignature call{41, NVRAR_ALL_REDUCE, NVRAR_FLOAT32, NVRAR_SUM, -1, 1000, 1, PacketKind::kEpoch, 4096};
  std::vector<CallSignature> others(16, call);
  others[0].collective = NVRAR_ALL_GATHER;
  others[1].data_type = NVRAR_INT32;
  others[2].op = NVRAR_MAX;
  others[3].root = 0;
  others[4].count = 1001;
  others[5].count = 1000 + (uint64_t{1} << 32);
  others[6].algorithm = 2;
  others[7].packet_kind = PacketKind::kSentinel;
  others[8].elements_per_launch = 8192;
  others[9].sequence = 42;
  others[10].sequence = 41 + (uint64_t{1} << 32);
  others[11].packet_kind = PacketKind::kMarked;
  for (size_t fused = 12; fused < 16; ++fused) {
    others[fused].fusion = NVRAR_FUSION_RMS_NORM;
    others[fused].hidden = 8;
  }
  others[13].fusion = NVRAR_FUSION_RMS_FOLD;
  others[14].hidden = 16;
  others[15].eps_bits = 1;
  std::set<uint32_t> hashes{protocol::header_hash(call)};
  for (const CallSignature& other : others) hashes.insert(protocol::header_hash(other));
  EXPECT_EQ(hashes.size(), others.size() + 1);
}

}  // namespace
}  // namespace nvrar::test
