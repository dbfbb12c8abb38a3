// Packets, ring layout, plan and header hash: what ranks must agree on without asking each other.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "call.h"
#include "error.h"
#include "plan.h"
#include "protocol/call_header.h"
#include "protocol/element.h"
#include "protocol/slices.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using protocol::CallSignature;
using protocol::EpochPacket;
using protocol::Packet;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::SentinelPacket;
using protocol::Topology;

TEST(SentinelPacket, AnEmptySlotNeverLooksArrivedAndDataAlwaysDoes) {
  EXPECT_FALSE(SentinelPacket::arrived(SentinelPacket::empty(), 1));
  const Packet payload{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF};
  const Packet sealed = SentinelPacket::seal(payload, 1);
  EXPECT_TRUE(SentinelPacket::arrived(sealed, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sealed[i], 0xFFFFFFFFu) << "only the last word may change";
}

TEST(SentinelPacket, CanonicalFormIsANanOfEveryFloatType) {
  const uint32_t word = SentinelPacket::kCanonicalWord;
  EXPECT_TRUE(std::isnan(protocol::Float32::widen(word)));
  for (uint32_t half : {word & 0xFFFF, word >> 16}) {
    EXPECT_TRUE(std::isnan(protocol::Bfloat16::widen(static_cast<uint16_t>(half))));
    EXPECT_TRUE(std::isnan(protocol::Float16::widen(static_cast<uint16_t>(half))));
  }
}

TEST(EpochPacket, ArrivesForItsOwnEpochOnly) {
  const uint64_t epoch = 0x1'0000'0002;
  const Packet packet = EpochPacket::seal(Packet{0xFFFFFFFF, 0, 7, 7}, epoch);
  EXPECT_TRUE(EpochPacket::arrived(packet, epoch));
  EXPECT_FALSE(EpochPacket::arrived(packet, epoch - 2));
  EXPECT_FALSE(EpochPacket::arrived(packet, 2)) << "the high half counts";
  EXPECT_FALSE(EpochPacket::arrived(Packet{}, 1)) << "memory as the kernel gives it is empty";
}

constexpr Topology kTopologies[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {7, 7}, {8, 8}, {2, 1},
                                    {3, 2}, {4, 1}, {4, 2}, {5, 2}, {5, 3}, {6, 2}, {7, 1}, {7, 3},
                                    {8, 1}, {8, 2}, {8, 3}, {8, 4}, {8, 5}, {8, 7}};

uint64_t small_ring(const Topology& topology) {
  return topology.nodes() == 1 ? protocol::kMinRingBytes : protocol::kMinRingBytesOfNodes;
}

TEST(RingLayout, NoTwoPacketsShareASlotAndAllAreInside) {
  for (const Topology& topology : kTopologies) {
    const RingLayout layout{small_ring(topology), topology};
    std::set<uint64_t> used;
    uint64_t packets = 0;
    const auto use = [&](uint64_t slot) {
      ASSERT_LT(slot, layout.total_slots());
      used.insert(slot);
      ++packets;
    };
    for (uint64_t epoch : {7u, 8u}) {
      for (uint32_t source = 0; source < topology.world; ++source) use(RingLayout::header_slot(epoch, source));
      for (PacketKind kind : {PacketKind::kEpoch, PacketKind::kSentinel}) {
        for (uint32_t hop = 0; hop < layout.hops(); ++hop) {
          for (uint64_t run = 0; run < layout.area_runs(kind); ++run) {
            const uint64_t first = layout.slot(kind, epoch, static_cast<protocol::Hop>(hop), run);
            for (uint64_t i = 0; i < protocol::kRunPackets; ++i) use(first + i);
            ASSERT_EQ(first >= layout.sentinel_begin(), kind == PacketKind::kSentinel);
          }
        }
      }
    }
    EXPECT_EQ(used.size(), packets);
  }
}

// Writes down which (source, run) each rank's areas receive in one full launch of an algorithm.
class Areas {
 public:
  explicit Areas(uint64_t area_runs) : area_runs_(area_runs) {}
  void receive(uint32_t rank, protocol::Hop hop, uint64_t run, uint64_t length = 1) {
    for (uint64_t i = run; i < run + length; ++i) {
      ASSERT_LT(i, area_runs_) << "outside of the area";
      ASSERT_TRUE(taken_.insert({rank, static_cast<uint32_t>(hop), i}).second) << "two sources write one run";
    }
  }

 private:
  uint64_t area_runs_;
  std::set<std::tuple<uint32_t, uint32_t, uint64_t>> taken_;
};

TEST(Slices, OfFlatAlgorithmsShareNoRun) {
  for (const Topology& topology : kTopologies) {
    const uint64_t area_runs = RingLayout{small_ring(topology), topology}.area_runs(PacketKind::kEpoch);
    const protocol::FlatRuns flat{topology};
    Areas areas(area_runs);
    ASSERT_GE(flat.runs_that_fit(area_runs), 1u);
    for (uint64_t j = 0; j < flat.runs_that_fit(area_runs); ++j) {
      for (uint32_t source = 0; source < topology.world; ++source) {
        areas.receive(0, protocol::Hop::kData, flat.data_run(j, source));
      }
    }
  }
}

TEST(Slices, OfTwoShotShareNoRunAndHaveOneOwner) {
  for (const Topology& topology : kTopologies) {
    const uint64_t area_runs = RingLayout{small_ring(topology), topology}.area_runs(PacketKind::kEpoch);
    const protocol::TwoShotRuns slices{topology};
    Areas areas(area_runs);
    std::vector<uint64_t> owned(topology.world);
    ASSERT_GE(slices.runs_that_fit(area_runs), 1u);
    for (uint64_t j = 0; j < slices.runs_that_fit(area_runs); ++j) {
      const uint32_t owner = slices.owner(j);
      ++owned.at(owner);
      for (uint32_t source = 0; source < topology.world; ++source) {
        areas.receive(owner, protocol::Hop::kData, slices.data_run(j, source));
      }
      areas.receive(0, protocol::Hop::kResult, slices.result_run(j));
    }
    EXPECT_EQ(std::set<uint64_t>(owned.begin(), owned.end()).size(), 1u) << "slices of a full launch are equal";
  }
}

TEST(Slices, OfHierarchicalShareNoRunAndHaveOneOwnerPerNode) {
  for (const Topology& topology : kTopologies) {
    if (topology.nodes() == 1) continue;
    for (uint32_t parts : {1u, 2u}) {
      const PacketKind kind = parts == 1 ? PacketKind::kEpoch : PacketKind::kSentinel;
      const uint64_t area_runs = RingLayout{small_ring(topology), topology}.area_runs(kind);
      const protocol::HierarchicalRuns slices{topology, parts};
      Areas areas(area_runs);
      ASSERT_GE(slices.runs_that_fit(area_runs), slices.slices()) << topology.world << " " << topology.ranks_per_node;
      for (uint64_t j = 0; j < slices.runs_that_fit(area_runs); ++j) {
        for (uint32_t node = 0; node < topology.nodes(); ++node) {
          const uint32_t owner = slices.owner(j, node);
          ASSERT_EQ(topology.node_of(owner), node);
          for (uint32_t source = topology.first_of(node); source < topology.first_of(node) + topology.size_of(node);
               ++source) {
            areas.receive(owner, protocol::Hop::kData, slices.data_run(j, node, source));
          }
          for (uint32_t other = 0; other < topology.nodes(); ++other) {
            areas.receive(owner, protocol::Hop::kExchange, slices.exchange_run(j, node, other), parts);
          }
        }
        areas.receive(0, protocol::Hop::kResult, slices.result_run(j));
      }
    }
  }
}

Call call_of(int32_t collective, uint64_t count, int32_t type, int32_t algorithm = NVRAR_ALGORITHM_AUTO) {
  const bool sums = collective == NVRAR_ALL_REDUCE || collective == NVRAR_REDUCE || collective == NVRAR_REDUCE_SCATTER;
  return {collective, 0, 0, count, type, sums ? NVRAR_SUM : kNoOp, 0, algorithm};
}

TEST(Plan, LaunchesCoverEveryElementAndFitTheirAreas) {
  for (const Topology& topology : kTopologies) {
    if (topology.world == 1) continue;
    for (uint64_t ring_bytes : {small_ring(topology), uint64_t{1} << 20}) {
      const RingLayout layout{ring_bytes, topology};
      for (int32_t collective : {NVRAR_ALL_REDUCE, NVRAR_REDUCE, NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER,
                                 NVRAR_ALL_TO_ALL, NVRAR_BROADCAST}) {
        for (int32_t type : kTypes) {
          for (uint64_t count : {uint64_t{1}, uint64_t{16}, uint64_t{17}, uint64_t{33}, uint64_t{1000},
                                 uint64_t{100000}, uint64_t{1} << 33}) {
            const Plan plan = make_plan(call_of(collective, count, type), layout, {});
            ASSERT_GE(plan.launches * plan.elements_per_launch, count);
            ASSERT_LT((plan.launches - 1) * plan.elements_per_launch, count);
            const uint64_t run_bytes = plan.packet_kind == PacketKind::kEpoch ? 256 : 512;
            ASSERT_EQ(plan.elements_per_launch * element_bytes(type) % run_bytes, 0u) << "launches begin with a run";
          }
        }
      }
    }
  }
}

TEST(Plan, OnlyFloatReductionsUseSentinels) {
  const RingLayout layout{1 << 20, {2, 2}};
  const auto kind = [&](int32_t collective, uint64_t count, int32_t type) {
    return make_plan(call_of(collective, count, type), layout, {}).packet_kind;
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

TEST(Plan, TheCallersAlgorithmGoesBeforeTheTableAndTheTableBeforeTheSize) {
  const nvrar_tuning_rule rules[] = {{NVRAR_BFLOAT16, 0, 0, NVRAR_ALGORITHM_TWO_SHOT, 1000},
                                     {-1, 4, 0, NVRAR_ALGORITHM_HIERARCHICAL, 2000},
                                     {-1, 4, 2, NVRAR_ALGORITHM_ONE_SHOT, 1 << 30},
                                     {-1, 8, 0, NVRAR_ALGORITHM_ONE_SHOT, 1 << 30}};
  const TuningTable table(rules, 4);
  const auto choice = [&](uint64_t count, int32_t type, const Topology& topology, int32_t algorithm = 0) {
    const RingLayout layout{1 << 20, topology};
    return make_plan(call_of(NVRAR_ALL_REDUCE, count, type, algorithm), layout, table).choice;
  };
  const Topology flat{4, 4};
  const Topology nodes{4, 2};
  EXPECT_EQ(choice(500, NVRAR_BFLOAT16, flat), NVRAR_ALGORITHM_TWO_SHOT);
  EXPECT_EQ(choice(501, NVRAR_BFLOAT16, flat), NVRAR_ALGORITHM_ONE_SHOT) << "beyond its bytes a rule does not match";
  EXPECT_EQ(choice(100, NVRAR_FLOAT32, nodes), NVRAR_ALGORITHM_HIERARCHICAL);
  EXPECT_EQ(choice(100, NVRAR_FLOAT32, flat), NVRAR_ALGORITHM_ONE_SHOT) << "there is nothing between nodes";
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, nodes), NVRAR_ALGORITHM_ONE_SHOT);
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, flat), NVRAR_ALGORITHM_TWO_SHOT) << "no rule: by size";
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, {4, 1}), NVRAR_ALGORITHM_HIERARCHICAL);
  EXPECT_EQ(choice(1 << 20, NVRAR_FLOAT32, {8, 8}), NVRAR_ALGORITHM_ONE_SHOT);
  EXPECT_EQ(choice(500, NVRAR_BFLOAT16, flat, NVRAR_ALGORITHM_ONE_SHOT), NVRAR_ALGORITHM_ONE_SHOT);
  EXPECT_EQ(choice(100, NVRAR_FLOAT32, {1, 1}), NVRAR_ALGORITHM_AUTO);
  const RingLayout layout{1 << 20, flat};
  EXPECT_EQ(make_plan(call_of(NVRAR_REDUCE, 10, NVRAR_BFLOAT16), layout, table).choice, NVRAR_ALGORITHM_AUTO);
}

TEST(Tuning, RulesThatNoCallCanMeanAreRefused) {
  const nvrar_tuning_rule good{-1, 0, 0, NVRAR_ALGORITHM_ONE_SHOT, 4096};
  const auto sentence = [&](auto change) -> std::string {
    nvrar_tuning_rule rules[2] = {good, good};
    change(rules[1]);
    try {
      const TuningTable table(rules, 2);
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
  EXPECT_THROW(TuningTable(nullptr, 1), Error);
  const std::vector<nvrar_tuning_rule> many(NVRAR_MAX_TUNING_RULES + 1, good);
  EXPECT_THROW(TuningTable(many.data(), NVRAR_MAX_TUNING_RULES + 1), Error);
  EXPECT_EQ(TuningTable(many.data(), 2).hash(), TuningTable(many.data() + 1, 2).hash());
  EXPECT_NE(TuningTable(many.data(), 2).hash(), TuningTable(many.data(), 3).hash());
}

TEST(CallHeader, EveryFieldChangesTheHash) {
  const CallSignature call{41, NVRAR_ALL_REDUCE, NVRAR_FLOAT32, NVRAR_SUM, -1, 1000, 1, PacketKind::kEpoch, 4096};
  std::vector<CallSignature> others(11, call);
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
  std::set<uint32_t> hashes{protocol::header_hash(call)};
  for (const CallSignature& other : others) hashes.insert(protocol::header_hash(other));
  EXPECT_EQ(hashes.size(), others.size() + 1);
}

}  // namespace
}  // namespace nvrar::test
