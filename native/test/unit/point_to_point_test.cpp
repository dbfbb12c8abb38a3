// The two ends of a pair of ranks over a memory that delivers stores in any order; the slots; the checks of a batch.
#include "protocol/point_to_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "call/batch.h"
#include "common/error.h"
#include "support/abi.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using protocol::PairEnd;
using protocol::RingLayout;
using protocol::Step;
using protocol::Transfer;
using protocol::WordPacket;

TEST(TransferRings, ShareNoSlotWithEachOtherOrTheCollectives) {
  for (uint32_t world = 1; world <= protocol::kMaxRanks; ++world) {
    const RingLayout layout{kSmallRingBytes, {world, (world + 1) / 2}};
    ASSERT_GE(layout.transfer_ring_slots(), protocol::kStepsPerRing * protocol::TransferHeader::kPackets);
    std::set<uint64_t> used;
    for (uint32_t rank = 0; rank < world; ++rank) {
      ASSERT_TRUE(used.insert(layout.credit_slot(rank)).second);
      for (uint64_t i = 0; i < layout.transfer_ring_slots(); ++i) {
        ASSERT_TRUE(used.insert(layout.transfer_ring_begin(rank) + i).second);
      }
    }
    EXPECT_GE(*used.begin(), layout.sentinel_end());
    EXPECT_LT(*used.rbegin(), layout.total_slots());
  }
}

// Two ranks' memories. A store is in flight until it is delivered. Stores arrive in any order, but for those into one
// slot, which every memory keeps in order.
struct Memory {
  struct Store {
    int rank;
    uint64_t slot;
    WordPacket packet;
  };
  std::vector<WordPacket> slots[2];
  std::vector<Store> under_way;

  void deliver(uint64_t random) {
    const Store& picked = under_way[random % under_way.size()];
    const auto oldest = std::find_if(under_way.begin(), under_way.end(), [&](const Store& store) {
      return store.rank == picked.rank && store.slot == picked.slot;
    });
    slots[oldest->rank][oldest->slot] = oldest->packet;
    under_way.erase(oldest);
  }
};

class MemoryPort {
 public:
  MemoryPort(Memory* memory, int rank) : memory_(memory), rank_(rank) {}
  void put(uint32_t peer, uint64_t slot, uint64_t payload, uint64_t epoch) {
    memory_->under_way.push_back({static_cast<int>(peer), slot, {payload, epoch}});
  }
  WordPacket look(uint64_t slot) { return memory_->slots[rank_][slot]; }
  void took(uint64_t) {}
  uint64_t load(const uint8_t* from) { return load_part(from, 8); }
  uint64_t load_part(const uint8_t* from, uint32_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
  }
  void store(uint8_t* to, uint64_t word) { store_part(to, word, 8); }
  void store_part(uint8_t* to, uint64_t word, uint32_t bytes) { std::memcpy(to, &word, bytes); }

 private:
  Memory* memory_;
  int rank_;
};

struct Ends {
  explicit Ends(uint64_t slots) {
    for (auto& rank : memory.slots) rank.assign(slots + 1, WordPacket{});
    sender = {1, 0, slots, slots, 0, 0, 0};
    receiver = {0, 0, slots, slots, 0, 0, 0};
  }
  Memory memory;
  PairEnd sender;
  PairEnd receiver;
  MemoryPort send_port{&memory, 0};
  MemoryPort recv_port{&memory, 1};
};

Transfer transfer_of(std::vector<uint8_t>& bytes, uint32_t sequence) {
  Transfer transfer{};
  transfer.header = {bytes.size(), sequence, NVRAR_UINT8};
  transfer.address = reinterpret_cast<uint64_t>(bytes.data());
  transfer.bytes = bytes.size();
  return transfer;
}

// Whatever the order in which steps and stores happen, transfers arrive whole and in order, and neither end gets stuck.
TEST(Pair, ArrivesWholeInEveryOrderOfStepsAndStores) {
  for (uint64_t seed = 0; seed < repetitions(2000); ++seed) {
    const uint64_t slots = 16 << seed % 3;
    Ends ends(slots);
    uint64_t turn = seed << 32;
    for (uint32_t sequence = 1; sequence <= 20; ++sequence) {
      std::vector<uint8_t> from(1 + mix(turn) % (slots * 8 * 3));
      std::vector<uint8_t> to(from.size());
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(mix(seed + i));
      Transfer send = transfer_of(from, sequence);
      Transfer recv = transfer_of(to, sequence);
      int idle = 0;
      while (!recv.complete()) {
        const uint64_t r = mix(++turn);
        Step step = Step::kNothing;
        if (r % 4 == 0 && !send.complete()) {
          step = protocol::push(ends.send_port, ends.sender, send);
        } else if (r % 4 == 1) {
          step = protocol::pull(ends.recv_port, ends.receiver, recv);
        } else if (!ends.memory.under_way.empty()) {
          ends.memory.deliver(r >> 8);
          step = Step::kMoved;
        }
        ASSERT_TRUE(step == Step::kMoved || step == Step::kNothing);
        idle = step == Step::kMoved ? 0 : idle + 1;
        ASSERT_LT(idle, 1000) << "stuck with seed " << seed;
        ASSERT_LE(ends.sender.packets - ends.receiver.packets, slots);
      }
      ASSERT_TRUE(send.complete());
      ASSERT_EQ(to, from) << "seed " << seed;
    }
  }
}

TEST(Pair, AFullRingWaitsAndAnEmptyOneIsNotRead) {
  Ends ends(16);
  std::vector<uint8_t> from(1000, 1);
  std::vector<uint8_t> to(1000);
  Transfer send = transfer_of(from, 1);
  Transfer recv = transfer_of(to, 1);
  EXPECT_FALSE(protocol::can_pull(ends.recv_port, ends.receiver));
  EXPECT_EQ(protocol::pull(ends.recv_port, ends.receiver, recv), Step::kNothing);
  while (protocol::push(ends.send_port, ends.sender, send) == Step::kMoved) continue;
  EXPECT_EQ(ends.sender.packets, 16u);
  EXPECT_FALSE(protocol::can_push(ends.send_port, ends.sender));
  while (!ends.memory.under_way.empty()) ends.memory.deliver(0);
  EXPECT_TRUE(protocol::can_pull(ends.recv_port, ends.receiver));
  EXPECT_EQ(protocol::pull(ends.recv_port, ends.receiver, recv), Step::kMoved);
  EXPECT_FALSE(protocol::can_push(ends.send_port, ends.sender)) << "the credit is under way";
  ends.memory.deliver(0);
  EXPECT_TRUE(protocol::can_push(ends.send_port, ends.sender));
}

TEST(Pair, FindsADifferentHeaderBeforeAnyDataIsWritten) {
  std::vector<uint8_t> from(8, 1);
  for (int field = 0; field < 3; ++field) {
    Ends ends(16);
    std::vector<uint8_t> to(8, 7);
    Transfer send = transfer_of(from, 5);
    Transfer recv = transfer_of(to, 5);
    if (field == 0) recv.header.count = 8 + (uint64_t{1} << 32);
    if (field == 1) recv.header.sequence = 6;
    if (field == 2) recv.header.data_type = NVRAR_INT8;
    ASSERT_EQ(protocol::push(ends.send_port, ends.sender, send), Step::kMoved);
    while (!ends.memory.under_way.empty()) ends.memory.deliver(0);
    EXPECT_EQ(protocol::pull(ends.recv_port, ends.receiver, recv), Step::kDiffers);
    EXPECT_TRUE(recv.theirs == send.header);
    EXPECT_EQ(to, std::vector<uint8_t>(8, 7));
  }
}

TEST(Pair, NoticesAPacketThatWasOverwrittenUnread) {
  Ends ends(16);
  std::vector<uint8_t> from(1000, 1);
  std::vector<uint8_t> to(1000);
  Transfer send = transfer_of(from, 1);
  Transfer recv = transfer_of(to, 1);
  while (protocol::push(ends.send_port, ends.sender, send) == Step::kMoved) continue;
  ends.sender.credited = ends.sender.packets;  // a credit that nobody gave
  EXPECT_EQ(protocol::push(ends.send_port, ends.sender, send), Step::kMoved);
  while (!ends.memory.under_way.empty()) ends.memory.deliver(0);
  EXPECT_EQ(protocol::pull(ends.recv_port, ends.receiver, recv), Step::kOverrun);
}

constexpr uint64_t kAt = 4096;

std::string refusal(const std::vector<nvrar_transfer>& transfers) {
  try {
    BatchRoom room;
    check_batch(transfers.data(), static_cast<uint32_t>(transfers.size()), 1, 4, &room);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), NVRAR_INVALID_ARGUMENT);
    return error.what();
  }
}

TEST(CheckBatch, AcceptsWhatTouchesOnlyItsOwnMemory) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({send_to(0, 0, 0), recv_from(0, 0, 0)}), "") << "nothing needs no address";
  EXPECT_EQ(refusal({send_to(0, kAt, 10), send_to(2, kAt, 10), send_to(3, kAt + 8, 10)}), "") << "sends may share";
  EXPECT_EQ(refusal({recv_from(0, kAt, 2), send_to(0, kAt + 8, 2), recv_from(2, kAt + 16, 2)}), "") << "neighbours";
  EXPECT_EQ(refusal({send_to(1, kAt, 2), recv_from(1, kAt + 8, 2)}), "") << "to oneself";
}

TEST(CheckBatch, RefusesWithTheTransferAndTheReason) {
  EXPECT_EQ(refusal({send_to(4, kAt, 1)}), "the send to rank 4: that is not a rank of a group of 4");
  EXPECT_EQ(refusal({send_to(0, kAt, 1), recv_from(-1, kAt, 1)}),
            "the recv from rank -1 (transfer 1 of the batch): that is not a rank of a group of 4");
  EXPECT_EQ(refusal({{sizeof(nvrar_transfer), NVRAR_BARRIER, 0, NVRAR_FLOAT32, kAt, 1}}),
            "transfer 0 of the batch is of kind 4, which is neither send nor recv");
  EXPECT_EQ(refusal({send_to(0, kAt, 1, 3)}), "the send to rank 0: there is no data type 3");
  EXPECT_EQ(refusal({send_to(0, 0, 1)}), "the send to rank 0: its address is null");
  EXPECT_NE(refusal({send_to(0, kAt + 2, 1)}).find("not aligned"), std::string::npos);
  EXPECT_NE(refusal({send_to(0, kAt, ~0ULL / 2)}).find("does not fit"), std::string::npos);
  EXPECT_NE(refusal({send_to(0, kAt, ~0ULL / 4)}).find("past the end"), std::string::npos);
}

TEST(CheckBatch, RefusesARecvThatOverlapsAnything) {
  EXPECT_EQ(
      refusal({recv_from(0, kAt, 4), recv_from(2, kAt + 12, 4)}),
      "the recv from rank 0 (transfer 0 of the batch) and the recv from rank 2 (transfer 1 of the batch) overlap");
  EXPECT_NE(refusal({send_to(0, kAt + 12, 4), recv_from(0, kAt, 4)}), "");
  EXPECT_NE(refusal({recv_from(0, kAt + 12, 4), send_to(0, kAt, 4)}), "");
  EXPECT_NE(refusal({send_to(0, kAt, 4), recv_from(0, kAt, 4)}), "") << "in place";
  EXPECT_NE(refusal({send_to(0, kAt, 100), send_to(2, kAt, 1), recv_from(0, kAt + 80, 1)}), "") << "behind a short one";
  EXPECT_NE(refusal({recv_from(0, kAt, 100), recv_from(2, kAt + 400, 1), send_to(0, kAt + 80, 1)}), "");
}

TEST(CheckBatch, RefusesATransferToOneselfWithoutItsOtherHalf) {
  EXPECT_EQ(refusal({send_to(1, kAt, 1)}), "the send to rank 1 itself has no recv in the same batch");
  EXPECT_EQ(refusal({recv_from(1, kAt, 1), send_to(0, kAt + 8, 1)}),
            "the recv from rank 1 (transfer 0 of the batch) itself has no send in the same batch");
  EXPECT_NE(refusal({send_to(1, kAt, 1), send_to(1, kAt, 1), recv_from(1, kAt + 8, 1)}), "");
  EXPECT_EQ(refusal({send_to(1, kAt, 1), recv_from(1, kAt + 8, 2)}),
            "the send to rank 1 (transfer 0 of the batch) itself is of float32[1], its recv of float32[2]");
  EXPECT_NE(refusal({send_to(1, kAt, 1), recv_from(1, kAt + 8, 1, NVRAR_INT32)}), "");
}

}  // namespace
}  // namespace nvrar::test
