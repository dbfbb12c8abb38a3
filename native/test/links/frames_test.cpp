// A rank that knows the group's secret and sends frames that no rank sends. Its link ends before a byte of them is
// used, and the group fails.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <random>

#include "common/rank_set.h"
#include "common/sha256.h"
#include "links/fake_rank.h"
#include "protocol/slices.h"
#include "support/abi.h"

namespace nvrar::test {
namespace {

using link::FrameKind;
using protocol::Hop;
using protocol::PacketKind;
using protocol::RingLayout;

constexpr uint32_t kReal = FakeRank::kReal;
constexpr uint32_t kFake = FakeRank::kFake;
constexpr uint64_t kEpoch = 1;  // that of the first launch
constexpr size_t kPoisonBytes = sizeof(uint64_t) + sizeof(RankSet);

std::vector<uint8_t> payload(size_t bytes) { return std::vector<uint8_t>(bytes, 0xA5); }

struct BadFrame {
  const char* name;
  std::function<Frame(const RingLayout&)> make;
};
void PrintTo(const BadFrame& bad, std::ostream* out) { *out << bad.name; }

Frame packets(uint64_t slot, uint64_t epoch, size_t bytes) {
  return FakeRank::frame(FrameKind::kPackets, slot, epoch, payload(bytes));
}
Frame numbered(uint64_t slot, size_t bytes) { return FakeRank::frame(FrameKind::kNumbered, slot, 1, payload(bytes)); }

Frame apart(Frame frame, uint32_t stride) {
  frame.head.stride = static_cast<uint16_t>(stride);
  return frame;
}

const BadFrame kBadFrames[] = {
    {"AnotherKind", [](const RingLayout&) { return FakeRank::frame(static_cast<FrameKind>(0)); }},
    {"AKindFarAway", [](const RingLayout&) { return FakeRank::frame(static_cast<FrameKind>(0xFFFF), 0, 0, {1}); }},
    {"AStrideOfAQuestion", [](const RingLayout&) { return apart(FakeRank::frame(FrameKind::kAsk), 1); }},
    {"AStrideOfNumbers",
     [](const RingLayout& l) { return apart(numbered(l.transfer_ring_begin(kFake), 8), protocol::kRunPackets); }},
    {"RunsThatOverlap",
     [](const RingLayout& l) {
       return apart(packets(l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData), kEpoch, 512),
                    protocol::kRunPackets - 1);
     }},
    {"RunsBeyondAnArea",
     [](const RingLayout& l) {
       const uint64_t end =
           l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData) + l.hops() * l.area_slots(PacketKind::kEpoch);
       return apart(packets(end - 2 * protocol::kRunPackets, kEpoch, 264), 2 * protocol::kRunPackets);
     }},
    {"RunsFarBeyondTheRings",
     [](const RingLayout& l) {
       return apart(packets(l.area_begin(PacketKind::kSentinel, kEpoch, Hop::kData), kEpoch, 16384), 0xFFFF);
     }},
    {"AHeaderAndARun",
     [](const RingLayout&) {
       return apart(packets(RingLayout::header_slot(kEpoch, kFake), kEpoch, 264), protocol::kRunPackets);
     }},
    {"MoreBytesThanAFrameHas",
     [](const RingLayout& l) {
       return packets(l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData), kEpoch, link::kMostPayloadBytes + 1);
     }},
    {"BytesUpToTheLast",
     [](const RingLayout&) {
       Frame frame = FakeRank::frame(FrameKind::kPackets, 0, kEpoch);
       frame.head.bytes = ~0u;
       return frame;
     }},
    {"NoBytes",
     [](const RingLayout& l) { return packets(l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData), kEpoch, 0); }},
    {"TheHeaderOfTheReceiver",
     [](const RingLayout&) { return packets(RingLayout::header_slot(kEpoch, kReal), kEpoch, 8); }},
    {"TheHeaderOfAThirdRank", [](const RingLayout&) { return packets(RingLayout::header_slot(kEpoch, 2), kEpoch, 8); }},
    {"AHeaderOfTheOtherParity",
     [](const RingLayout&) { return packets(RingLayout::header_slot(kEpoch + 1, kFake), kEpoch, 8); }},
    {"AHeaderOfTwoPackets",
     [](const RingLayout&) { return packets(RingLayout::header_slot(kEpoch, kFake), kEpoch, 9); }},
    {"SlotsBetweenHeadersAndAreas", [](const RingLayout&) { return packets(RingLayout::kHeaderSlots - 1, kEpoch, 8); }},
    {"SlotsBeforeAnArea",
     [](const RingLayout& l) { return packets(l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData) - 1, kEpoch, 16); }},
    {"AnAreaOfTheOtherParity",
     [](const RingLayout& l) { return packets(l.area_begin(PacketKind::kEpoch, kEpoch + 1, Hop::kData), kEpoch, 8); }},
    {"SentinelsOfTheOtherParity",
     [](const RingLayout& l) {
       return packets(l.area_begin(PacketKind::kSentinel, kEpoch + 1, Hop::kData), kEpoch, 8);
     }},
    {"SlotsBeyondAnArea",
     [](const RingLayout& l) {
       const uint64_t end =
           l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData) + l.hops() * l.area_slots(PacketKind::kEpoch);
       return packets(end - 1, kEpoch, 16);
     }},
    {"SlotsBeyondTheSentinels", [](const RingLayout& l) { return packets(l.sentinel_end() - 1, kEpoch, 32); }},
    {"CreditsByPackets", [](const RingLayout& l) { return packets(l.credit_slot(kFake), kEpoch, 8); }},
    {"TransfersByPackets", [](const RingLayout& l) { return packets(l.transfer_ring_begin(kFake), kEpoch, 8); }},
    {"SlotsBeyondTheRings", [](const RingLayout& l) { return packets(l.total_slots(), kEpoch, 8); }},
    {"TheLastSlotThereIs", [](const RingLayout&) { return packets(0xFFFFFFFF, kEpoch, 4096); }},
    {"TheEpochBefore",
     [](const RingLayout& l) {
       return packets(l.area_begin(PacketKind::kEpoch, kEpoch - 2, Hop::kData), kEpoch - 2, 8);
     }},
    {"AnEpochTooFarAhead",
     [](const RingLayout& l) {
       return packets(l.area_begin(PacketKind::kEpoch, kEpoch + 2, Hop::kData), kEpoch + 2, 8);
     }},
    {"TheLastEpoch",
     [](const RingLayout& l) { return packets(l.area_begin(PacketKind::kEpoch, ~0ull, Hop::kData), ~0ull, 8); }},
    {"NumbersInADataArea",
     [](const RingLayout& l) { return numbered(l.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData), 8); }},
    {"NumbersInAHeader", [](const RingLayout&) { return numbered(RingLayout::header_slot(kEpoch, kFake), 8); }},
    {"NumbersInTheRingOfTheReceiver", [](const RingLayout& l) { return numbered(l.transfer_ring_begin(kReal), 8); }},
    {"NumbersBeyondTheRing",
     [](const RingLayout& l) { return numbered(l.transfer_ring_begin(kFake) + l.transfer_ring_slots() - 1, 16); }},
    {"NumbersBeforeTheRing", [](const RingLayout& l) { return numbered(l.transfer_ring_begin(kFake) - 1, 16); }},
    {"TheCreditOfAnother", [](const RingLayout& l) { return numbered(l.credit_slot(kReal), 8); }},
    {"TwoCredits", [](const RingLayout& l) { return numbered(l.credit_slot(kFake), 16); }},
    {"HalfANumberedPacket", [](const RingLayout& l) { return numbered(l.transfer_ring_begin(kFake), 12); }},
    {"NumbersWithoutBytes", [](const RingLayout& l) { return numbered(l.transfer_ring_begin(kFake), 0); }},
    {"AQuestionWithAPayload", [](const RingLayout&) { return FakeRank::frame(FrameKind::kAsk, 0, 0, {1}); }},
    {"AStateOfAnotherSize", [](const RingLayout&) { return FakeRank::frame(FrameKind::kState, 0, 0, payload(8)); }},
    {"AnEmptyState", [](const RingLayout&) { return FakeRank::frame(FrameKind::kState); }},
    {"APoisonOfNothing",
     [](const RingLayout&) {
       return FakeRank::frame(FrameKind::kPoison, 0, 0, std::vector<uint8_t>(kPoisonBytes, 0));
     }},
    {"APoisonOfARankThatThereIsNot",
     [](const RingLayout&) {
       std::vector<uint8_t> bytes(kPoisonBytes, 0);
       const uint64_t word = NVRAR_PEER_LOST | uint64_t{2} << 8;  // of rank 2, in a group of 2
       std::memcpy(bytes.data(), &word, sizeof word);
       return FakeRank::frame(FrameKind::kPoison, 0, 0, bytes);
     }},
    {"APoisonOfAnotherSize", [](const RingLayout&) { return FakeRank::frame(FrameKind::kPoison, 0, 0, {1}); }},
    {"AGoodbyeWithAPayload", [](const RingLayout&) { return FakeRank::frame(FrameKind::kGoodbye, 0, 0, {1}); }},
};

class HostileFrame : public ::testing::TestWithParam<BadFrame> {};

TEST_P(HostileFrame, EndsTheLinkBeforeAByteIsStored) {
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes});
  const std::vector<uint8_t> before = fake.rings();
  ASSERT_TRUE(fake.send(GetParam().make(fake.layout())));
  fake.expect_lost(before);
  // The sender learns why before the link ends, so that it does not blame the real rank.
  Frame last{};
  for (Frame got; fake.receive(&got);) last = got;
  ASSERT_EQ(last.head.kind, FrameKind::kPoison);
  ASSERT_EQ(last.payload.size(), kPoisonBytes);
  uint64_t word = 0;
  RankSet lost;
  std::memcpy(&word, last.payload.data(), sizeof word);
  std::memcpy(&lost, last.payload.data() + sizeof word, sizeof lost);
  const auto poison = shared::Poison::of(word, lost);
  EXPECT_EQ(poison.status, NVRAR_PEER_LOST);
  EXPECT_EQ(poison.origin, FakeRank::kReal);
  EXPECT_EQ(poison.ranks, RankSet::of(kFake));
  EXPECT_TRUE(fake.socket().is_closed_there());
  ASSERT_EQ(nvrar_async_error(fake.comm()), NVRAR_PEER_LOST);
  const std::string sentence = nvrar_last_error();
  EXPECT_NE(sentence.find("; rank " + std::to_string(kFake) + " had sent "), std::string::npos) << sentence;
}

INSTANTIATE_TEST_SUITE_P(Frames, HostileFrame, ::testing::ValuesIn(kBadFrames),
                         [](const auto& instance) { return instance.param.name; });

class HostileRank : public ::testing::Test {
 protected:
  // Whatever a rank has done to one group, another group of this process sums as ever.
  void TearDown() override {
    ThreadGroup group(2, {.ranks_per_node = 1, .linked = true});
    group.run([](int rank, nvrar_comm* comm) {
      float value = static_cast<float>(rank + 1);
      const auto address = reinterpret_cast<uint64_t>(&value);
      EXPECT_EQ(nvrar_all_reduce(comm, address, address, 1, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0),
                NVRAR_OK)
          << nvrar_last_error();
      EXPECT_EQ(value, 3);
    });
  }
  Frame good(const FakeRank& fake) {
    return packets(fake.layout().area_begin(PacketKind::kEpoch, kEpoch, Hop::kData), kEpoch, 8);
  }
  const GroupOptions small_{.ring_bytes = protocol::kMinRingBytesOfNodes};
};

TEST_F(HostileRank, CannotRepeatAFrame) {
  FakeRank fake(small_);
  ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kAsk)));
  const std::vector<uint8_t> before = fake.rings();
  fake.next_number() = 0;
  ASSERT_TRUE(fake.send(good(fake)));
  fake.expect_lost(before);
}

TEST_F(HostileRank, CannotChangeTheOrderOfFrames) {
  FakeRank fake(small_);
  const std::vector<uint8_t> before = fake.rings();
  const std::vector<uint8_t> first = fake.bytes_of(good(fake));
  const std::vector<uint8_t> second = fake.bytes_of(FakeRank::frame(FrameKind::kAsk));
  ASSERT_TRUE(fake.socket().send(second));
  ASSERT_TRUE(fake.socket().send(first));
  fake.expect_lost(before);
}

TEST_F(HostileRank, CannotLeaveAFrameOut) {
  FakeRank fake(small_);
  const std::vector<uint8_t> before = fake.rings();
  fake.next_number() = 1;
  ASSERT_TRUE(fake.send(good(fake)));
  fake.expect_lost(before);
}

TEST_F(HostileRank, ThatEndsInAFrameIsLostAndTheFrameIsNotUsed) {
  for (const size_t cut :
       {size_t{1}, sizeof(link::FrameHead) - 1, sizeof(link::FrameHead), sizeof(link::FrameHead) + 7}) {
    FakeRank fake(small_);
    const std::vector<uint8_t> before = fake.rings();
    ASSERT_TRUE(fake.socket().send(fake.bytes_of(good(fake)).data(), cut));
    fake.socket().close();
    fake.expect_lost(before);
  }
}

TEST_F(HostileRank, ThatResetsItsLinkIsLost) {
  FakeRank fake(small_);
  const std::vector<uint8_t> before = fake.rings();
  fake.socket().reset();
  fake.expect_lost(before);
}

TEST_F(HostileRank, ThatSendsNoiseIsLost) {
  std::mt19937 random(11);
  for (int i = 0; i < 50; ++i) {
    FakeRank fake(small_);
    const std::vector<uint8_t> before = fake.rings();
    std::vector<uint8_t> noise(sizeof(link::FrameHead) + random() % 300);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    ASSERT_TRUE(fake.socket().send(noise));
    fake.expect_lost(before);
  }
}

// One bit of a whole frame is wrong: it is refused, or harmless.
TEST_F(HostileRank, ADamagedHeadStoresNothingOutsideTheSlotsOfItsEpoch) {
  for (size_t bit = 0; bit < 8 * sizeof(link::FrameHead); ++bit) {
    FakeRank fake(small_);
    const std::vector<uint8_t> before = fake.rings();
    std::vector<uint8_t> bytes = fake.bytes_of(good(fake));
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    ASSERT_TRUE(fake.socket().send(bytes));
    fake.socket().close();
    EXPECT_NE(fake.wait_for_failure(), NVRAR_OK) << bit;  // with one bit more it is a poison word
    const std::vector<uint8_t> after = fake.rings();
    const RingLayout& layout = fake.layout();
    const uint64_t begin = 16 * layout.area_begin(PacketKind::kEpoch, kEpoch, Hop::kData);
    const uint64_t end = begin + 16 * layout.hops() * layout.area_slots(PacketKind::kEpoch);
    for (uint64_t at = 0; at < after.size(); ++at) {
      if (after[at] != before[at] && (at < begin || at >= end)) {
        ADD_FAILURE() << "bit " << bit << " has changed byte " << at;
        break;
      }
    }
  }
}

// The first failure counts, however strange it is.
TEST_F(HostileRank, APoisonWordOfAnyBitsFailsTheGroup) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 24; ++i) {
    FakeRank fake(small_);
    // Half of them name a rank of the group and a status that there is or is not.
    const auto low = static_cast<uint64_t>(i % 2) << 8 | static_cast<uint64_t>(i - 12);
    const uint64_t word = i < 12 ? random() : (random() & ~0xFFFFFFull) | low;
    std::vector<uint8_t> bytes(kPoisonBytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    std::memcpy(bytes.data(), &word, sizeof word);
    ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kPoison, 0, 0, bytes)));
    const nvrar_status status = fake.wait_for_failure();
    EXPECT_NE(status, NVRAR_OK) << word;
    EXPECT_EQ(nvrar_barrier(fake.comm(), 0), status);
    EXPECT_STRNE(nvrar_last_error(), "");
  }
}

// What a rank tells of itself is only told on, so it may say anything. But Java knows the states of a call by name.
TEST_F(HostileRank, AStateOfAnyBitsIsHarmless) {
  constexpr size_t kStateOfCall = sizeof(RankSet) + sizeof(uint64_t) + offsetof(nvrar_call, state);
  const auto is_known = [](int32_t state) { return state >= NVRAR_CALL_NONE && state <= NVRAR_CALL_QUEUED; };
  std::mt19937_64 random(6);
  FakeRank fake(small_);
  uint32_t told = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> state(sizeof(RankSet) + sizeof(uint64_t) + sizeof(nvrar_call));
    for (uint8_t& byte : state) byte = i == 0 ? 0xFF : static_cast<uint8_t>(random());
    const int32_t state_of_call = i / 20 - 4;
    std::memcpy(state.data() + kStateOfCall, &state_of_call, sizeof state_of_call);
    ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kState, 0, 0, state)));
    if (i % 20 != 0) continue;
    nvrar_call call{};
    call.size = sizeof call;
    EXPECT_EQ(nvrar_refresh(fake.comm(), 1), NVRAR_OK);
    EXPECT_EQ(nvrar_call_of(fake.comm(), kFake, &call), NVRAR_OK);
    EXPECT_TRUE(is_known(call.state)) << call.state;
    std::vector<nvrar_call> calls(NVRAR_FLIGHT_RECORDS);
    calls[0].size = sizeof calls[0];
    uint32_t count = 0;
    EXPECT_EQ(nvrar_flight_record(fake.comm(), kFake, calls.data(), NVRAR_FLIGHT_RECORDS, &count), NVRAR_OK);
    told += count;
    for (uint32_t at = 0; at < count; ++at) {
      EXPECT_TRUE(is_known(calls[at].state)) << calls[at].state;
      // Only its own host knows when: what this one could write is when it was told.
      EXPECT_EQ(calls[at].begin_ns, 0u);
      EXPECT_EQ(calls[at].end_ns, 0u);
    }
  }
  EXPECT_GT(told, 0u);
  EXPECT_EQ(nvrar_async_error(fake.comm()), NVRAR_OK);
  fake.socket().close();
  EXPECT_EQ(fake.wait_for_failure(), NVRAR_PEER_LOST);
  EXPECT_EQ(nvrar_barrier(fake.comm(), 0), NVRAR_PEER_LOST);
}

TEST_F(HostileRank, AWaitThatNamesItselfEndsByItsLimit) {
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes, .timeout_ns = 200 * kMs});
  std::vector<uint8_t> state(sizeof(RankSet) + sizeof(uint64_t) + sizeof(nvrar_call), 0);
  state[0] = 0xFF;  // it waits for all ranks, and has looked just now
  std::thread answering([&] {
    for (Frame got; fake.receive(&got, 2);) {
      if (got.head.kind == FrameKind::kAsk && !fake.send(FakeRank::frame(FrameKind::kState, 0, got.head.epoch, state)))
        break;
    }
  });
  EXPECT_EQ(nvrar_barrier(fake.comm(), 0), NVRAR_TIMEOUT);
  EXPECT_TRUE(contains(nvrar_last_error(), "without rank 1")) << nvrar_last_error();
  ::shutdown(fake.socket().fd(), SHUT_RDWR);
  answering.join();
}

// It has come late, and what it says of itself takes long. It waits for rank 2, which is the one that is missing.
TEST(SlowLink, ALateRankWhoseAnswerTakesLongIsNotBlamedForTheOneThatItWaitsFor) {
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes, .timeout_ns = 2'000 * kMs}, 3);
  std::vector<uint8_t> state(sizeof(RankSet) + sizeof(uint64_t) + sizeof(nvrar_call), 0);
  std::thread answering([&] {
    for (Frame got; fake.receive(&got, 3);) {
      if (got.head.kind == FrameKind::kPoison) break;
      if (got.head.kind != FrameKind::kAsk) continue;
      if (got.head.epoch != 0) {  // when its limit is over, rank 0 counts its questions
        ::usleep(200'000);
        state[0] = 1 << 2;
      }
      ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kState, 0, got.head.epoch, state)));
    }
  });
  int32_t got = 0;
  const nvrar_transfer recv = recv_from(FakeRank::kFake, reinterpret_cast<uint64_t>(&got), 1, NVRAR_INT32);
  EXPECT_EQ(nvrar_batch(fake.comm(), &recv, 1, 0), NVRAR_TIMEOUT);
  const std::string sentence = nvrar_last_error();
  EXPECT_TRUE(contains(sentence, "without rank 2")) << sentence;
  answering.join();
}

// A rank that waits asks for whom the awaited one waits, and soon knows that nothing changes.
TEST(LinkedWait, AsksMoreAndMoreSeldom) {
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes, .timeout_ns = 2'000 * kMs});
  int questions = 0;
  std::thread counting([&] {
    for (Frame got; fake.receive(&got, 3);) {
      if (got.head.kind == FrameKind::kPoison) break;
      if (got.head.kind == FrameKind::kAsk) ++questions;
    }
  });
  EXPECT_EQ(nvrar_barrier(fake.comm(), 0), NVRAR_TIMEOUT);
  counting.join();
  EXPECT_GE(questions, 3);
  EXPECT_LE(questions, 8) << "after 50, 100, ... 1,600 ms, and for the report";
}

TEST_F(HostileRank, ThatHasSaidGoodbyeIsNotLostButGone) {
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes, .timeout_ns = 300 * kMs});
  ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kGoodbye)));
  fake.socket().close();
  EXPECT_EQ(fake.wait_for_failure(0.2), NVRAR_OK);
  EXPECT_EQ(nvrar_barrier(fake.comm(), 0), NVRAR_TIMEOUT);
  EXPECT_TRUE(contains(nvrar_last_error(), "rank 1 has left the group")) << nvrar_last_error();
}

// Not hostile, but as a bad network may have it.
TEST(SlowLink, DeliversAStreamThatComesByteByByte) {
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes});
  nvrar_status status = NVRAR_INTERNAL;
  std::thread barrier([&] { status = nvrar_barrier(fake.comm(), 0); });
  Frame got;
  do {
    ASSERT_TRUE(fake.receive(&got));
  } while (got.head.kind != FrameKind::kPackets);
  std::vector<uint8_t> bytes = fake.bytes_of(FakeRank::frame(FrameKind::kAsk));
  got.head.slot = static_cast<uint32_t>(RingLayout::header_slot(got.head.epoch, kFake));
  const std::vector<uint8_t> header = fake.bytes_of(got);
  bytes.insert(bytes.end(), header.begin(), header.end());
  for (const uint8_t byte : bytes) {
    ASSERT_TRUE(fake.socket().send(&byte, 1));
    ::usleep(500);
  }
  barrier.join();
  EXPECT_EQ(status, NVRAR_OK) << nvrar_last_error();
}

// The fake rank says what it has to say 200 ms later, so each call takes as long, and none fails.
TEST(SlowLink, DelaysEachCallByItsDelayAndNoMore) {
  constexpr int kCalls = 5;
  constexpr double kDelay = 0.2;
  FakeRank fake({.ring_bytes = protocol::kMinRingBytesOfNodes, .timeout_ns = 2'000 * kMs});
  std::vector<double> ends;
  std::vector<nvrar_status> statuses;
  const double begin = seconds_now();
  std::thread barriers([&] {
    for (int call = 0; call < kCalls; ++call) {
      statuses.push_back(nvrar_barrier(fake.comm(), 0));
      ends.push_back(seconds_now());
    }
  });
  for (int call = 0; call < kCalls;) {
    Frame got;
    ASSERT_TRUE(fake.receive(&got));
    if (got.head.kind != FrameKind::kPackets) continue;
    ::usleep(static_cast<useconds_t>(kDelay * 1e6));
    got.head.slot = static_cast<uint32_t>(RingLayout::header_slot(got.head.epoch, kFake));
    ASSERT_TRUE(fake.send(got));
    ++call;
  }
  barriers.join();
  EXPECT_EQ(statuses, std::vector<nvrar_status>(kCalls, NVRAR_OK)) << nvrar_last_error();
  for (int call = 0; call < kCalls; ++call) {
    const double took = ends[static_cast<size_t>(call)] - (call == 0 ? begin : ends[static_cast<size_t>(call - 1)]);
    EXPECT_GE(took, kDelay * 0.9) << "call " << call;
    EXPECT_LT(took, 3 * kDelay) << "call " << call;
  }
}

TEST(SlowLink, DeliversAMessageAtOneMegabitASecond) {
  constexpr uint64_t kBytes = 60'000;
  FakeRank fake;
  std::vector<uint8_t> got(kBytes);
  nvrar_status status = NVRAR_INTERNAL;
  std::thread receiver([&] {
    status = nvrar_broadcast(fake.comm(), reinterpret_cast<uint64_t>(got.data()),
                             reinterpret_cast<uint64_t>(got.data()), kBytes, NVRAR_UINT8, kFake, 0);
  });
  // A broadcast from the fake rank: its runs are in the flat order of one message from rank 1.
  std::vector<uint8_t> message(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) message[i] = static_cast<uint8_t>(i * 7 >> 3);
  Frame header;
  do {
    ASSERT_TRUE(fake.receive(&header));
  } while (header.head.kind != FrameKind::kPackets);
  std::vector<uint8_t> stream;
  const protocol::FlatRuns flat{fake.layout().topology};
  for (uint64_t j = 0; j * protocol::EpochPacket::kRunBytes < kBytes; ++j) {
    const uint64_t first = j * protocol::EpochPacket::kRunBytes;
    const uint64_t last = std::min<uint64_t>(kBytes, first + protocol::EpochPacket::kRunBytes);
    const std::vector<uint8_t> frame = fake.bytes_of(FakeRank::frame(
        FrameKind::kPackets, fake.layout().slot(PacketKind::kEpoch, kEpoch, Hop::kData, flat.data_run(j, kFake)),
        kEpoch, {message.begin() + static_cast<ptrdiff_t>(first), message.begin() + static_cast<ptrdiff_t>(last)}));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  header.head.slot = static_cast<uint32_t>(RingLayout::header_slot(kEpoch, kFake));
  const std::vector<uint8_t> last = fake.bytes_of(header);
  stream.insert(stream.end(), last.begin(), last.end());
  const double begin = seconds_now();
  for (size_t at = 0; at < stream.size(); at += 125) {
    ASSERT_TRUE(fake.socket().send(stream.data() + at, std::min<size_t>(125, stream.size() - at)));
    ::usleep(950);
  }
  receiver.join();
  EXPECT_EQ(status, NVRAR_OK) << nvrar_last_error();
  EXPECT_TRUE(got == message);
  EXPECT_GT(seconds_now() - begin, 0.4);
}

}  // namespace
}  // namespace nvrar::test
