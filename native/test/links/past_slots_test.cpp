// Calls that take runs from their link, past the slots: what comes in pieces, what comes behind them, and what ends
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "links/fake_rank.h"
#include "protocol/slices.h"

namespace nvrar::test {
namespace {

using link::FrameKind;
using protocol::EpochPacket;
using protocol::Hop;
using protocol::PacketKind;
using protocol::RingLayout;

constexpr uint32_t kFake = FakeRank::kFake;
constexpr uint8_t kUntouched = 0xEE;
constexpr size_t kBytes = 2000;  // of a message: runs of one frame

// A broadcast by the fake rank, which the real one has entered. It waits for less than a millisecond before it sleeps
// and its link has another reader, so the answer goes at once.
class FakeBroadcast {
 public:
  explicit FakeBroadcast(uint64_t timeout_ns = 5000 * kMs) : fake({.timeout_ns = timeout_ns}) {
    for (size_t i = 0; i < kBytes; ++i) message[i] = static_cast<uint8_t>(i * 7 >> 3);
    call_ = std::thread([this] {
      const auto address = reinterpret_cast<uint64_t>(got.data());
      status = nvrar_broadcast(fake.comm(), address, address, kBytes, NVRAR_UINT8, kFake, 0);
      if (status != NVRAR_OK) sentence = nvrar_last_error();
    });
    while (fake.receive(&header) && header.head.kind != FrameKind::kPackets) continue;
    header.head.slot = static_cast<uint32_t>(RingLayout::header_slot(1, kFake));
  }
  ~FakeBroadcast() {
    if (call_.joinable()) call_.join();
  }
  FakeBroadcast(const FakeBroadcast&) = delete;
  FakeBroadcast& operator=(const FakeBroadcast&) = delete;

  // The whole message.
  Frame data() const {
    const protocol::FlatRuns runs{fake.layout().topology};
    Frame frame =
        FakeRank::frame(FrameKind::kPackets,
                        fake.layout().slot(PacketKind::kEpoch, 1, Hop::kData, runs.data_run(0, kFake)), 1, message);
    frame.head.stride = 2 * protocol::kRunPackets;
    return frame;
  }
  void send(std::initializer_list<Frame> frames) {
    std::vector<uint8_t> together;
    for (const Frame& frame : frames) {
      const std::vector<uint8_t> bytes = fake.bytes_of(frame);
      together.insert(together.end(), bytes.begin(), bytes.end());
    }
    ASSERT_TRUE(fake.socket().send(together));
  }
  // The header, and so many bytes of the message's frame.
  void send_part(size_t bytes) {
    std::vector<uint8_t> together = fake.bytes_of(header);
    const std::vector<uint8_t> frame = fake.bytes_of(data());
    together.insert(together.end(), frame.begin(), frame.begin() + static_cast<ptrdiff_t>(bytes));
    ASSERT_TRUE(fake.socket().send(together));
  }
  void ends() { call_.join(); }

  FakeRank fake;
  Frame header;
  std::vector<uint8_t> message = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> got = std::vector<uint8_t>(kBytes, kUntouched);
  nvrar_status status = NVRAR_INTERNAL;
  std::string sentence;

 private:
  std::thread call_;
};

TEST(PastSlots, AFrameMayComeInPiecesBetweenWhichTheRankSleeps) {
  FakeBroadcast call;
  call.send({call.header});
  const std::vector<uint8_t> bytes = call.fake.bytes_of(call.data());
  size_t at = 0;
  for (const size_t part : {10, 30, 300, 5, 600, 1}) {
    ASSERT_TRUE(call.fake.socket().send(
        {bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + part)}));
    at += part;
    ::usleep(20'000);
  }
  ASSERT_TRUE(call.fake.socket().send({bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end()}));
  call.ends();
  EXPECT_EQ(call.status, NVRAR_OK) << call.sentence;
  EXPECT_EQ(call.got, call.message);
}

// Nothing else would look at what has been received already.
TEST(PastSlots, WhatComesBehindTheLastRunIsTakenAtTheEndOfTheCall) {
  FakeBroadcast left;
  left.send({left.header, left.data(), FakeRank::frame(FrameKind::kGoodbye)});
  left.ends();
  EXPECT_EQ(left.status, NVRAR_OK) << left.sentence;
  EXPECT_EQ(left.got, left.message);
  nvrar_link link{};
  link.size = sizeof link;
  EXPECT_EQ(nvrar_link_of(left.fake.comm(), kFake, &link), NVRAR_OK);
  EXPECT_EQ(link.state, NVRAR_LINK_CLOSED);

  FakeBroadcast failed;
  const shared::Poison poison{NVRAR_ABORTED, kFake, {}, 0};
  std::vector<uint8_t> payload(sizeof(uint64_t) + sizeof(RankSet));
  const uint64_t word = poison.word();
  std::memcpy(payload.data(), &word, sizeof word);
  failed.send({failed.header, failed.data(), FakeRank::frame(FrameKind::kPoison, 0, 0, payload)});
  failed.ends();
  EXPECT_EQ(failed.fake.wait_for_failure(1), NVRAR_ABORTED);
}

TEST(PastSlots, ALinkThatEndsInAFrameEndsTheCall) {
  FakeBroadcast lost;
  lost.send_part(900);
  lost.fake.socket().close();
  lost.ends();
  EXPECT_EQ(lost.status, NVRAR_PEER_LOST) << lost.sentence;
}

TEST(PastSlots, ACallThatWaitsForTheRestOfAFrameEndsByItsLimitOrAnAbort) {
  FakeBroadcast late(300 * kMs);
  late.send_part(900);
  EXPECT_EQ(nvrar_refresh(late.fake.comm(), 1), NVRAR_OK);
  late.ends();
  EXPECT_EQ(late.status, NVRAR_TIMEOUT) << late.sentence;
  FakeBroadcast aborted;
  aborted.send_part(900);
  EXPECT_EQ(nvrar_abort(aborted.fake.comm()), NVRAR_OK);
  aborted.ends();
  EXPECT_EQ(aborted.status, NVRAR_ABORTED) << aborted.sentence;
}

TEST(PastSlots, AFrameThatGoesBeyondItsAreaIsRefusedBeforeARunOfItIsUsed) {
  FakeBroadcast call;
  Frame frame = call.data();
  frame.head.stride = 0xFFFF;
  call.send({call.header, frame});
  call.ends();
  EXPECT_EQ(call.status, NVRAR_PEER_LOST);
  EXPECT_TRUE(contains(call.sentence, "packets for slots that are not of their epoch")) << call.sentence;
  EXPECT_EQ(std::count(call.got.begin(), call.got.end(), kUntouched), static_cast<ptrdiff_t>(kBytes));
}

}  // namespace
}  // namespace nvrar::test
