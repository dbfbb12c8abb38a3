// Long sequences of different calls on one group: ring reuse, laggards, packets of all kinds in turn.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>

#include "call.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kPoolElements = 4096;
constexpr uint64_t kMaxCount = 2048;

class SequenceOfWorld : public ::testing::TestWithParam<int> {};

struct Pools {
  explicit Pools(int world) {
    for (const auto& [type, op] : reductions()) {
      pools[{type, op}] = std::make_unique<Pool>(type, op, world, kPoolElements, 11);
    }
  }
  const Pool& of(int32_t type, int32_t op) const { return *pools.at({type, op}); }
  std::map<std::pair<int32_t, int32_t>, std::unique_ptr<Pool>> pools;
};

void one_call(int rank, int world, nvrar_comm* comm, const Pools& pools, uint64_t r) {
  const auto [type, op] = reductions()[(r & 0xFF) % reductions().size()];
  const Pool& pool = pools.of(type, op);
  const uint64_t size = element_bytes(type);
  // Mostly small: those calls follow each other fastest.
  const uint64_t count = 1 + ((r >> 8) % kMaxCount >> (r >> 20 & 7));
  const uint64_t first = (r >> 24) % (kPoolElements - kMaxCount);
  const uint64_t bytes = count * size;
  const int root = static_cast<int>((r >> 40) % static_cast<uint64_t>(world));
  std::vector<uint8_t> in(pool.input(rank, first), pool.input(rank, first) + bytes);
  std::vector<uint8_t> out(bytes * static_cast<uint64_t>(world));
  const auto send = reinterpret_cast<uint64_t>(in.data());
  const auto recv = reinterpret_cast<uint64_t>(out.data());
  switch (r >> 44 & 7) {
    case 0:
      ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
      break;
    case 1:
      ASSERT_EQ(nvrar_broadcast(comm, send, recv, count, type, root, 0), NVRAR_OK) << nvrar_last_error();
      ASSERT_EQ(difference(out.data(), pool.input(root, first), bytes), "");
      break;
    case 2:
      ASSERT_EQ(nvrar_all_gather(comm, send, recv, count, type, 0), NVRAR_OK) << nvrar_last_error();
      for (int source = 0; source < world; ++source) {
        const uint8_t* part = out.data() + static_cast<uint64_t>(source) * bytes;
        ASSERT_EQ(difference(part, pool.input(source, first), bytes), "");
      }
      break;
    default:
      ASSERT_EQ(nvrar_all_reduce(comm, send, recv, count, type, op, NVRAR_ALGORITHM_AUTO, 0), NVRAR_OK)
          << nvrar_last_error();
      ASSERT_EQ(difference(out.data(), pool.expected(first), bytes), "");
  }
}

TEST_P(SequenceOfWorld, ThousandsOfMixedCallsWithLaggardsStayExact) {
  const int world = GetParam();
  const Pools pools(world);
  ThreadGroup group(world, {.ring_bytes = 2 * kSmallRingBytes});
  const uint64_t calls = repetitions(4000);
  group.run([&](int rank, nvrar_comm* comm) {
    for (uint64_t i = 0; i < calls; ++i) {
      // Each rank is the laggard in turn.
      if (i % 64 == 0 && i / 64 % static_cast<uint64_t>(world) == static_cast<uint64_t>(rank)) ::usleep(300);
      one_call(rank, world, comm, pools, mix(i));
      if (::testing::Test::HasFatalFailure()) FAIL() << "call " << i << " on rank " << rank;
    }
  });
}

// One rank is always late, the others are always a call ahead of it: the reuse of a ring happens as early as it can.
TEST_P(SequenceOfWorld, ThousandsOfEpochsOnTheSameSlotsStayExact) {
  const int world = GetParam();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, kPoolElements, 13);
  ThreadGroup group(world);
  const uint64_t calls = repetitions(20000);
  group.run([&](int rank, nvrar_comm* comm) {
    uint8_t out[32 * 4];
    for (uint64_t i = 0; i < calls; ++i) {
      if (i % 256 == 0 && rank == world - 1) ::usleep(300);
      const uint64_t first = i * 7 % (kPoolElements - 32);
      ASSERT_EQ(
          nvrar_all_reduce(comm, reinterpret_cast<uint64_t>(pool.input(rank, first)), reinterpret_cast<uint64_t>(out),
                           32, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0),
          NVRAR_OK)
          << nvrar_last_error();
      ASSERT_EQ(difference(out, pool.expected(first), sizeof out), "") << "call " << i << " on rank " << rank;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, SequenceOfWorld, ::testing::Values(2, 3, 4, 5, 8));

}  // namespace
}  // namespace nvrar::test
