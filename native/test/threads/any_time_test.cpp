// What may be called at any time, by other threads from prepare to destroy: beside connect, calls, a failing call and
// an abort. The thread sanitizer, under which CI runs this program, says what two threads touch at once.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/abi.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

struct Way {
  const char* name;
  bool linked;
  bool encrypted;
  bool aborts;
  bool fails;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

void look(nvrar_comm* comm, int32_t peer, uint32_t turn) {
  nvrar_call calls[16] = {};
  nvrar_link link{};
  nvrar_wait wait{};
  nvrar_statistics statistics{};
  nvrar_failure failure{};
  uint32_t count = 0;
  calls[0].size = sizeof calls[0];
  link.size = sizeof link;
  wait.size = sizeof wait;
  statistics.size = sizeof statistics;
  failure.size = sizeof failure;
  (void)nvrar_call_of(comm, peer, &calls[0]);
  (void)nvrar_link_of(comm, peer, &link);
  (void)nvrar_wait_of(comm, peer, &wait);
  (void)nvrar_statistics_of(comm, static_cast<int32_t>(turn % NVRAR_RECV) + 1, &statistics);
  EXPECT_EQ(nvrar_failure_of(comm, &failure), NVRAR_OK);
  calls[0].size = sizeof calls[0];
  (void)nvrar_flight_record(comm, peer, calls, 16, &count);
  (void)nvrar_async_error(comm);
  (void)nvrar_last_algorithm(comm);
  if (turn % 8 == 0) (void)nvrar_refresh(comm, turn % 16 == 0 ? 1 : 0);
}

class AnyTime : public ::testing::TestWithParam<Way> {};

TEST_P(AnyTime, OtherThreadsMayLook) {
  constexpr int kWorld = 3;
  constexpr int kCalls = 20;
  const Way& way = GetParam();
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  uint8_t descriptors[kWorld * NVRAR_DESCRIPTOR_BYTES];
  nvrar_comm* comms[kWorld] = {};
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  for (int rank = 0; rank < kWorld; ++rank) {
    const nvrar_config config = make_config(rank, kWorld,
                                            {.timeout_ns = (way.fails ? 200 : 20'000) * kMs,
                                             .ranks_per_node = way.linked ? 1 : 0,
                                             .linked = way.linked,
                                             .encrypted = way.encrypted});
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comms[rank]),
              NVRAR_OK)
        << nvrar_last_error();
  }
  std::atomic<bool> ends{false};
  std::atomic<int> connected{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      for (uint32_t turn = 0; !ends; ++turn) {
        look(comms[rank], static_cast<int32_t>(turn % kWorld), turn);
        if (way.aborts && rank == kWorld - 1 && turn == 50) {
          EXPECT_EQ(nvrar_abort(comms[rank]), NVRAR_OK);
        }
      }
    });
  }
  const double until = seconds_now() + 30;
  const auto body = [&](int rank) {
    nvrar_status status = nvrar_connect(comms[rank], descriptors);
    EXPECT_TRUE(status == NVRAR_OK || way.aborts) << text_of(status);
    ++connected;
    while (connected < kWorld) std::this_thread::yield();
    std::vector<float> data(5000, 1);
    const auto at = reinterpret_cast<uint64_t>(data.data());
    // An abort comes when the threads that look have done so for a while.
    for (int call = 0; status == NVRAR_OK && (way.aborts ? seconds_now() < until : call < kCalls); ++call) {
      if (way.fails && rank == 0 && call == kCalls / 2) return;
      status = call % 2 == 0 ? nvrar_all_reduce(comms[rank], at, at, data.size(), NVRAR_FLOAT32, NVRAR_MAX,
                                                NVRAR_ALGORITHM_AUTO, 0)
                             : nvrar_barrier(comms[rank], 0);
    }
    EXPECT_TRUE(status == NVRAR_OK || way.aborts || way.fails) << text_of(status);
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kWorld; ++rank) ranks.emplace_back(body, rank);
  for (std::thread& rank : ranks) rank.join();
  ends = true;
  for (std::thread& thread : threads) thread.join();
  if (way.aborts) {
    for (nvrar_comm* comm : comms) EXPECT_EQ(nvrar_async_error(comm), NVRAR_ABORTED);
  }
  std::vector<std::thread> leaving;
  for (nvrar_comm* comm : comms) leaving.emplace_back([comm] { EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK); });
  for (std::thread& thread : leaving) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    Groups, AnyTime,
    ::testing::Values(Way{"OnAHost", false, false, false, false}, Way{"OnAHostThatAborts", false, false, true, false},
                      Way{"OnAHostThatFails", false, false, false, true}, Way{"Linked", true, false, false, false},
                      Way{"LinkedThatAborts", true, false, true, false},
                      Way{"LinkedThatFails", true, false, false, true}, Way{"Encrypted", true, true, false, false}),
    [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace nvrar::test
