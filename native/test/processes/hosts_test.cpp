// Ranks on several hosts, each of which is a process tree with namespaces of its own for pids and mounts: from one
// host, nothing of another one's processes can be mapped.
#include "support/hosts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "support/abi.h"
#include "support/collective_case.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

constexpr int kCalls = 200;

// Sums of integers in float32 are exact in any order.
void sum_exactly(int rank, int world, nvrar_comm* comm, size_t count) {
  std::vector<float> data(count);
  for (int call = 0; call < kCalls; ++call) {
    for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((i * 7 + static_cast<size_t>(rank + call)) % 1000);
    ASSERT_EQ(nvrar_all_reduce(comm, reinterpret_cast<uint64_t>(data.data()), reinterpret_cast<uint64_t>(data.data()),
                               count, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0),
              NVRAR_OK)
        << nvrar_last_error();
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int r = 0; r < world; ++r) sum += static_cast<float>((i * 7 + static_cast<size_t>(r + call)) % 1000);
      ASSERT_EQ(data[i], sum) << "element " << i << " of call " << call;
    }
  }
}

class Hosts : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override {
    if (can_make_hosts()) return;
    const char* const ci = std::getenv("CI");
    if (ci != nullptr && std::string(ci) == "true") FAIL() << "this process may not make namespaces, and must in CI";
    GTEST_SKIP() << "this process may not make namespaces";
  }
};

TEST_P(Hosts, SumTheSameNumbersWhateverTheirSizes) {
  const int world = std::accumulate(GetParam().begin(), GetParam().end(), 0);
  EXPECT_TRUE(run_on_hosts(GetParam(), [&](int rank, nvrar_comm* comm, Board*) {
    for (const size_t count : {size_t{1}, size_t{300}, size_t{20'000}}) sum_exactly(rank, world, comm, count);
  }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Hosts,
                         ::testing::Values(std::vector<int>{1, 1}, std::vector<int>{2, 3}, std::vector<int>{3, 2},
                                           std::vector<int>{1, 1, 2}, std::vector<int>{1, 3}));

class LateOnItsHost : public Hosts {};

// The ranks of a late one's host can map its memory since it was prepared, and do not wait for it to connect.
TEST_P(LateOnItsHost, FindsWhatTheOthersHaveSentIt) {
  const std::vector<int> sizes = GetParam();
  const int world = std::accumulate(sizes.begin(), sizes.end(), 0);
  // Whoever has all that it needs would be gone before the late one connects.
  const auto stay = [](nvrar_comm* comm) { ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error(); };
  for (int32_t collective = NVRAR_ALL_REDUCE; collective <= NVRAR_ALL_TO_ALL && !HasFailure(); ++collective) {
    if (collective == NVRAR_BARRIER) continue;
    const auto body = [&](int rank, nvrar_comm* comm, Board*) {
      const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kPoolElements, 5);
      run_case(rank, world, comm, pool, {collective, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, 1000, 0});
      stay(comm);
    };
    EXPECT_TRUE(run_on_hosts(sizes, body, {.timeout_ns = 5'000 * kMs, .late_rank = 1})) << "collective " << collective;
  }
  const auto exchange = [&](int rank, nvrar_comm* comm, Board*) {
    int32_t sent = 100 + rank;
    int32_t got = 0;
    const auto at = [](int32_t* value) { return reinterpret_cast<uint64_t>(value); };
    const nvrar_transfer transfers[2] = {send_to((rank + 1) % world, at(&sent), 1, NVRAR_INT32),
                                         recv_from((rank + world - 1) % world, at(&got), 1, NVRAR_INT32)};
    ASSERT_EQ(nvrar_batch(comm, transfers, 2, 0), NVRAR_OK) << nvrar_last_error();
    EXPECT_EQ(got, 100 + (rank + world - 1) % world);
    stay(comm);
  };
  EXPECT_TRUE(run_on_hosts(sizes, exchange, {.timeout_ns = 5'000 * kMs, .late_rank = 1})) << "transfers";
}

INSTANTIATE_TEST_SUITE_P(Sizes, LateOnItsHost, ::testing::Values(std::vector<int>{2, 1}));

}  // namespace
}  // namespace nvrar::test
