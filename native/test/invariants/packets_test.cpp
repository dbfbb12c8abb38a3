// Invariants of packets and of where they lie.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <thread>
#include <unordered_set>
#include <vector>

#include "call/call.h"
#include "protocol/call_header.h"
#include "protocol/element.h"
#include "protocol/slices.h"
#include "shared/packet_access.h"
#include "shared/shared_segment.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/pool.h"
#include "support/topologies.h"

namespace nvrar::test {
namespace {

using protocol::EpochPacket;
using protocol::Packet;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::SentinelPacket;
using protocol::Topology;

// A reader that sees one half of a packet and another half of the next one would take data for what it is not.
TEST(Invariant01_PacketsValidateThemselves, APacketIsSeenWholeOrNotAtAll) {
  alignas(64) static Packet slots[4];
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t i = 1; !stop; ++i) {
      for (Packet& slot : slots) shared::store_packet(&slot, Packet{i, i, i, i});
    }
  });
  uint64_t changes = 0;
  uint32_t last = 0;
  const double end = seconds_now() + 10;
  while (changes < repetitions(200000) && seconds_now() < end && !HasFailure()) {
    for (int turn = 0; turn < 1000; ++turn) {
      const Packet packet = shared::load_packet(&slots[turn % 4]);
      changes += packet[0] != last;
      last = packet[0];
      if (packet[0] == packet[1] && packet[0] == packet[2] && packet[0] == packet[3]) continue;
      ADD_FAILURE() << "half a packet: " << packet[0] << " " << packet[1] << " " << packet[2] << " " << packet[3];
      break;
    }
    ::sched_yield();
  }
  stop = true;
  writer.join();
  EXPECT_GT(changes, 10u) << "a reader that never meets the writer tests nothing";
}

// What an empty slot of either kind looks like, as user data of every type in every collective.
TEST(Invariant01_PacketsValidateThemselves, DataThatLooksLikeAnEmptySlotArrives) {
  for (const TestTopology& topology : {TestTopology{3, 0}, {4, 2}}) {
    ThreadGroup group(topology.world, {.ring_bytes = small_ring_bytes(topology.ranks_per_node),
                                       .timeout_ns = 3'000 * kMs,
                                       .ranks_per_node = topology.ranks_per_node});
    group.run([&](int rank, nvrar_comm* comm) {
      constexpr uint64_t kBytes = 4096;
      for (uint8_t byte : {uint8_t{0xFF}, uint8_t{0}}) {
        for (int32_t type : kTypes) {
          std::vector<uint8_t> in(kBytes, byte);
          const uint64_t count = kBytes / element_bytes(type);
          std::vector<uint8_t> out(kBytes * 8, 0x5B);
          const Image send(rank, 0, in);
          Image recv(rank, kImageRoomBytes / 2, out);
          const uint64_t stream = stream_of(rank);
          ASSERT_EQ(settled(rank, comm, nvrar_all_gather(comm, send.address(), recv.address(), count, type, stream)),
                    NVRAR_OK)
              << "rank " << rank << " never saw data that looks like an empty slot: " << nvrar_last_error();
          recv.fetch();
          for (uint64_t i = 0; i < kBytes * static_cast<uint64_t>(topology.world); ++i) {
            ASSERT_EQ(out[i], byte) << "a bit was lost on the way: byte " << i;
          }
          const bool is_float = type >= NVRAR_FLOAT16;
          for (int32_t way : algorithms(topology.world, topology.ranks_per_node)) {
            for (int32_t op : {NVRAR_MAX, NVRAR_SUM}) {
              if (op == NVRAR_SUM && !is_float) continue;
              ASSERT_EQ(settled(rank, comm,
                                nvrar_all_reduce(comm, send.address(), recv.address(), count, type, op, way, stream)),
                        NVRAR_OK)
                  << "rank " << rank << " never saw data that looks like an empty slot: " << nvrar_last_error();
              recv.fetch();
              const uint8_t last = out[kBytes - 1];
              ASSERT_EQ(last, byte == 0xFF && is_float ? 0x7F : byte) << "a NaN has one canonical form";
            }
          }
        }
      }
    });
  }
}

TEST(Invariant01_PacketsValidateThemselves, AnEmptySlotNeverLooksArrivedAndDataAlwaysDoes) {
  EXPECT_FALSE(SentinelPacket::arrived(SentinelPacket::empty(), 1));
  const Packet payload{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF};
  const Packet sealed = SentinelPacket::seal(payload, 1);
  EXPECT_TRUE(SentinelPacket::arrived(sealed, 1)) << "data looks like an empty slot";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sealed[i], 0xFFFFFFFFu) << "only the last word may change";
}

TEST(Invariant01_PacketsValidateThemselves, TheCanonicalFormIsANanOfEveryFloatType) {
  const uint32_t word = SentinelPacket::kCanonicalWord;
  EXPECT_TRUE(std::isnan(protocol::Float32::widen(word)));
  for (uint32_t half : {word & 0xFFFF, word >> 16}) {
    EXPECT_TRUE(std::isnan(protocol::Bfloat16::widen(static_cast<uint16_t>(half))));
    EXPECT_TRUE(std::isnan(protocol::Float16::widen(static_cast<uint16_t>(half))));
  }
}

TEST(Invariant01_PacketsValidateThemselves, AnEpochPacketArrivesForItsOwnEpochOnly) {
  const uint64_t epoch = 0x1'0000'0002;
  const Packet packet = EpochPacket::seal(Packet{0xFFFFFFFF, 0, 7, 7}, epoch);
  EXPECT_TRUE(EpochPacket::arrived(packet, epoch));
  EXPECT_FALSE(EpochPacket::arrived(packet, epoch - 2));
  EXPECT_FALSE(EpochPacket::arrived(packet, 2)) << "the high half counts";
  EXPECT_FALSE(EpochPacket::arrived(Packet{}, 1)) << "memory as the kernel gives it is empty";
}

TEST(Invariant02_Rings, NoTwoPacketsShareASlotAndAllAreInside) {
  for (const Topology& topology : kTopologies) {
    const RingLayout layout{small_ring(topology), topology};
    std::vector<bool> used(layout.total_slots());
    const auto use = [&](uint64_t slot) {
      ASSERT_LT(slot, layout.total_slots());
      ASSERT_FALSE(used[slot]) << slot;
      used[slot] = true;
    };
    for (uint64_t epoch : {7u, 8u}) {
      for (uint32_t source = 0; source < std::min(topology.world, protocol::kMaxRanks); ++source) {
        use(RingLayout::header_slot(epoch, source));
        use(RingLayout::last_header_slot(epoch, source));
      }
      for (uint32_t node = 0; node < topology.nodes(); ++node) use(RingLayout::node_header_slot(epoch, node));
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
    for (uint32_t rank = 0; rank < topology.world; ++rank) {
      use(layout.credit_slot(rank));
      for (uint64_t i = 0; i < layout.transfer_ring_slots(); ++i) use(layout.transfer_ring_begin(rank) + i);
    }
  }
}

// Writes down which (source, run) each rank's areas receive in one full launch of an algorithm.
class Areas {
 public:
  explicit Areas(uint64_t area_runs) : area_runs_(area_runs) {}
  void receive(uint32_t rank, protocol::Hop hop, uint64_t run, uint64_t length = 1) {
    for (uint64_t i = run; i < run + length; ++i) {
      ASSERT_LT(i, area_runs_) << "outside of the area";
      const uint64_t place = (uint64_t{rank} * 4 + static_cast<uint32_t>(hop)) * area_runs_ + i;
      ASSERT_TRUE(taken_.insert(place).second) << "two sources write one run";
    }
  }

 private:
  uint64_t area_runs_;
  std::unordered_set<uint64_t> taken_;
};

TEST(Invariant02_Rings, SlicesOfFlatAlgorithmsShareNoRun) {
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

TEST(Invariant02_Rings, SlicesOfTwoShotShareNoRunAndHaveOneOwner) {
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

TEST(Invariant02_Rings, SlicesOfHierarchicalShareNoRunAndHaveOneOwnerPerNode) {
  for (const Topology& topology : kTopologies) {
    if (topology.nodes() == 1) continue;
    for (uint32_t parts : {1u, 2u}) {
      const PacketKind kind = parts == 1 ? PacketKind::kEpoch : PacketKind::kSentinel;
      const uint64_t area_runs = RingLayout{small_ring(topology), topology}.area_runs(kind);
      const protocol::HierarchicalRuns slices{topology, parts};
      Areas areas(area_runs);
      ASSERT_GE(slices.runs_that_fit(area_runs), slices.slices()) << topology.world << " " << topology.largest;
      for (uint64_t j = 0; j < slices.runs_that_fit(area_runs); ++j) {
        for (uint32_t node = 0; node < topology.nodes(); ++node) {
          const uint32_t owner = slices.owner(j, node);
          ASSERT_EQ(topology.node_of(owner), node);
          for (uint32_t source = topology.first_of(node); source < topology.first_of(node) + topology.size_of(node);
               ++source) {
            areas.receive(owner, protocol::Hop::kData, slices.data_run(j, node, source));
          }
          for (uint32_t place = 0; place < slices.exchange_places(); ++place) {
            areas.receive(owner, protocol::Hop::kExchange, slices.exchange_run(j, node, place), parts);
          }
        }
        areas.receive(0, protocol::Hop::kResult, slices.result_run(j));
      }
    }
  }
}

TEST(Invariant02_Rings, SlicesOfHierarchicalTwoShotShareNoRunAndAreFinishedInOneNode) {
  for (const Topology& topology : kTopologies) {
    if (topology.nodes() == 1 || topology.has_many_nodes()) continue;
    for (uint32_t parts : {1u, 2u}) {
      const uint64_t area_runs = uint64_t{1000} + parts;
      const protocol::HierarchicalTwoShotRuns slices{{topology, parts}};
      Areas areas(area_runs);
      std::vector<uint64_t> finished(topology.nodes());
      const uint64_t runs = slices.runs_that_fit(area_runs);
      ASSERT_GE(runs, slices.slices()) << topology.world << " " << topology.largest;
      for (uint64_t j = 0; j < runs; ++j) {
        ++finished.at(slices.finisher(j));
        for (uint32_t node = 0; node < topology.nodes(); ++node) {
          const uint32_t owner = slices.owner(j, node);
          for (uint32_t source = topology.first_of(node); source < topology.first_of(node) + topology.size_of(node);
               ++source) {
            areas.receive(owner, protocol::Hop::kData, slices.data_run(j, node, source));
          }
          if (node == slices.finisher(j)) continue;
          areas.receive(slices.owner(j, slices.finisher(j)), protocol::Hop::kExchange, slices.exchange_run(j, node),
                        parts);
        }
        for (uint32_t rank = 0; rank < topology.world; ++rank) {
          areas.receive(rank, protocol::Hop::kResult, slices.result_run(j));
        }
      }
      const auto [least, most] = std::minmax_element(finished.begin(), finished.end());
      EXPECT_LE(*most - *least, slices.slices());
    }
  }
}

// Whatever a launch finds in a slot that was never written must not look like a packet.
TEST(Invariant02_Rings, APreparedMembersAreasAreEmpty) {
  for (const Topology& topology : {Topology{1, 1}, Topology{3, 3}, Topology{5, 3}, Topology{8, 8}}) {
    const RingLayout layout{small_ring(topology), topology};
    const shared::SharedSegment segment = shared::SharedSegment::create(&layout, 0, 1, 1);
    for (uint64_t slot = 0; slot < layout.total_slots(); ++slot) {
      const Packet packet = segment.rings()[slot];
      if (slot >= layout.sentinel_begin() && slot < layout.sentinel_end()) {
        ASSERT_FALSE(SentinelPacket::arrived(packet, 1)) << slot;
      } else {
        ASSERT_TRUE(EpochPacket::arrived(packet, 0)) << slot << ": no epoch but 0, which is never used";
      }
    }
  }
}

}  // namespace
}  // namespace nvrar::test
