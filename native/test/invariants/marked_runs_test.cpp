// Marked runs (protocol/packet.h) over a memory in which packets are under way for as long as they like: the steps of
// data movement with real bits, which the CPU's own calls do not run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "call/steps.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using protocol::EpochPacket;
using protocol::Launch;
using protocol::MarkedPacket;
using protocol::MarkPacket;
using protocol::Packet;
using protocol::PacketKind;
using protocol::Peers;
using protocol::RingLayout;
using protocol::SentinelPacket;
using protocol::Topology;

constexpr uint64_t kRingBytes = protocol::kMinRingBytes;

// The rings of all ranks. What is sent is on its way until somebody looks into a slot, which brings one packet, chosen
// at random, to where it goes; a packet with `later` only if there is nothing else.
class SlowMemory {
 public:
  SlowMemory(const RingLayout& layout, uint64_t seed) : layout_(layout), seed_(seed) {
    rings_.resize(layout.topology.world);
    for (std::vector<Packet>& ring : rings_) {
      ring.assign(layout.total_slots(), Packet{});
      for (uint64_t i = layout.sentinel_begin(); i < layout.sentinel_end(); ++i) ring[i] = SentinelPacket::empty();
    }
  }

  void send(uint32_t to, uint64_t slot, const Packet& packet, bool later = false) {
    const std::lock_guard lock(mutex_);
    ++sent_;
    for (const Flying& one : flying_) {
      if (one.to == to && one.slot == slot) fault_ = "two packets are on their way to one slot";
    }
    flying_.push_back({to, slot, packet, later});
  }
  Packet look(uint32_t rank, uint64_t slot) {
    const std::lock_guard lock(mutex_);
    deliver();
    return rings_[rank][slot];
  }
  void empty(uint32_t rank, uint64_t slot) {
    const std::lock_guard lock(mutex_);
    if (!protocol::planted(protocol::Defect::kKeptSlots)) rings_[rank][slot] = SentinelPacket::empty();
  }
  // Ends the waits of all ranks.
  void report(const std::string& fault) {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = fault;
  }
  // "" or the first fault: of a rank, or of a packet that met another one in its slot.
  std::string first_fault() {
    const std::lock_guard lock(mutex_);
    return fault_;
  }
  // What is wrong once all launches have ended.
  std::string left_over() const {
    if (!flying_.empty()) return "a packet was sent that nobody waits for";
    for (const std::vector<Packet>& ring : rings_) {
      for (uint64_t i = layout_.sentinel_begin(); i < layout_.sentinel_end(); ++i) {
        if (SentinelPacket::arrived(ring[i], 0)) return "a sentinel slot was left full";
      }
    }
    return "";
  }
  uint64_t sent() const { return sent_; }

 private:
  struct Flying {
    uint32_t to;
    uint64_t slot;
    Packet packet;
    bool later;
  };
  void deliver() {
    std::vector<size_t> ready;
    for (size_t i = 0; i < flying_.size(); ++i) {
      if (!flying_[i].later) ready.push_back(i);
    }
    if (flying_.empty()) return;
    seed_ = mix(seed_);
    const size_t which = ready.empty() ? seed_ % flying_.size() : ready[seed_ % ready.size()];
    const Flying one = flying_[which];
    flying_.erase(flying_.begin() + static_cast<ptrdiff_t>(which));
    Packet& slot = rings_[one.to][one.slot];
    const bool sentinel = one.slot >= layout_.sentinel_begin() && one.slot < layout_.sentinel_end();
    if (sentinel && SentinelPacket::arrived(slot, 0)) fault_ = "a packet came into a sentinel slot that was not empty";
    slot = one.packet;
  }

  const RingLayout layout_;
  uint64_t seed_;
  std::mutex mutex_;
  std::vector<std::vector<Packet>> rings_;
  std::vector<Flying> flying_;
  std::string fault_;
  uint64_t sent_ = 0;
};

// The Port of a rank. Its "lanes" go in turn.
class LanePort {
 public:
  struct Run {
    Packet payloads[protocol::kRunPackets];
  };
  LanePort(SlowMemory* memory, uint32_t rank) : memory_(memory), rank_(rank) {}

  static constexpr uint64_t worker() { return 0; }
  static constexpr uint64_t workers() { return 1; }
  template <class Packets>
  Run load(const uint8_t* from, uint32_t bytes) {
    Run run{};
    std::memcpy(&run, from, bytes);
    return run;
  }
  void push_marked(const Peers& peers, uint64_t slot, uint64_t mark_slot, const Run& run, uint32_t bytes,
                   uint64_t epoch) {
    bool needs_mark = false;
    uint32_t replaced = 0;
    for (uint32_t lane = 0; lane < packets(bytes); ++lane) {
      const Packet packet = MarkedPacket::seal(run.payloads[lane], epoch);
      needs_mark = needs_mark || MarkedPacket::is_in_doubt(packet);
      replaced |= static_cast<uint32_t>(MarkedPacket::is_replaced(run.payloads[lane])) << lane;
      for (uint32_t i = 0; i < peers.count(); ++i) memory_->send(peers[i], slot + lane, packet);
    }
    for (uint32_t i = 0; i < peers.count() && needs_mark; ++i) {
      memory_->send(peers[i], mark_slot, MarkPacket::seal(replaced, epoch), true);
    }
  }
  bool drain_marked(uint64_t slot, uint64_t mark_slot, uint32_t, uint8_t* to, uint32_t bytes, uint64_t epoch) {
    for (uint32_t lane = 0; lane < packets(bytes); ++lane) {
      Packet packet;
      if (!await<MarkedPacket>(slot + lane, epoch, &packet)) return false;
      memory_->empty(rank_, slot + lane);
      if (MarkedPacket::is_in_doubt(packet)) {
        Packet mark;
        if (!await<MarkPacket>(mark_slot, epoch, &mark)) return false;
        packet = MarkedPacket::restore(packet, mark, lane);
      }
      const uint32_t at = lane * protocol::kPacketBytes;
      std::memcpy(to + at, &packet, std::min(bytes - at, protocol::kPacketBytes));
    }
    return true;
  }
  static void soon_pushed(const Peers&, uint64_t) {}
  template <class Packets>
  static void soon_taken(uint64_t) {}
  void put(uint32_t peer, uint64_t slot, const Packet& packet) { memory_->send(peer, slot, packet); }
  template <class Packets>
  bool take(uint64_t slot, uint32_t, uint64_t epoch, Packet* packet) {
    return await<Packets>(slot, epoch, packet);
  }
  static void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (to != from) std::memcpy(to, from, bytes);
  }
  static void sent() {}
  static void sent_within_node() {}
  static void differ(uint32_t) { ADD_FAILURE() << "the calls are the same"; }

 private:
  static uint32_t packets(uint32_t bytes) { return (bytes + protocol::kPacketBytes - 1) / protocol::kPacketBytes; }
  template <class Packets>
  bool await(uint64_t slot, uint64_t epoch, Packet* packet) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (;;) {
      *packet = memory_->look(rank_, slot);
      if (Packets::arrived(*packet, epoch)) return true;
      if (std::chrono::steady_clock::now() > limit || !memory_->first_fault().empty()) return false;
      std::this_thread::yield();
    }
  }

  SlowMemory* memory_;
  uint32_t rank_;
};

struct MovedCall {
  Algorithm algorithm;
  uint64_t bytes;
  uint32_t root;
};

// Words that the protocol uses, and a few others, so that runs have every kind of mask: of no doubtful packet, of some,
// of all.
uint32_t word_of(uint64_t number, uint32_t rank, uint64_t call) {
  const uint64_t r = mix(mix(number + 1000 * rank) + call);
  switch (call % 4) {
    case 0:
      return static_cast<uint32_t>(r);
    case 1:
      return 0xFFFFFFFFu - static_cast<uint32_t>(r % 2);
    case 2:
      return r % 3 == 0 ? 0xFFFFFFFFu : r % 3 == 1 ? 0xFFFFFFFEu : 7;
    default:
      return r % 64 == 0 ? 0xFFFFFFFEu : static_cast<uint32_t>(r % 5);
  }
}

class Group {
 public:
  Group(uint32_t world, uint64_t first_epoch, uint64_t seed)
      : layout_{kRingBytes, Topology{world, world}}, memory_(layout_, seed), epoch_(first_epoch - 1) {}

  // The ranks make the calls one after the other. Returns "" or what is wrong.
  std::string run(const std::vector<MovedCall>& calls) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      threads.emplace_back([&, rank] {
        std::string fault;
        for (uint64_t i = 0; i < calls.size() && fault.empty(); ++i) fault = run_call(rank, i, calls[i]);
        if (!fault.empty()) memory_.report(fault);
      });
    }
    for (std::thread& thread : threads) thread.join();
    epoch_ += calls.size();
    const std::string first = memory_.first_fault();
    return first.empty() ? memory_.left_over() : first;
  }

 private:
  uint32_t world() const { return layout_.topology.world; }
  static std::vector<uint8_t> data_of(uint32_t rank, uint64_t number, uint64_t bytes) {
    std::vector<uint32_t> words((bytes + 3) / 4);
    for (uint64_t i = 0; i < words.size(); ++i) words[i] = word_of(i, rank, number);
    std::vector<uint8_t> data(bytes);
    std::memcpy(data.data(), words.data(), bytes);
    return data;
  }
  std::string run_call(uint32_t rank, uint64_t number, const MovedCall& call) {
    const bool to_each = call.algorithm == Algorithm::kAllToAll;
    const std::vector<uint8_t> send = data_of(rank, number, call.bytes * (to_each ? world() : 1));
    const uint64_t parts = call.algorithm == Algorithm::kBroadcast ? 1 : world();
    std::vector<uint8_t> recv(call.bytes * parts, 0x5B);
    Launch launch{};
    launch.layout = layout_;
    launch.rank = rank;
    launch.epoch = epoch_ + 1 + number;
    launch.root = call.root;
    launch.send = send.data();
    launch.recv = recv.data();
    launch.bytes = launch.send_stride_bytes = launch.recv_stride_bytes = call.bytes;
    LanePort port(&memory_, rank);
    if (!move_steps<MarkedPacket>(port, call.algorithm, launch)) return "a packet never came";
    for (uint64_t part = 0; part < parts; ++part) {
      const uint32_t source = call.algorithm == Algorithm::kBroadcast ? call.root : static_cast<uint32_t>(part);
      const std::vector<uint8_t> theirs = data_of(source, number, call.bytes * (to_each ? world() : 1));
      const uint8_t* const expected = theirs.data() + (to_each ? rank * call.bytes : 0);
      for (uint64_t i = 0; i < call.bytes; ++i) {
        if (recv[part * call.bytes + i] == expected[i]) continue;
        return "a bit was lost on the way: byte " + std::to_string(i) + " of rank " + std::to_string(source) +
               " in call " + std::to_string(number);
      }
    }
    return "";
  }

  RingLayout layout_;
  SlowMemory memory_;
  uint64_t epoch_;
};

std::vector<MovedCall> calls_of(uint32_t world, uint64_t seed) {
  const uint64_t full = protocol::FlatRuns{Topology{world, world}}.runs_that_fit(kRingBytes / 16 / 32) * 512;
  std::vector<MovedCall> calls;
  for (uint64_t i = 0; i < 24; ++i) {
    const uint64_t r = mix(seed + i);
    const uint64_t sizes[] = {1, 3, 4, 15, 16, 17, 100, 511, 512, 513, full - 5, full};
    const Algorithm all[] = {Algorithm::kAllGather, Algorithm::kAllToAll, Algorithm::kBroadcast};
    calls.push_back(
        {all[r % 3], std::min(full, sizes[(r >> 8) % std::size(sizes)]), static_cast<uint32_t>((r >> 16) % world)});
  }
  return calls;
}

TEST(Invariant01_MarkedRuns, ArriveBitForBitInWhateverOrderTheirPacketsDo) {
  for (uint32_t world : {2u, 3u, 5u, 8u}) {
    for (uint64_t seed = 0; seed < repetitions(10); ++seed) {
      Group group(world, 1, seed);
      ASSERT_EQ(group.run(calls_of(world, seed)), "") << world << " ranks, seed " << seed;
    }
  }
}

TEST(Invariant01_MarkedRuns, EverySlotIsEmptiedAndEveryMarkRead) {
  Group group(2, 1, 7);
  for (uint64_t i = 0; i < 4; ++i) {
    const std::vector<MovedCall> calls(8, {Algorithm::kAllGather, 512, 0});
    ASSERT_EQ(group.run(calls), "");
  }
}

TEST(Invariant01_MarkedRuns, AreExactRoundAWrapOfTheEpochs) {
  for (const uint64_t first :
       {(uint64_t{1} << 31) - 3, (uint64_t{1} << 32) - 3, (uint64_t{1} << 63) - 3, ~uint64_t{0} - 60}) {
    Group group(3, first, first);
    ASSERT_EQ(group.run(calls_of(3, first)), "") << "from epoch " << first;
  }
}

// Every mask, one packet at a time and some together, with every neighbour of the empty word.
TEST(Invariant01_MarkedRuns, AMarkTellsWhichPacketsWereReplaced) {
  constexpr uint32_t kWords[] = {0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0x7FFFFFFF, 0xFFFF7FFF, 0};
  for (uint32_t mask : {0u, 1u, 1u << 31, 0xFFFFFFFFu, 0x55555555u, 0x80000001u}) {
    const Packet mark = MarkPacket::seal(mask, 41);
    EXPECT_TRUE(MarkPacket::arrived(mark, 41));
    EXPECT_FALSE(MarkPacket::arrived(mark, 39));
    EXPECT_FALSE(MarkPacket::arrived(mark, 41 + (uint64_t{1} << 32)));
    for (uint32_t i = 0; i < protocol::kRunPackets; ++i) {
      for (uint32_t word : kWords) {
        const Packet payload{0xFFFFFFFF, word, 3, word};
        const Packet packet = MarkedPacket::seal(payload, 41);
        ASSERT_TRUE(MarkedPacket::arrived(packet, 41)) << "data looks like an empty slot";
        ASSERT_EQ(MarkedPacket::is_in_doubt(packet), word >= 0xFFFFFFFE);
        ASSERT_EQ(MarkedPacket::is_replaced(payload), word == 0xFFFFFFFF);
        const bool replaced = (mask >> i & 1) != 0;
        if (MarkedPacket::is_in_doubt(packet) && replaced == MarkedPacket::is_replaced(payload)) {
          const Packet restored = MarkedPacket::restore(packet, mark, i);
          for (int k = 0; k < 4; ++k) ASSERT_EQ(restored[k], payload[k]) << "a bit was lost on the way: packet " << i;
        }
      }
    }
  }
}

TEST(Invariant01_MarkedRuns, HaveAMarkOnlyIfAPacketIsInDoubt) {
  const auto sent = [](uint32_t last_word) {
    const RingLayout layout{kRingBytes, Topology{2, 2}};
    SlowMemory memory(layout, 1);
    LanePort port(&memory, 0);
    LanePort::Run run{};
    run.payloads[17][3] = last_word;
    run.payloads[18][2] = 0xFFFFFFFF;
    port.push_marked(Peers::one(1), layout.sentinel_begin(), layout.mark_slot(1, protocol::Hop::kData, 0), run,
                     MarkedPacket::kRunBytes, 1);
    return memory.sent();
  };
  EXPECT_EQ(sent(0), 32u);
  EXPECT_EQ(sent(0xFFFFFFFD), 32u);
  EXPECT_EQ(sent(0xFFFFFFFE), 33u);
  EXPECT_EQ(sent(0xFFFFFFFF), 33u);
}

// Marks lie where epoch packets of other calls do, and never in a sentinel area.
TEST(Invariant02_Rings, AMarkHasASlotOfItsOwnInTheEpochArea) {
  for (const Topology& topology : {Topology{2, 2}, Topology{3, 3}, Topology{8, 8}, Topology{4, 2}}) {
    for (uint64_t ring_bytes : {protocol::min_ring_bytes(topology.world, topology.nodes() > 1), uint64_t{16} << 20}) {
      const RingLayout layout{ring_bytes, topology};
      const uint64_t runs = layout.area_runs(PacketKind::kMarked);
      for (uint64_t epoch : {1u, 2u}) {
        const uint64_t begin = layout.area_begin(PacketKind::kEpoch, epoch, protocol::Hop::kData);
        EXPECT_EQ(layout.mark_slot(epoch, protocol::Hop::kData, 0), begin);
        EXPECT_LT(layout.mark_slot(epoch, protocol::Hop::kData, runs - 1),
                  begin + layout.area_slots(PacketKind::kEpoch));
      }
    }
  }
}

}  // namespace
}  // namespace nvrar::test
