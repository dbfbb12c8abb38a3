// The receiving end of a link: frames that arrive in any pieces go where the inbox says, or are taken run by run.
#include "link/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "link/runs.h"

namespace nvrar::test {
namespace {

using link::Cipher;
using link::Destination;
using link::FrameHead;
using link::FrameKind;
using link::Link;
using link::WantedRun;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kEpoch = 7;
constexpr uint32_t kRunBytes = 512;
constexpr uint64_t kStride = 64;
constexpr uint64_t kSlot = 1000;

std::pair<FileDescriptor, FileDescriptor> connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) ADD_FAILURE() << "no pair of sockets";
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::unique_ptr<Cipher> cipher(bool encrypted, bool seals) {
  return encrypted ? std::make_unique<Cipher>(Digest{1, 2, 3}, seals) : nullptr;
}

Bytes payload(size_t count, uint8_t first = 0) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

// Writes down what it is asked and given; refuses packets for one slot, and has those for another go elsewhere.
struct Noted : link::Inbox {
  struct Frame {
    FrameHead head;
    Bytes payload;
  };
  std::vector<Frame> frames;
  std::vector<FrameHead> asked;
  uint64_t bad_slot = ~uint64_t{0};
  uint64_t other_slot = ~uint64_t{0};
  Destination other = Destination::link();
  bool takes_none = false;

  Destination where(Link& /*from*/, const FrameHead& head) noexcept override {
    asked.push_back(head);
    if (head.slot == bad_slot) return Destination::refused("a bad slot");
    return head.kind == FrameKind::kPackets && head.slot == other_slot ? other : Destination::link();
  }
  const char* take(Link& /*from*/, const FrameHead& head, const uint8_t* payload) noexcept override {
    if (head.kind == FrameKind::kPackets && head.slot == other_slot && other.kind == Destination::Kind::kMemory) {
      EXPECT_EQ(payload, other.memory);
    }
    if (takes_none) return "none";
    frames.push_back({head, {payload, payload + head.bytes}});
    return nullptr;
  }
  void broke(uint32_t /*source*/) noexcept override {}
  void settled() noexcept override {}
};

// A link and the bytes that another link has sent to it, of which it gets as many as a test lets arrive.
class TakenRuns : public ::testing::TestWithParam<bool> {
 protected:
  // What a link sends by put().
  template <class Put>
  void sends(Put put) {
    put(sender_);
    sender_.flush();
    Bytes room(size_t{1} << 20);
    const ssize_t got = ::recv(wire_.get(), room.data(), room.size(), MSG_DONTWAIT);
    ASSERT_GT(got, 0);
    sent_.insert(sent_.end(), room.begin(), room.begin() + got);
  }
  void sends_runs(const Bytes& data, uint64_t slot = kSlot) {
    sends([&](Link& link) {
      for (size_t at = 0; at < data.size(); at += kRunBytes, slot += kStride) {
        link.put_run(slot, kEpoch, data.data() + at,
                     static_cast<uint32_t>(std::min<size_t>(kRunBytes, data.size() - at)), kRunBytes);
      }
    });
  }
  void arrives(size_t count) {
    ASSERT_EQ(::send(far_.get(), sent_.data() + arrived_, count, 0), static_cast<ssize_t>(count));
    arrived_ += count;
    bool more = true;
    while (more) ASSERT_TRUE(link_->fill(&more));
  }
  void all_arrives() { arrives(sent_.size() - arrived_); }

  // The run's payload, or nothing.
  std::optional<Bytes> take(uint64_t slot, uint32_t bytes = kRunBytes, uint64_t epoch = kEpoch) {
    const WantedRun wanted{slot, epoch, bytes, kRunBytes};
    const uint8_t* run = link::take_next_run(*link_, wanted);
    if (run != nullptr) {
      ++nexts_;
    } else {
      bool took = false;
      is_whole_ = link::take_run(*link_, wanted, &took, &run);
    }
    if (run == nullptr) return std::nullopt;
    return Bytes(run, run + bytes);
  }
  void expect_runs(const Bytes& data, size_t first = 0) {
    for (size_t at = first * kRunBytes; at < data.size(); at += kRunBytes) {
      const size_t bytes = std::min<size_t>(kRunBytes, data.size() - at);
      const auto run = take(kSlot + at / kRunBytes * kStride, static_cast<uint32_t>(bytes));
      ASSERT_TRUE(run.has_value()) << "run " << at / kRunBytes;
      EXPECT_EQ(*run,
                Bytes(data.begin() + static_cast<ptrdiff_t>(at), data.begin() + static_cast<ptrdiff_t>(at + bytes)));
    }
  }
  void give() {
    bool took = false;
    EXPECT_TRUE(link_->give(&took, [] { return false; }));
  }

  const bool encrypted_ = GetParam();
  Noted inbox_;
  std::pair<FileDescriptor, FileDescriptor> to_wire_ = connection();
  FileDescriptor wire_ = std::move(to_wire_.first);
  Link sender_{0, 0, std::move(to_wire_.second), cipher(encrypted_, true), nullptr, &inbox_};
  std::pair<FileDescriptor, FileDescriptor> to_link_ = connection();
  FileDescriptor far_ = std::move(to_link_.first);
  std::optional<Link> link_{std::in_place, 1, 0, std::move(to_link_.second), nullptr, cipher(encrypted_, false),
                            &inbox_};
  Bytes sent_;
  size_t arrived_ = 0;
  size_t nexts_ = 0;  // how many were taken as the next ones of their frames
  bool is_whole_ = true;
};

TEST_P(TakenRuns, AreThoseOfAllFramesInTheirOrder) {
  const Bytes data = payload(2 * link::kMostPayloadBytes + 3 * kRunBytes + 100);
  sends_runs(data);
  all_arrives();
  expect_runs(data);
  EXPECT_TRUE(inbox_.frames.empty());
  EXPECT_EQ(inbox_.asked.size(), 3u) << "each frame once";
  EXPECT_EQ(nexts_, 68u - 3u) << "all but the first of each frame";
}

// A receiver takes a frame apart at every whole run: what follows a shorter one in it would be a part of that.
TEST_P(TakenRuns, ShorterThanWholeOnesEndTheirFrame) {
  const Bytes first = payload(100);
  const Bytes second(100, 0x22);
  sends([&](Link& link) {
    link.put_run(kSlot, kEpoch, first.data(), 100, kRunBytes);
    link.put_run(kSlot + kStride, kEpoch, second.data(), 100, kRunBytes);
  });
  all_arrives();
  EXPECT_EQ(take(kSlot, 100), first);
  EXPECT_EQ(take(kSlot + kStride, 100), second);
}

TEST_P(TakenRuns, AreTheNextOnlyIfTheyAreWanted) {
  const Bytes data = payload(3 * kRunBytes + 100);
  sends_runs(data);
  all_arrives();
  const WantedRun next{kSlot + kStride, kEpoch, kRunBytes, kRunBytes};
  EXPECT_EQ(link::take_next_run(*link_, next), nullptr) << "none was taken before it";
  ASSERT_TRUE(take(kSlot).has_value());
  for (const WantedRun& other :
       {WantedRun{next.slot + 1, kEpoch, kRunBytes, kRunBytes}, WantedRun{next.slot, kEpoch + 1, kRunBytes, kRunBytes},
        WantedRun{next.slot, kEpoch, kRunBytes - 8, kRunBytes}, WantedRun{kSlot, kEpoch, kRunBytes, kRunBytes}}) {
    EXPECT_EQ(link::take_next_run(*link_, other), nullptr);
  }
  expect_runs(data, 1);
  EXPECT_EQ(nexts_, 3u);
  EXPECT_EQ(link::take_next_run(*link_, {kSlot + 4 * kStride, kEpoch, 100, kRunBytes}), nullptr)
      << "the frame is at its end";
}

// A record is decrypted whole, so this link is not encrypted.
class TakenPieces : public TakenRuns {};

TEST_P(TakenPieces, AreTakenWhileTheRestOfTheirFrameIsUnderWay) {
  const Bytes data = payload(3 * kRunBytes);
  sends_runs(data);
  const size_t head = sizeof(FrameHead);
  arrives(head - 1);
  EXPECT_FALSE(take(kSlot).has_value());
  arrives(1 + kRunBytes - 1);
  EXPECT_FALSE(take(kSlot).has_value()) << "a byte is missing";
  arrives(1);
  EXPECT_TRUE(take(kSlot).has_value());
  EXPECT_FALSE(take(kSlot + kStride).has_value());
  EXPECT_FALSE(take(kSlot + kStride).has_value()) << "asking again takes nothing";
  arrives(kRunBytes + 1);
  EXPECT_EQ(take(kSlot + kStride), Bytes(data.begin() + kRunBytes, data.begin() + 2 * kRunBytes));
  all_arrives();
  expect_runs(data, 2);
  give();
  EXPECT_TRUE(inbox_.frames.empty());
  EXPECT_EQ(inbox_.asked.size(), 1u) << "of one frame";
}

TEST_P(TakenRuns, AreTakenTogetherAsFarAsTheyFollowAndAreWhole) {
  const Bytes data = payload(6 * kRunBytes + 100);
  sends_runs(data);
  all_arrives();
  const WantedRun second{kSlot + kStride, kEpoch, kRunBytes, kRunBytes};
  uint64_t bytes = 0;
  EXPECT_EQ(link::take_following(*link_, second, kStride, data.size(), &bytes), nullptr)
      << "none was taken before them";
  ASSERT_TRUE(take(kSlot).has_value());
  for (const WantedRun& other :
       {WantedRun{second.slot + 1, kEpoch, kRunBytes, kRunBytes},
        WantedRun{second.slot, kEpoch + 1, kRunBytes, kRunBytes}, WantedRun{second.slot, kEpoch, kRunBytes, 1024}}) {
    EXPECT_EQ(link::take_following(*link_, other, kStride, data.size(), &bytes), nullptr);
  }
  EXPECT_EQ(link::take_following(*link_, second, kStride + 32, data.size(), &bytes), nullptr);
  EXPECT_EQ(link::take_following(*link_, second, kStride, kRunBytes - 1, &bytes), nullptr);
  const uint8_t* runs = link::take_following(*link_, second, kStride, 3 * kRunBytes - 1, &bytes);
  ASSERT_NE(runs, nullptr);
  ASSERT_EQ(bytes, 2 * kRunBytes);
  EXPECT_EQ(Bytes(runs, runs + bytes), Bytes(data.begin() + kRunBytes, data.begin() + 3 * kRunBytes));
  EXPECT_EQ(take(kSlot + 3 * kStride), Bytes(data.begin() + 3 * kRunBytes, data.begin() + 4 * kRunBytes));
  runs =
      link::take_following(*link_, {kSlot + 4 * kStride, kEpoch, kRunBytes, kRunBytes}, kStride, data.size(), &bytes);
  ASSERT_NE(runs, nullptr);
  EXPECT_EQ(bytes, 2 * kRunBytes) << "the last run is not whole";
  expect_runs(data, 6);
  EXPECT_TRUE(inbox_.frames.empty());
}

TEST_P(TakenPieces, AreTakenTogetherAsFarAsTheyHaveArrived) {
  const Bytes data = payload(4 * kRunBytes);
  sends_runs(data);
  arrives(sizeof(FrameHead) + 3 * kRunBytes - 1);
  ASSERT_TRUE(take(kSlot).has_value());
  uint64_t bytes = 0;
  ASSERT_NE(link::take_following(*link_, {kSlot + kStride, kEpoch, kRunBytes, kRunBytes}, kStride, data.size(), &bytes),
            nullptr);
  EXPECT_EQ(bytes, kRunBytes);
  all_arrives();
  expect_runs(data, 2);
}

// Messages that a link sends from their owner's memory.
class LentMessages : public TakenRuns {
 protected:
  link::Message message(const Bytes& data, uint64_t slot = kSlot) {
    return {data.data(), data.size(), kRunBytes, slot, kStride, kEpoch};
  }
};

TEST_P(LentMessages, ArriveAsRunsInTheirTurn) {
  for (const size_t size : {kRunBytes + size_t{4}, 2 * kRunBytes + size_t{0}, size_t{5} * link::kMostPayloadBytes,
                            size_t{6} * link::kMostPayloadBytes + 700}) {
    const Bytes header = payload(8);
    const Bytes data = payload(size);
    sends([&](Link& link) {
      link.put(FrameKind::kPackets, 3, kEpoch, header.data(), 8);
      link.lend(message(data));
      link.flush();
      link.put(FrameKind::kAsk, 0, 0, nullptr, 0);
    });
    all_arrives();
    expect_runs(data);
    give();
    ASSERT_EQ(inbox_.frames.size(), 2u);
    EXPECT_EQ(inbox_.frames[0].payload, header);
    EXPECT_EQ(inbox_.frames[1].head.kind, FrameKind::kAsk);
    inbox_.frames.clear();
  }
}

TEST_P(LentMessages, AreReadNoMoreOnceTheyAreSettledOrAnythingFollows) {
  for (const bool settles : {true, false}) {
    int little = 4096;
    ASSERT_EQ(::setsockopt(sender_.fd(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
    const Bytes data = payload(10 * link::kMostPayloadBytes + 40);
    Bytes lent = data;
    sender_.lend(message(lent));
    sender_.flush();
    ASSERT_TRUE(sender_.is_behind());
    EXPECT_EQ(sender_.does_need(lent.data() + lent.size() - 1, 1), !encrypted_);
    EXPECT_FALSE(sender_.does_need(lent.data() + lent.size(), 1));
    EXPECT_FALSE(sender_.does_need(lent.data(), 1)) << "it is sent";
    if (settles) {
      sender_.settle();
    } else {
      sender_.put(FrameKind::kAsk, 0, 0, nullptr, 0);
    }
    EXPECT_FALSE(sender_.does_need(lent.data(), lent.size()));
    std::fill(lent.begin(), lent.end(), 0xEE);
    while (sender_.is_behind()) sends([](Link&) {});
    sends([](Link& link) { link.put(FrameKind::kGoodbye, 0, 0, nullptr, 0); });
    all_arrives();
    expect_runs(data);
    give();
    EXPECT_EQ(inbox_.frames.size(), settles ? 1u : 2u);
    inbox_.frames.clear();
  }
}

TEST_P(TakenRuns, StayUntilTheLinkIsFilled) {
  const Bytes data = payload(2 * kRunBytes);
  sends_runs(data);
  all_arrives();
  const uint8_t* run = nullptr;
  bool took = false;
  ASSERT_TRUE(link::take_run(*link_, {kSlot, kEpoch, kRunBytes, kRunBytes}, &took, &run));
  ASSERT_NE(run, nullptr);
  sends_runs(payload(kRunBytes, 99), kSlot + 9);
  const uint8_t* const next = link::take_next_run(*link_, {kSlot + kStride, kEpoch, kRunBytes, kRunBytes});
  ASSERT_NE(next, nullptr);
  give();
  EXPECT_EQ(Bytes(run, run + kRunBytes), Bytes(data.begin(), data.begin() + kRunBytes));
  EXPECT_EQ(Bytes(next, next + kRunBytes), Bytes(data.begin() + kRunBytes, data.end()));
}

TEST_P(TakenRuns, FollowTheFramesBeforeThemThatGoToTheInbox) {
  const Bytes header = payload(8);
  sends([&](Link& link) {
    link.put(FrameKind::kAsk, 0, 0, nullptr, 0);
    link.put(FrameKind::kPackets, 3, kEpoch, header.data(), 8);
  });
  sends_runs(payload(kRunBytes));
  all_arrives();
  EXPECT_TRUE(take(kSlot).has_value());
  ASSERT_EQ(inbox_.frames.size(), 2u);
  EXPECT_EQ(inbox_.frames[0].head.kind, FrameKind::kAsk);
  EXPECT_EQ(inbox_.frames[1].payload, header);
}

// Such as a run of another source's slots, of another epoch, or of another size than the caller expects.
TEST_P(TakenRuns, AreOnlyThoseThatAreWanted) {
  const Bytes data = payload(kRunBytes);
  for (const WantedRun& wanted :
       {WantedRun{kSlot + 1, kEpoch, kRunBytes, kRunBytes}, WantedRun{kSlot, kEpoch + 1, kRunBytes, kRunBytes},
        WantedRun{kSlot, kEpoch, kRunBytes - 8, kRunBytes}, WantedRun{kSlot, kEpoch, kRunBytes / 2, kRunBytes / 2}}) {
    sends_runs(data);
    all_arrives();
    EXPECT_FALSE(take(wanted.slot, wanted.bytes, wanted.epoch).has_value());
    ASSERT_EQ(inbox_.frames.size(), 1u);
    EXPECT_EQ(inbox_.frames[0].payload, data);
    inbox_.frames.clear();
  }
}

TEST_P(TakenRuns, WhatIsLeftOfTheirFrameGoesToTheInboxFromItsSlotOn) {
  const Bytes data = payload(4 * kRunBytes + 24);
  sends_runs(data);
  sends([](Link& link) { link.put(FrameKind::kGoodbye, 0, 0, nullptr, 0); });
  all_arrives();
  ASSERT_TRUE(take(kSlot).has_value());
  ASSERT_TRUE(take(kSlot + kStride).has_value());
  give();
  ASSERT_EQ(inbox_.frames.size(), 2u);
  const FrameHead& left = inbox_.frames[0].head;
  EXPECT_EQ(left.slot, kSlot + 2 * kStride);
  EXPECT_EQ(left.stride, kStride);
  EXPECT_EQ(left.epoch, kEpoch);
  EXPECT_EQ(inbox_.frames[0].payload, Bytes(data.begin() + 2 * kRunBytes, data.end()));
  EXPECT_EQ(inbox_.frames[1].head.kind, FrameKind::kGoodbye);
}

TEST_P(TakenRuns, OfAFrameThatIsRefusedAreNotUsed) {
  sends_runs(payload(3 * kRunBytes));
  all_arrives();
  inbox_.bad_slot = kSlot;
  EXPECT_FALSE(take(kSlot).has_value());
  EXPECT_FALSE(is_whole_);
  EXPECT_STREQ(link_->refused(), "a bad slot");
  bool took = false;
  EXPECT_FALSE(link_->give(&took, [] { return false; }));
  EXPECT_TRUE(inbox_.frames.empty());
}

TEST_P(TakenRuns, AreTakenToTheLastOneOfAPeerThatHasGone) {
  const Bytes data = payload(3 * kRunBytes);
  sends_runs(data);
  sends([](Link& link) { link.put(FrameKind::kGoodbye, 0, 0, nullptr, 0); });
  all_arrives();
  far_ = FileDescriptor();
  bool more = false;
  EXPECT_FALSE(link_->fill(&more));
  expect_runs(data);
  give();
  ASSERT_EQ(inbox_.frames.size(), 1u);
  EXPECT_EQ(inbox_.frames[0].head.kind, FrameKind::kGoodbye);
}

// Frames whose payload does not stay in the link.
class Destinations : public TakenRuns {
 protected:
  static constexpr uint64_t kOther = 5000;

  // Of two frames and a question behind them.
  void sends_two() {
    sends([&](Link& link) {
      link.put(FrameKind::kPackets, kOther, kEpoch, first_.data(), static_cast<uint32_t>(first_.size()));
      link.put(FrameKind::kPackets, 3, kEpoch, second_.data(), static_cast<uint32_t>(second_.size()));
      link.put(FrameKind::kAsk, 0, 0, nullptr, 0);
    });
  }
  void expect_both() {
    ASSERT_EQ(inbox_.frames.size(), 3u);
    EXPECT_EQ(inbox_.frames[0].payload, first_);
    EXPECT_EQ(inbox_.frames[1].payload, second_);
    EXPECT_EQ(inbox_.frames[2].head.kind, FrameKind::kAsk);
  }

  const Bytes first_ = payload(3000);
  const Bytes second_ = payload(100, 0x40);
};

TEST_P(Destinations, InMemoryGetThePayloadInAnyPieces) {
  for (const size_t piece : {size_t{1}, size_t{31}, size_t{700}, size_t{3050}, size_t{100'000}}) {
    Bytes memory(first_.size(), 0xEE);
    inbox_.other_slot = kOther;
    inbox_.other = Destination::to(memory.data());
    sends_two();
    while (arrived_ != sent_.size()) {
      arrives(std::min(piece, sent_.size() - arrived_));
      give();
    }
    EXPECT_EQ(memory, first_);
    expect_both();
    inbox_.frames.clear();
  }
}

// What is read with a head, and beside a payload, ends anywhere.
TEST_P(Destinations, InMemoryAndInTheLinkFollowEachOtherInAnyPieces) {
  const std::vector<size_t> sizes{16'000, 100, 4064, 4096, 16'384, 4097, 16'000, 0, 5};
  for (const size_t piece : {size_t{4095}, size_t{4096}, size_t{4097}, size_t{4128}, size_t{20'032}, size_t{1} << 20}) {
    std::vector<Bytes> payloads;
    for (size_t i = 0; i < sizes.size(); ++i) payloads.push_back(payload(sizes[i], static_cast<uint8_t>(i)));
    Bytes memory(16'384);
    inbox_.other_slot = kOther;
    inbox_.other = Destination::to(memory.data());
    sends([&](Link& link) {
      for (size_t i = 0; i < payloads.size(); ++i) {
        link.put(FrameKind::kPackets, i % 2 == 0 ? kOther : i, kEpoch, payloads[i].data(),
                 static_cast<uint32_t>(payloads[i].size()));
      }
    });
    while (arrived_ != sent_.size()) {
      arrives(std::min(piece, sent_.size() - arrived_));
      give();
    }
    ASSERT_EQ(inbox_.frames.size(), payloads.size()) << "pieces of " << piece;
    for (size_t i = 0; i < payloads.size(); ++i) {
      EXPECT_EQ(inbox_.frames[i].payload, payloads[i]) << "pieces of " << piece << ", frame " << i;
    }
    inbox_.frames.clear();
  }
}

// Records are decrypted in the link, so this link is not encrypted.
class DirectDestinations : public Destinations {};

TEST_P(DirectDestinations, AreReadThereAtOnce) {
  Bytes memory(first_.size());
  inbox_.other_slot = kOther;
  inbox_.other = Destination::to(memory.data());
  sends_two();
  arrives(sizeof(FrameHead));
  give();
  arrives(100);
  EXPECT_EQ(link_->arrived(), 0u);
  EXPECT_EQ(Bytes(memory.begin(), memory.begin() + 100), Bytes(first_.begin(), first_.begin() + 100));
  far_ = FileDescriptor();
  bool more = false;
  EXPECT_FALSE(link_->fill(&more)) << "its end in the middle of a payload";
  give();
  EXPECT_TRUE(inbox_.frames.empty());
}

TEST_P(Destinations, InMemoryCanBeRefusedAtTheirEnd) {
  Bytes memory(first_.size());
  inbox_.other_slot = kOther;
  inbox_.other = Destination::to(memory.data());
  inbox_.takes_none = true;
  sends_two();
  all_arrives();
  bool took = false;
  EXPECT_FALSE(link_->give(&took, [] { return false; }));
  EXPECT_STREQ(link_->refused(), "none");
}

TEST_P(Destinations, MayBecomeKnownAsAnyOther) {
  Bytes memory(first_.size());
  inbox_.other_slot = kOther;
  inbox_.other = Destination::later();
  sends_two();
  all_arrives();
  give();
  inbox_.other = Destination::to(memory.data());
  give();
  EXPECT_EQ(memory, first_);
  expect_both();
  inbox_.other = Destination::later();
  sends_two();
  all_arrives();
  give();
  inbox_.other = Destination::refused("late");
  bool more = false;
  EXPECT_FALSE(link_->fill(&more));
  EXPECT_STREQ(link_->refused(), "late");
}

TEST_P(Destinations, InMemoryAreNoRuns) {
  Bytes memory(kRunBytes);
  inbox_.other_slot = kSlot;
  inbox_.other = Destination::to(memory.data());
  sends_runs(payload(kRunBytes));
  all_arrives();
  EXPECT_FALSE(take(kSlot).has_value());
  EXPECT_EQ(inbox_.frames.size(), 1u);
  EXPECT_EQ(memory, payload(kRunBytes));
}

TEST_P(Destinations, ThatAreNotKnownYetHoldWhatFollows) {
  inbox_.other_slot = kOther;
  inbox_.other = Destination::later();
  sends_two();
  all_arrives();
  give();
  EXPECT_TRUE(inbox_.frames.empty());
  EXPECT_FALSE(take(3, 100).has_value()) << "nothing overtakes the frame";
  const Bytes more = payload(100'000);
  ASSERT_EQ(::send(far_.get(), more.data(), more.size(), MSG_DONTWAIT), static_cast<ssize_t>(more.size()));
  const size_t arrived = link_->arrived();
  for (int i = 0; i < 3; ++i) {
    bool filled = true;
    EXPECT_TRUE(link_->fill(&filled));
    EXPECT_FALSE(filled);
  }
  EXPECT_EQ(link_->arrived(), arrived) << "nothing more is read";
  EXPECT_GT(inbox_.asked.size(), 3u) << "whoever looks asks again";
  inbox_.other = Destination::link();
  give();
  expect_both();
}

TEST_P(Destinations, AreRefusedBeforeThePayloadIsThere) {
  inbox_.bad_slot = kOther;
  sends_two();
  if (encrypted_) {
    all_arrives();  // a record is decrypted whole
  } else {
    arrives(sizeof(FrameHead));
  }
  bool took = false;
  EXPECT_FALSE(link_->give(&took, [] { return false; }));
  EXPECT_STREQ(link_->refused(), "a bad slot");
  EXPECT_FALSE(took);
  EXPECT_EQ(link_->rest(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(OfLinks, TakenPieces, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(OfLinks, DirectDestinations, ::testing::Values(false));
constexpr auto kNameOf = [](const auto& test) { return test.param ? "Encrypted" : "Authenticated"; };
INSTANTIATE_TEST_SUITE_P(OfLinks, TakenRuns, ::testing::Bool(), kNameOf);
INSTANTIATE_TEST_SUITE_P(OfLinks, Destinations, ::testing::Bool(), kNameOf);
INSTANTIATE_TEST_SUITE_P(OfLinks, LentMessages, ::testing::Bool(), kNameOf);

}  // namespace
}  // namespace nvrar::test
