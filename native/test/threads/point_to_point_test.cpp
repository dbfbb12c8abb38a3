// Sends, recvs and batches with all ranks as threads of one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "call/call.h"
#include "support/abi.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/pool.h"
#include "support/transfers.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kSmallTransferRing = kSmallRingBytes / 16 / 2;  // bytes of data that a small ring of a pair holds

class PointToPointOfWorld : public ::testing::TestWithParam<TestTopology> {
 protected:
  static uint64_t least_ring_bytes() { return small_ring_bytes(GetParam().ranks_per_node); }
  static GroupOptions with_ring(uint64_t bytes) {
    return {.ring_bytes = bytes, .ranks_per_node = GetParam().ranks_per_node};
  }
};

void expect_all_arrive(int rank, nvrar_comm* comm, const std::vector<Message>& messages, uint64_t seed) {
  const RankBatch batch(rank, messages, seed);
  ASSERT_EQ(batch.run(comm), NVRAR_OK) << nvrar_last_error();
  ASSERT_EQ(batch.fault(), "");
}

// Every type, counts from nothing to several rings, each rank to its neighbour.
TEST_P(PointToPointOfWorld, ARingShiftArrivesWhole) {
  const int world = GetParam().world;
  for (uint64_t ring_bytes : {uint64_t{0}, least_ring_bytes()}) {
    ThreadGroup group(world, with_ring(ring_bytes));
    group.run([&](int rank, nvrar_comm* comm) {
      uint64_t number = 0;
      for (int32_t type : kTypes) {
        for (uint64_t count : {0,  1,  2,  3,   4,   5,   7,   8,   9,    15,   16,   17,   31,  32,
                               33, 63, 64, 127, 128, 255, 256, 257, 1000, 2047, 2048, 2049, 5000}) {
          ++number;
          if (!runs_case(number, static_cast<uint64_t>(type))) continue;
          std::vector<Message> messages;
          for (int source = 0; source < world; ++source) {
            messages.push_back(
                {source, (source + 1) % world, type, count, number * 100 + static_cast<uint64_t>(source)});
          }
          expect_all_arrive(rank, comm, messages, number);
          if (::testing::Test::HasFatalFailure()) FAIL() << "rank " << rank;
        }
      }
    });
  }
}

// All pairs at once, each with more than its ring holds in both directions.
TEST_P(PointToPointOfWorld, AnExchangeOfMoreThanTheRingsHoldDoesNotDeadlock) {
  const int world = GetParam().world;
  ThreadGroup group(world, with_ring(least_ring_bytes()));
  group.run([&](int rank, nvrar_comm* comm) {
    for (uint64_t round = 0; round < repetitions(20); ++round) {
      std::vector<Message> messages;
      for (int source = 0; source < world; ++source) {
        for (int destination = 0; destination < world; ++destination) {
          const uint64_t pair = static_cast<uint64_t>(source * world + destination);
          messages.push_back({source, destination, NVRAR_UINT8, kSmallTransferRing * 5 + pair, round * 64 + pair});
        }
      }
      expect_all_arrive(rank, comm, messages, round);
      if (::testing::Test::HasFatalFailure()) FAIL() << "rank " << rank << " round " << round;
    }
  });
}

std::vector<Message> random_messages(uint64_t seed, int world) {
  std::vector<Message> messages(1 + mix(seed) % static_cast<uint64_t>(3 * world));
  for (size_t i = 0; i < messages.size(); ++i) {
    const uint64_t r = mix(seed * 1000 + i);
    const auto rank = [&](uint64_t random) { return static_cast<int>(random % static_cast<uint64_t>(world)); };
    // Mostly small: those follow each other fastest. Sometimes nothing, sometimes many rings.
    const uint64_t count = (r >> 8) % 4096 >> (r >> 20) % 13;
    messages[i] = {rank(r >> 32), rank(r >> 40), kTypes[r % std::size(kTypes)], count, r};
  }
  return messages;
}

// Ranks that have nothing to do in a round run ahead as far as the rings let them; collectives come in between.
TEST_P(PointToPointOfWorld, ThousandsOfRandomBatchesBetweenCollectivesStayExact) {
  const int world = GetParam().world;
  constexpr uint64_t kElements = 512;
  const uint64_t rounds = repetitions(on_gpu() ? 150 : 1500);
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kElements, 5, GetParam().ranks_per_node);
  for (uint64_t ring_bytes : {least_ring_bytes(), uint64_t{65536}}) {
    ThreadGroup group(world, with_ring(ring_bytes));
    group.run([&](int rank, nvrar_comm* comm) {
      for (uint64_t round = 0; round < rounds; ++round) {
        const uint64_t r = mix(round + ring_bytes);
        if (r % 64 == 0 && static_cast<int>((r >> 8) % static_cast<uint64_t>(world)) == rank) ::usleep(300);
        expect_all_arrive(rank, comm, random_messages(r, world), r + static_cast<uint64_t>(rank));
        if (r % 5 == 0) {
          const CollectiveCase c{NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kElements};
          run_case(rank, world, comm, pool, c);
        }
        if (::testing::Test::HasFatalFailure()) FAIL() << "rank " << rank << " round " << round;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, PointToPointOfWorld,
                         ::testing::Values(TestTopology{1, 0}, TestTopology{2, 0}, TestTopology{3, 0},
                                           TestTopology{4, 0}, TestTopology{5, 0}, TestTopology{6, 0},
                                           TestTopology{7, 0}, TestTopology{8, 0}));
INSTANTIATE_TEST_SUITE_P(Nodes, PointToPointOfWorld,
                         ::testing::Values(TestTopology{2, 1}, TestTopology{4, 2}, TestTopology{5, 3}));

// The receiver is late: the sender fills the ring and must stop there.
TEST(Invariant16_Credits, ASenderNeverOverrunsALateReceiver) {
  ThreadGroup group(2, {.ring_bytes = kSmallRingBytes});
  group.run([&](int rank, nvrar_comm* comm) {
    for (uint64_t round = 0; round < repetitions(20); ++round) {
      if (rank == 1) ::usleep(2000);
      expect_all_arrive(rank, comm, {{0, 1, NVRAR_INT64, kSmallTransferRing, round}}, round);
      if (::testing::Test::HasFatalFailure()) FAIL() << "round " << round;
    }
  });
}

// One receiver comes within the limit, the other within the limit after that.
TEST(PointToPoint, TheLimitOfABatchCountsAnewWhenItGetsOn) {
  ThreadGroup group(3, {.ring_bytes = kSmallRingBytes, .timeout_ns = 1000 * kMs});
  group.run([&](int rank, nvrar_comm* comm) {
    ::usleep(static_cast<useconds_t>(rank) * 600'000);
    expect_all_arrive(rank, comm,
                      {{0, 1, NVRAR_INT64, kSmallTransferRing, 1}, {0, 2, NVRAR_INT64, kSmallTransferRing, 2}}, 0);
  });
}

TEST(PointToPoint, WhatTheRingHoldsIsSentBeforeThePeerAsks) {
  ThreadGroup group(2);
  const int32_t sent[] = {11, 22, 33};
  for (const int32_t& value : sent) ASSERT_EQ(send_one(0, group.comm(0), 1, &value, 1, NVRAR_INT32), NVRAR_OK);
  ASSERT_EQ(nvrar_async_error(group.comm(1)), NVRAR_OK);
  for (const int32_t& value : sent) {
    int32_t got = 0;
    ASSERT_EQ(recv_one(1, group.comm(1), 0, &got, 1, NVRAR_INT32), NVRAR_OK) << nvrar_last_error();
    EXPECT_EQ(got, value);
  }
}

// Whatever went before: once it is read, the whole ring is free again.
TEST(PointToPoint, ATransferThatFitsTheRingIsSentBeforeThePeerAsksAgainAndAgain) {
  ThreadGroup group(2, {.ring_bytes = kSmallRingBytes, .timeout_ns = 2'000 * kMs});
  constexpr uint64_t kHeaderBytes = 16;
  std::vector<uint8_t> in(kSmallTransferRing - kHeaderBytes, 3);
  std::vector<uint8_t> out(in.size());
  for (uint64_t bytes = 1; bytes <= in.size(); ++bytes) {
    ASSERT_EQ(send_one(0, group.comm(0), 1, in.data(), bytes, NVRAR_UINT8), NVRAR_OK) << nvrar_last_error();
    ASSERT_EQ(recv_one(1, group.comm(1), 0, out.data(), bytes, NVRAR_UINT8), NVRAR_OK) << nvrar_last_error();
  }
  EXPECT_EQ(out, in);
}

TEST(PointToPoint, AnEmptyBatchDoesNothing) {
  ThreadGroup group(2);
  EXPECT_EQ(nvrar_batch(group.comm(0), nullptr, 0, 0), NVRAR_OK);
  EXPECT_EQ(nvrar_batch(group.comm(0), nullptr, 1, 0), NVRAR_INVALID_ARGUMENT);
}

TEST(PointToPoint, ARefusedBatchLeavesTheGroupAsItWas) {
  ThreadGroup group(2);
  std::vector<uint8_t> value = {5, 0, 0, 0};
  const uint64_t from = Image(0, 0, value).address();
  const nvrar_transfer transfers[] = {send_to(1, from, 1, NVRAR_INT32), send_to(2, from, 1, NVRAR_INT32)};
  EXPECT_EQ(nvrar_batch(group.comm(0), transfers, 2, stream_of(0)), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(settled(0, group.comm(0), nvrar_batch(group.comm(0), transfers, 1, stream_of(0))), NVRAR_OK);
  int32_t got = 0;
  EXPECT_EQ(recv_one(1, group.comm(1), 0, &got, 1, NVRAR_INT32), NVRAR_OK) << nvrar_last_error();
  EXPECT_EQ(got, 5);
}

struct Side {
  uint64_t count;
  int32_t data_type;
};

// Rank 0 sends `sent`, rank 1 receives `received`, rank 2 waits in a barrier: all of them learn of the difference, and
// nothing is written where it was noticed.
void expect_mismatch(const std::vector<Side>& sent, const std::vector<Side>& received, const std::string& sentence) {
  ThreadGroup group(3);
  std::atomic<bool> told{false};
  group.run([&](int rank, nvrar_comm* comm) {
    constexpr uint8_t kSent = 0x5A;
    constexpr uint8_t kBefore = 0xC3;
    uint8_t data[64];
    std::fill(std::begin(data), std::end(data), rank == 0 ? kSent : kBefore);
    nvrar_status status = NVRAR_OK;
    if (rank == 0) {
      for (const Side& side : sent) {
        status = send_one(rank, comm, 1, data, side.count, side.data_type);
        // On a GPU it is looked at later.
        ASSERT_TRUE(status == NVRAR_OK || (on_gpu() && status == NVRAR_MISMATCH)) << nvrar_last_error();
      }
    }
    if (rank == 1) {
      for (const Side& side : received) {
        ASSERT_EQ(status, NVRAR_OK) << "too early";
        std::fill(std::begin(data), std::end(data), kBefore);
        status = recv_one(rank, comm, 0, data, side.count, side.data_type);
      }
      EXPECT_TRUE(std::all_of(std::begin(data), std::end(data), [](uint8_t byte) { return byte == kBefore; }))
          << "a transfer that was refused was stored";
      EXPECT_EQ(nvrar_last_error(), sentence);
    } else {
      status = settled(rank, comm, nvrar_barrier(comm, stream_of(rank)));
      EXPECT_NE(std::string(nvrar_last_error()).find("the calls of the ranks differ"), std::string::npos)
          << nvrar_last_error();
    }
    EXPECT_EQ(status, NVRAR_MISMATCH) << "rank " << rank << ": " << nvrar_last_error();
    nvrar_failure failure{};
    failure.size = sizeof failure;
    EXPECT_EQ(nvrar_failure_of(comm, &failure), NVRAR_OK);
    EXPECT_EQ(failure.missing[0], 1u) << "rank 0 is the one that differs from the rank that noticed";
    if (rank == 2) told = true;
  });
  EXPECT_TRUE(told);
}

constexpr char kMatchOneByOne[] =
    " of rank 0: the sends and the recvs of a pair of ranks match one by one, in count and type";

TEST(PointToPointMismatch, OfCountsEndsAllRanks) {
  expect_mismatch({{4, NVRAR_INT32}}, {{5, NVRAR_INT32}},
                  std::string("recv #1 int32[5] from rank 0 meets send #1 int32[4]") + kMatchOneByOne);
}

TEST(PointToPointMismatch, OfTypesEndsAllRanks) {
  expect_mismatch({{2, NVRAR_INT32}, {4, NVRAR_INT32}}, {{2, NVRAR_INT32}, {4, NVRAR_FLOAT32}},
                  std::string("recv #2 float32[4] from rank 0 meets send #2 int32[4]") + kMatchOneByOne);
}

// Nothing is sent for a count of 0, so it is the next transfer that shows the difference.
TEST(PointToPointMismatch, OfNothingAndSomethingShowsInTheNextTransfer) {
  expect_mismatch({{0, NVRAR_INT32}, {4, NVRAR_INT32}}, {{4, NVRAR_INT32}},
                  std::string("recv #1 int32[4] from rank 0 meets send #2 int32[4]") + kMatchOneByOne);
  expect_mismatch({{4, NVRAR_INT32}}, {{0, NVRAR_INT32}, {4, NVRAR_INT32}},
                  std::string("recv #2 int32[4] from rank 0 meets send #1 int32[4]") + kMatchOneByOne);
}

TEST(PointToPoint, ATimeOutNamesThePeersThatAreMissing) {
  ThreadGroup group(3, {.timeout_ns = 50 * kMs});
  std::vector<uint8_t> data(16);
  const uint64_t at = Image(0, 0, data).address();
  ASSERT_EQ(send_one(1, group.comm(1), 0, data.data(), 4, NVRAR_UINT8), NVRAR_OK);
  const nvrar_transfer transfers[] = {recv_from(1, at, 4, NVRAR_UINT8), recv_from(2, at + 8, 4, NVRAR_UINT8)};
  EXPECT_EQ(settled(0, group.comm(0), nvrar_batch(group.comm(0), transfers, 2, stream_of(0))), NVRAR_TIMEOUT);
  const std::string sentence = nvrar_last_error();
  EXPECT_EQ(sentence.rfind("recv #1 uint8[4] from rank 2 in a batch of 2 timed out after ", 0), 0u) << sentence;
  EXPECT_NE(sentence.find(" without rank 2: "), std::string::npos) << sentence;
  // A GPU's member knows that it has queued a batch, not that it has ended.
  const std::string ended = on_gpu() ? "rank 1 has queued" : "rank 1 has finished";
  EXPECT_NE(sentence.find(ended + " send #1 uint8[4] to rank 0"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("rank 2 has entered no call"), std::string::npos) << sentence;
  EXPECT_EQ(settled(1, group.comm(1), nvrar_barrier(group.comm(1), stream_of(1))), NVRAR_TIMEOUT);
  EXPECT_EQ(std::string(nvrar_last_error()).rfind("rank 0 timed out in its recv #1 uint8[4] from rank 2", 0), 0u)
      << nvrar_last_error();
}

TEST(PointToPoint, AnAbortEndsASenderWhoseRingIsFull) {
  ThreadGroup group(2, {.ring_bytes = kSmallRingBytes});
  std::thread sender([&] {
    const std::vector<uint8_t> data(10 * kSmallTransferRing);
    EXPECT_EQ(send_one(0, group.comm(0), 1, data.data(), data.size(), NVRAR_UINT8), NVRAR_ABORTED);
  });
  ::usleep(20000);
  const double begin = seconds_now();
  EXPECT_EQ(nvrar_abort(group.comm(1)), NVRAR_OK);
  sender.join();
  EXPECT_LT(seconds_now() - begin, 5);
}

nvrar_call last_call(nvrar_comm* comm, int rank) {
  nvrar_call call{};
  call.size = sizeof call;
  EXPECT_EQ(nvrar_call_of(comm, rank, &call), NVRAR_OK) << nvrar_last_error();
  return call;
}

TEST(PointToPoint, TheTransferThatStillRunsIsWhatTheRecordShows) {
  ThreadGroup group(3);
  if (on_gpu()) GTEST_SKIP() << "the record of a GPU's batch is of what was enqueued";
  group.run([](int, nvrar_comm* comm) { ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK); });
  uint8_t data[16] = {};
  ASSERT_EQ(send_one(1, group.comm(1), 0, data, 4, NVRAR_UINT8), NVRAR_OK);
  std::thread receiver([&] {
    uint8_t out[16] = {};
    const auto to = reinterpret_cast<uint64_t>(out);
    const nvrar_transfer transfers[] = {recv_from(2, to, 2, NVRAR_FLOAT16), recv_from(1, to + 8, 4, NVRAR_UINT8)};
    EXPECT_EQ(nvrar_batch(group.comm(0), transfers, 2, 0), NVRAR_OK) << nvrar_last_error();
  });
  nvrar_call call{};
  const double end = seconds_now() + 10;
  // Until the other transfer of the batch is done.
  do {
    call = last_call(group.comm(1), 0);
    ::usleep(1000);
  } while (seconds_now() < end && call.root != 2);
  ::usleep(20000);
  call = last_call(group.comm(1), 0);
  EXPECT_EQ(call.state, NVRAR_CALL_RUNNING);
  EXPECT_EQ(call.collective, NVRAR_RECV);
  EXPECT_EQ(call.root, 2);
  EXPECT_EQ(call.sequence, 1u);
  EXPECT_EQ(call.count, 2u);
  EXPECT_EQ(call.transfers, 2u);
  EXPECT_EQ(call.group_sequence, 1u) << "of collectives";
  EXPECT_EQ(nvrar_barrier(group.comm(0), 0), NVRAR_INVALID_USAGE) << "a batch is one call";
  ASSERT_EQ(send_one(2, group.comm(2), 0, data, 2, NVRAR_FLOAT16), NVRAR_OK);
  receiver.join();
  EXPECT_EQ(last_call(group.comm(1), 0).state, NVRAR_CALL_DONE);
}

}  // namespace
}  // namespace nvrar::test
