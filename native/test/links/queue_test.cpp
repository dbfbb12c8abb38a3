// What a link's socket does not take at once: it is sent later, nothing of it is lost, it does not grow without limit,
// and no call waits for it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "links/fake_rank.h"
#include "support/abi.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using link::FrameKind;
using protocol::RingLayout;

constexpr uint32_t kFake = FakeRank::kFake;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLargeRing = 16 * kMiB;  // so that a message of this test is one launch, and fits a transfer ring

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

nvrar_status broadcast(nvrar_comm* comm, std::vector<uint8_t>& data) {
  const auto address = reinterpret_cast<uint64_t>(data.data());
  return nvrar_broadcast(comm, address, address, data.size(), NVRAR_UINT8, FakeRank::kReal, 0);
}

// How the other rank answers the first broadcast of a group.
Frame answer_to_broadcast(std::vector<uint8_t>& data) {
  FakeRank fake({.ring_bytes = kLargeRing});
  std::thread joining([&] { (void)fake.join_calls(0.3); });
  EXPECT_EQ(broadcast(fake.comm(), data), NVRAR_OK) << nvrar_last_error();
  joining.join();
  return fake.last_answer();
}

// A launch broadcasts in epoch packets, of which a run has 256 bytes; the runs of another rank lie between those of
// this.
TEST(LinkQueue, RunsThatLieEquallyFarApartShareFrames) {
  FakeRank fake({.ring_bytes = kLargeRing});
  std::vector<uint8_t> data(40'000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7);
  std::thread joining([&] { EXPECT_EQ(broadcast(fake.comm(), data), NVRAR_OK) << nvrar_last_error(); });
  Frame header;
  while (fake.receive(&header, 2) && header.head.kind != FrameKind::kPackets) continue;
  EXPECT_EQ(header.head.slot, RingLayout::header_slot(header.head.epoch, FakeRank::kReal)) << "before the data";
  std::vector<Frame> frames;
  size_t bytes = 0;
  for (Frame got; bytes < data.size() && fake.receive(&got, 2);) {
    if (got.head.kind != FrameKind::kPackets) continue;
    frames.push_back(got);
    bytes += got.head.bytes;
  }
  header.head.slot = static_cast<uint32_t>(RingLayout::header_slot(header.head.epoch, kFake));
  EXPECT_TRUE(fake.send(header));
  joining.join();
  ASSERT_EQ(frames.size(), (data.size() + link::kMostPayloadBytes - 1) / link::kMostPayloadBytes);
  std::vector<uint8_t> sent;
  for (const Frame& frame : frames) {
    EXPECT_EQ(frame.head.stride, 2 * protocol::kRunPackets);
    const uint64_t runs = sent.size() / protocol::EpochPacket::kRunBytes;
    EXPECT_EQ(frame.head.slot, frames[0].head.slot + runs * frame.head.stride);
    sent.insert(sent.end(), frame.payload.begin(), frame.payload.end());
  }
  EXPECT_EQ(sent, data);
}

TEST(LinkQueue, ATransferThatTheSocketDidNotTakeIsSentAfterItsCall) {
  FakeRank fake({.ring_bytes = kLargeRing});
  fake.make_link_narrow();
  std::vector<uint8_t> data(400 << 10, 3);
  nvrar_transfer send{};
  send.size = sizeof send;
  send.kind = NVRAR_SEND;
  send.peer = kFake;
  send.data_type = NVRAR_UINT8;
  send.address = reinterpret_cast<uint64_t>(data.data());
  send.count = data.size();
  ASSERT_EQ(nvrar_batch(fake.comm(), &send, 1, 0), NVRAR_OK) << nvrar_last_error();
  ::usleep(50'000);  // now its thread sleeps
  uint64_t bytes = 0;
  Frame got;
  while (bytes < data.size() && fake.receive(&got, 2)) bytes += got.head.bytes;
  EXPECT_GE(bytes, data.size());
}

// The thread of the links sleeps until the socket takes more.
TEST(LinkQueue, WhatTheSocketDoesNotTakeKeepsNobodyBusy) {
  FakeRank fake({.ring_bytes = kLargeRing});
  fake.make_link_narrow();
  std::vector<uint8_t> data(400 << 10, 3);
  nvrar_transfer send = send_to(kFake, reinterpret_cast<uint64_t>(data.data()), data.size(), NVRAR_UINT8);
  ASSERT_EQ(nvrar_batch(fake.comm(), &send, 1, 0), NVRAR_OK) << nvrar_last_error();
  ::usleep(100'000);
  const auto sleeps = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  const auto before = sleeps();
  ::usleep(1'000'000);
  EXPECT_LT(sleeps() - before, 50);
  uint64_t bytes = 0;
  Frame got;
  while (bytes < data.size() && fake.receive(&got, 2)) bytes += got.head.bytes;
  EXPECT_GE(bytes, data.size());
}

// What the fake rank adds in a one-shot all-reduce: its header, and 1 to each of so many elements.
void add_ones(FakeRank& fake, const Frame& header, size_t count) {
  EXPECT_TRUE(fake.send(header));
  const std::vector<float> ones(link::kMostPayloadBytes / sizeof(float), 1.0f);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(ones.data());
  for (size_t at = 0; at < count; at += ones.size()) {
    const uint64_t run = at * sizeof(float) / protocol::SentinelPacket::kRunBytes;
    const uint64_t slot =
        fake.layout().slot(protocol::PacketKind::kSentinel, header.head.epoch, protocol::Hop::kData, 2 * run + kFake);
    Frame frame =
        FakeRank::frame(FrameKind::kPackets, slot, header.head.epoch, {bytes, bytes + ones.size() * sizeof(float)});
    frame.head.stride = 2 * protocol::kRunPackets;
    EXPECT_TRUE(fake.send(frame));
  }
}

enum class Result { kApart, kInPlace, kFusedInPlace };

nvrar_status sum_of_two(nvrar_comm* comm, std::vector<float>& own, std::vector<float>& apart, Result result) {
  const auto address = reinterpret_cast<uint64_t>(own.data());
  if (result != Result::kFusedInPlace) {
    const uint64_t to = result == Result::kInPlace ? address : reinterpret_cast<uint64_t>(apart.data());
    return nvrar_all_reduce(comm, address, to, own.size(), NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_ONE_SHOT, 0);
  }
  nvrar_fused_all_reduce call{};
  call.size = sizeof call;
  call.form = NVRAR_FUSION_RESIDUAL;
  call.data_type = NVRAR_FLOAT32;
  call.algorithm = NVRAR_ALGORITHM_ONE_SHOT;
  call.hidden = 8192;
  call.rows = static_cast<uint32_t>(own.size() / call.hidden);
  call.input = call.output = address;
  call.residual = reinterpret_cast<uint64_t>(apart.data());
  return nvrar_all_reduce_fused(comm, &call, 0);
}

// A call's data is sent from its own memory as far as the socket takes it. A rank that finds all that it needs when it
// enters does not wait until it has sent the rest.
TEST(LinkQueue, WhatTheSocketDidNotTakeIsSentAsTheCallHadItWhateverBecomesOfItsMemory) {
  for (const Result how : {Result::kApart, Result::kInPlace, Result::kFusedInPlace}) {
    Frame header;
    for (const bool enters_last : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(how)) + (enters_last ? ", last" : ""));
      FakeRank fake;
      fake.make_link_narrow();
      std::vector<float> own(64 << 10);
      for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<float>(i);
      const std::vector<float> before = own;
      std::vector<float> apart(own.size(), 0.5f);
      if (enters_last) {
        add_ones(fake, header, own.size());
        ::usleep(100'000);
        EXPECT_EQ(sum_of_two(fake.comm(), own, apart, how), NVRAR_OK) << nvrar_last_error();
      } else {
        std::thread summing(
            [&] { EXPECT_EQ(sum_of_two(fake.comm(), own, apart, how), NVRAR_OK) << nvrar_last_error(); });
        while (fake.receive(&header) && header.head.kind != FrameKind::kPackets) continue;
        header.head.slot = static_cast<uint32_t>(RingLayout::header_slot(header.head.epoch, kFake));
        add_ones(fake, header, own.size());
        summing.join();
      }
      const float added = how == Result::kFusedInPlace ? 1.5f : 1.0f;
      const std::vector<float>& result = how == Result::kApart ? apart : own;
      for (size_t i = 0; i < own.size(); ++i) ASSERT_EQ(result[i], before[i] + added) << i;
      std::fill(own.begin(), own.end(), -7.0f);
      std::vector<uint8_t> sent;
      for (Frame got; sent.size() < before.size() * sizeof(float) && fake.receive(&got, 2);) {
        const bool is_data = got.head.kind == FrameKind::kPackets &&
                             got.head.slot != RingLayout::header_slot(header.head.epoch, FakeRank::kReal);
        if (is_data) sent.insert(sent.end(), got.payload.begin(), got.payload.end());
      }
      ASSERT_EQ(sent.size(), before.size() * sizeof(float));
      EXPECT_EQ(std::memcmp(sent.data(), before.data(), sent.size()), 0);
    }
  }
}

TEST(LinkQueue, NothingIsLostByDestroyingRightAfterACall) {
  std::vector<uint8_t> data(kMiB, 9);
  const Frame answer = answer_to_broadcast(data);
  FakeRank fake({.ring_bytes = kLargeRing});
  fake.make_link_narrow();
  ASSERT_TRUE(fake.send(answer));
  ASSERT_EQ(broadcast(fake.comm(), data), NVRAR_OK) << nvrar_last_error();
  std::thread destroying([&] { EXPECT_EQ(fake.destroy(), NVRAR_OK); });
  ::usleep(1'500'000);  // such as a rank that is stopped
  uint64_t bytes = 0;
  bool goodbye = false;
  for (Frame got; fake.receive(&got, 2);) {
    if (got.head.kind == FrameKind::kPackets && got.head.bytes > 8) bytes += got.head.bytes;
    goodbye = goodbye || got.head.kind == FrameKind::kGoodbye;
  }
  destroying.join();
  EXPECT_GE(bytes, data.size());
  EXPECT_TRUE(goodbye);
}

TEST(LinkQueue, DestroyingDoesNotWaitLongerThanACallForAPeerThatStopsToRead) {
  std::vector<uint8_t> data(kMiB, 9);
  const Frame answer = answer_to_broadcast(data);
  FakeRank fake({.ring_bytes = kLargeRing, .timeout_ns = 500 * kMs});
  fake.make_link_narrow();
  ASSERT_TRUE(fake.send(answer));
  ASSERT_EQ(broadcast(fake.comm(), data), NVRAR_OK) << nvrar_last_error();
  const double begin = seconds_now();
  EXPECT_EQ(fake.destroy(), NVRAR_OK);
  EXPECT_LT(seconds_now() - begin, 2.5);
}

TEST(LinkQueue, ACallEndsByItsLimitIfThePeerStopsToRead) {
  FakeRank fake({.timeout_ns = 300 * kMs});
  fake.make_link_narrow();
  std::vector<uint8_t> data(1 << 20, 1);
  const uint64_t before = resident_bytes();
  const double begin = seconds_now();
  EXPECT_EQ(broadcast(fake.comm(), data), NVRAR_TIMEOUT);
  EXPECT_LT(seconds_now() - begin, 1.5);
  EXPECT_TRUE(contains(nvrar_last_error(), "without rank 1")) << nvrar_last_error();
  EXPECT_LT(resident_bytes(), before + 4 * kMiB);
}

TEST(LinkQueue, QuestionsOfAPeerThatDoesNotReadTheAnswersTakeNoMemory) {
  FakeRank fake;
  fake.make_link_narrow();
  const uint64_t before = resident_bytes();
  std::vector<uint8_t> questions;
  for (int i = 0; i < 80'000; ++i) {
    const std::vector<uint8_t> question = fake.bytes_of(FakeRank::frame(FrameKind::kAsk));
    questions.insert(questions.end(), question.begin(), question.end());
  }
  const uint64_t own = resident_bytes() - before;
  ASSERT_TRUE(fake.socket().send(questions));
  EXPECT_LT(resident_bytes(), before + own + 4 * kMiB);
  EXPECT_EQ(nvrar_async_error(fake.comm()), NVRAR_OK);
  Frame got;
  ASSERT_TRUE(fake.receive(&got));
  EXPECT_EQ(got.head.kind, FrameKind::kState);
  while (fake.receive(&got, 0.3)) EXPECT_EQ(got.head.kind, FrameKind::kState);
  ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kAsk)));
  EXPECT_TRUE(fake.receive(&got)) << "it answers again";
}

// Such calls never look at their links, and between two of them there is hardly a moment for another thread.
TEST(LinkQueue, QuestionsAreAnsweredBesidesCallsThatSendToTheirOwnRank) {
  constexpr int kQuestions = 20;
  FakeRank fake;
  std::atomic<bool> over{false};
  std::thread calling([&] {
    std::vector<uint8_t> from(repetitions(4 * kMiB), 1);
    std::vector<uint8_t> to(from.size());
    nvrar_transfer transfers[2]{};
    for (nvrar_transfer& transfer : transfers) {
      transfer.size = sizeof transfer;
      transfer.kind = &transfer == transfers ? NVRAR_SEND : NVRAR_RECV;
      transfer.peer = FakeRank::kReal;
      transfer.address = reinterpret_cast<uint64_t>(&transfer == transfers ? from.data() : to.data());
      transfer.count = from.size();
      transfer.data_type = NVRAR_UINT8;
    }
    while (!over) ASSERT_EQ(nvrar_batch(fake.comm(), transfers, 2, 0), NVRAR_OK) << nvrar_last_error();
  });
  int late = 0;
  for (int i = 0; i < kQuestions; ++i) {
    ::usleep(static_cast<useconds_t>(1000 + i * 700));
    const double begin = seconds_now();
    Frame answer;
    EXPECT_TRUE(fake.send(FakeRank::frame(FrameKind::kAsk)));
    EXPECT_TRUE(fake.receive(&answer));
    late += seconds_now() - begin > 0.1 ? 1 : 0;
  }
  over = true;
  calling.join();
  EXPECT_LE(late, 3);
}

// An answer comes behind all that was sent before it, so it tells when nothing of that is under way any more.
TEST(LinkQueue, AnAnswerIsThatOfItsQuestionAndNobodyBelievesOneToAQuestionThatWasNotAsked) {
  FakeRank fake;
  const auto link = [&] {
    nvrar_link known{};
    known.size = sizeof known;
    EXPECT_EQ(nvrar_link_of(fake.comm(), FakeRank::kFake, &known), NVRAR_OK) << nvrar_last_error();
    return known;
  };
  const auto asks = [&](uint64_t number) {
    EXPECT_EQ(nvrar_refresh(fake.comm(), 0), NVRAR_OK);
    Frame question;
    ASSERT_TRUE(fake.receive(&question));
    EXPECT_EQ(question.head.kind, FrameKind::kAsk);
    EXPECT_EQ(question.head.epoch, number);
    EXPECT_EQ(link().asked, number);
  };
  Frame answer;
  ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kAsk, 0, 77)));
  ASSERT_TRUE(fake.receive(&answer));
  EXPECT_EQ(answer.head.kind, FrameKind::kState);
  EXPECT_EQ(answer.head.epoch, 77u);
  const auto answers = [&](uint64_t number) {
    answer.head.epoch = number;
    ASSERT_TRUE(fake.send(answer));
    ASSERT_TRUE(fake.send(FakeRank::frame(FrameKind::kAsk)));
    Frame next;
    ASSERT_TRUE(fake.receive(&next)) << "what came before has been taken";
  };
  EXPECT_EQ(link().asked, 0u);
  answers(1);
  EXPECT_EQ(link().answered, 0u);
  asks(1);
  asks(2);
  answers(3);
  answers(0);
  EXPECT_EQ(link().answered, 0u);
  answers(2);
  EXPECT_EQ(link().answered, 2u);
  answers(1);
  EXPECT_EQ(link().answered, 2u);
  EXPECT_EQ(nvrar_async_error(fake.comm()), NVRAR_OK);
}

// Whoever takes a packet from a link wakes the rank that sleeps until it comes.
TEST(LinkQueue, ARankIsWokenAlsoWhileAnotherThreadAsksWhatItsPeersDo) {
  constexpr int kCalls = 100;
  FakeRank fake;
  std::atomic<bool> over{false};
  std::thread asking([&] {
    nvrar_call call{};
    call.size = sizeof call;
    while (!over) EXPECT_EQ(nvrar_refresh(fake.comm(), 1), NVRAR_OK);
  });
  std::thread answering([&] {
    for (int calls = 0; calls < kCalls;) {
      Frame got;
      if (!fake.receive(&got)) return;
      if (got.head.kind != FrameKind::kPackets) continue;
      ++calls;
      ::usleep(3000);  // it sleeps now
      got.head.slot = static_cast<uint32_t>(protocol::RingLayout::header_slot(got.head.epoch, kFake));
      if (!fake.send(got)) return;
    }
  });
  int late = 0;
  for (int i = 0; i < kCalls; ++i) {
    const double begin = seconds_now();
    ASSERT_EQ(nvrar_barrier(fake.comm(), 0), NVRAR_OK) << nvrar_last_error();
    late += seconds_now() - begin > 0.08 ? 1 : 0;
  }
  over = true;
  asking.join();
  answering.join();
  EXPECT_LE(late, 3);
}

// A descriptor that is this rank's own but for its address and its host.
TEST(LinkAddressOfARank, IsNotBelievedIfItIsNotItsOwn) {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  nvrar_comm* comms[2] = {};
  Descriptor descriptors[2];
  for (int rank = 0; rank < 2; ++rank) {
    const nvrar_config config = make_config(rank, 2, {});
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(&descriptors[rank]), &comms[rank]),
              NVRAR_OK);
  }
  ++descriptors[1].host.pid_namespace;
  for (Descriptor& descriptor : descriptors) descriptor.link = link::LinkAddress::of("127.0.0.1", 1);
  EXPECT_EQ(nvrar_connect(comms[0], reinterpret_cast<const uint8_t*>(descriptors)), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(), "descriptor 0 is not the one that this communicator made");
  for (nvrar_comm* comm : comms) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
}

}  // namespace
}  // namespace nvrar::test
