// What a member counts of its calls, by itself: the buckets of durations, what is counted where, and what a call pays.
#include "shared/call_counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <vector>

namespace nvrar::shared {
namespace {

nvrar_call call_of(int32_t collective, int32_t type, uint64_t count, int32_t algorithm = 0) {
  nvrar_call call{};
  call.collective = collective;
  call.data_type = type;
  call.count = count;
  call.algorithm = algorithm;
  return call;
}

uint64_t durations_of(const nvrar_statistics& statistics) {
  uint64_t sum = 0;
  for (const uint64_t duration : statistics.durations) sum += duration;
  return sum;
}

TEST(CallCounters, ABucketEndsAtTwiceTheTimeOfTheOneBefore) {
  uint64_t limit = NVRAR_SHORTEST_BUCKET_NS;
  EXPECT_EQ(CallCounters::bucket_of(0), 0u);
  for (uint32_t bucket = 0; bucket < NVRAR_DURATION_BUCKETS - 1; ++bucket, limit *= 2) {
    EXPECT_EQ(CallCounters::bucket_of(limit), bucket);
    EXPECT_EQ(CallCounters::bucket_of(limit + 1), bucket + 1);
  }
  EXPECT_EQ(CallCounters::bucket_of(std::numeric_limits<uint64_t>::max()), NVRAR_DURATION_BUCKETS - 1u);
}

TEST(CallCounters, CountsByCollectiveAndType) {
  CallCounters counters;
  counters.begun(call_of(NVRAR_ALL_REDUCE, NVRAR_BFLOAT16, 7, NVRAR_ALGORITHM_TWO_SHOT), NVRAR_CALL_RUNNING);
  counters.begun(call_of(NVRAR_ALL_REDUCE, NVRAR_BFLOAT16, 5, NVRAR_ALGORITHM_ONE_SHOT), NVRAR_CALL_FAILED);
  counters.begun(call_of(NVRAR_BARRIER, -1, 0), NVRAR_CALL_RUNNING);
  counters.failed(NVRAR_BARRIER);
  nvrar_statistics all_reduces = counters.read(NVRAR_ALL_REDUCE);
  EXPECT_EQ(all_reduces.calls[NVRAR_BFLOAT16 + 1], 2u);
  EXPECT_EQ(all_reduces.elements[NVRAR_BFLOAT16 + 1], 12u);
  EXPECT_EQ(all_reduces.failed, 1u);
  const nvrar_statistics barriers = counters.read(NVRAR_BARRIER);
  EXPECT_EQ(barriers.calls[0], 1u);
  EXPECT_EQ(barriers.failed, 1u);
  EXPECT_EQ(counters.algorithm().load(), 0) << "the last call's";
}

// Peers on other hosts may tell anything of themselves.
TEST(CallCounters, WhatIsNoCollectiveOrNoTypeCountsForNone) {
  CallCounters counters;
  for (const int32_t wrong : {-1, 0, NVRAR_RECV + 1, 255, std::numeric_limits<int32_t>::min()}) {
    counters.begun(call_of(wrong, NVRAR_FLOAT32, 1), NVRAR_CALL_FAILED);
    counters.failed(wrong);
  }
  // Type t has index t + 1.
  for (const int32_t wrong :
       {-2, NVRAR_STATISTICS_TYPES - 1, NVRAR_STATISTICS_TYPES, std::numeric_limits<int32_t>::max()}) {
    counters.begun(call_of(NVRAR_REDUCE, wrong, 1), NVRAR_CALL_RUNNING);
  }
  for (int32_t collective = NVRAR_ALL_REDUCE; collective <= NVRAR_RECV; ++collective) {
    const nvrar_statistics counted = counters.read(collective);
    EXPECT_EQ(counted.failed, 0u) << collective;
    for (const uint64_t calls : counted.calls) EXPECT_EQ(calls, 0u) << collective;
    for (const uint64_t elements : counted.elements) EXPECT_EQ(elements, 0u) << collective;
  }
}

TEST(CallCounters, DurationsAreCountedOnceTheClocksRateIsKnown) {
  CallCounters counters;
  counters.took(NVRAR_REDUCE, 1000);
  EXPECT_EQ(durations_of(counters.read(NVRAR_REDUCE)), 0u);
  counters.set_rate(0.5);
  counters.took(NVRAR_REDUCE, 2'000'000);
  const nvrar_statistics counted = counters.read(NVRAR_REDUCE);
  EXPECT_EQ(counted.timed_ns, 1'000'000u);
  EXPECT_EQ(counted.durations[CallCounters::bucket_of(1'000'000)], 1u);
  EXPECT_EQ(durations_of(counted), 1u);
}

// In time of this thread, which other load on the machine hardly changes; the fastest of several medians.
TEST(CallCounters, ACallPaysFarLessThanItTakes) {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "only of use in an optimised build without a sanitizer";
#endif
  constexpr int kCalls = 20'000;
  constexpr int kBatches = 41;
  constexpr double kLimitNs = 100;  // a call takes a microsecond at least
  const auto thread_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  };
  const auto counters = std::make_unique<CallCounters>();
  counters->set_rate(0.4);
  const nvrar_call call = call_of(NVRAR_ALL_REDUCE, NVRAR_FLOAT32, 250, NVRAR_ALGORITHM_ONE_SHOT);
  double fastest = std::numeric_limits<double>::max();
  for (int round = 0; round < 5; ++round) {
    std::vector<double> batches;
    for (int batch = 0; batch < kBatches; ++batch) {
      const double begin = thread_ns();
      for (uint64_t i = 0; i < kCalls; ++i) {
        counters->begun(call, NVRAR_CALL_RUNNING);
        counters->took(NVRAR_ALL_REDUCE, 2000 + i);
      }
      batches.push_back((thread_ns() - begin) / kCalls);
    }
    std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
    fastest = std::min(fastest, batches[kBatches / 2]);
  }
  std::printf("[          ] counting a call takes %.1f ns\n", fastest);
  EXPECT_LT(fastest, kLimitNs);
}

}  // namespace
}  // namespace nvrar::shared
