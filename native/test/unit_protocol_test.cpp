// Packets, ring layout, plan and header hash: what ranks must agree on without asking each other.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "call.h"
#include "plan.h"
#include "protocol/call_header.h"
#include "protocol/element.h"
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

TEST(RingLayout, NoTwoPacketsShareASlotAndAllAreInside) {
  for (uint32_t world = 1; world <= protocol::kMaxRanks; ++world) {
    const RingLayout layout{kSmallRingBytes, world};
    std::set<uint64_t> used;
    uint64_t packets = 0;
    const auto use = [&](uint64_t slot) {
      ASSERT_LT(slot, layout.total_slots());
      used.insert(slot);
      ++packets;
    };
    for (uint64_t epoch : {7u, 8u}) {
      for (uint32_t source = 0; source < world; ++source) {
        use(RingLayout::header_slot(epoch, source));
        for (PacketKind kind : {PacketKind::kEpoch, PacketKind::kSentinel}) {
          ASSERT_GE(layout.vectors_per_launch(kind), protocol::kGroupVectors);
          for (uint64_t v = 0; v < layout.vectors_per_launch(kind); ++v) {
            use(layout.slot(kind, epoch, v, source));
            const bool in_sentinels = layout.slot(kind, epoch, v, source) >= layout.sentinel_begin();
            ASSERT_EQ(in_sentinels, kind == PacketKind::kSentinel);
          }
        }
      }
    }
    EXPECT_EQ(used.size(), packets);
  }
}

TEST(Plan, LaunchesCoverEveryElementAndFitTheirAreas) {
  for (int32_t collective : {NVRAR_ALL_REDUCE, NVRAR_ALL_GATHER, NVRAR_BROADCAST}) {
    for (int32_t type : kTypes) {
      for (uint32_t world = 2; world <= 8; ++world) {
        for (uint64_t ring_bytes : {kSmallRingBytes, uint64_t{1} << 20}) {
          for (uint64_t count :
               {uint64_t{1}, uint64_t{16}, uint64_t{17}, uint64_t{33}, uint64_t{1000}, uint64_t{1} << 33}) {
            const Plan plan = make_plan(collective, count, type, world, ring_bytes);
            const RingLayout layout{ring_bytes, world};
            const uint64_t payload = plan.packet_kind == PacketKind::kEpoch ? 8 : 16;
            ASSERT_GE(plan.launches * plan.elements_per_launch, count);
            ASSERT_LT((plan.launches - 1) * plan.elements_per_launch, count);
            ASSERT_EQ(plan.elements_per_launch * element_bytes(type),
                      layout.vectors_per_launch(plan.packet_kind) * payload);
          }
        }
      }
    }
  }
}

TEST(Plan, OnlyFloatReductionsUseSentinels) {
  const uint64_t ring = 1 << 20;
  for (int32_t type : kTypes) {
    const bool spare = type == NVRAR_FLOAT32 || type == NVRAR_FLOAT16 || type == NVRAR_BFLOAT16;
    EXPECT_EQ(make_plan(NVRAR_ALL_REDUCE, 1000, type, 2, ring).packet_kind,
              spare ? PacketKind::kSentinel : PacketKind::kEpoch)
        << type;
  }
  EXPECT_EQ(make_plan(NVRAR_ALL_REDUCE, 16, NVRAR_FLOAT32, 2, ring).packet_kind, PacketKind::kEpoch);
  EXPECT_EQ(make_plan(NVRAR_ALL_REDUCE, 17, NVRAR_FLOAT32, 2, ring).packet_kind, PacketKind::kSentinel);
  EXPECT_EQ(make_plan(NVRAR_ALL_GATHER, 1000, NVRAR_FLOAT32, 2, ring).packet_kind, PacketKind::kEpoch);
  EXPECT_EQ(make_plan(NVRAR_BROADCAST, 1000, NVRAR_BFLOAT16, 2, ring).packet_kind, PacketKind::kEpoch);
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
