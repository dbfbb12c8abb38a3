// All-gather, broadcast and barrier with all ranks as threads of one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "call.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kCounts[] = {0,  1,  2,   3,   4,   5,   7,   8,   9,    31,   33,
                                64, 65, 127, 129, 255, 257, 511, 513, 1000, 2049, 4097};
constexpr uint64_t kPoolElements = 8192;

class DataMovementOfWorld : public ::testing::TestWithParam<int> {};

TEST_P(DataMovementOfWorld, AllGatherKeepsEveryBitInRankOrder) {
  const int world = GetParam();
  const auto ranks = static_cast<uint64_t>(world);
  for (uint64_t ring_bytes : {uint64_t{0}, kSmallRingBytes}) {
    ThreadGroup group(world, {.ring_bytes = ring_bytes});
    for (int32_t type : kTypes) {
      const uint64_t size = element_bytes(type);
      const Pool pool(type, NVRAR_SUM, world, kPoolElements, static_cast<uint64_t>(type));
      group.run([&](int rank, nvrar_comm* comm) {
        uint64_t turn = 0;
        for (uint64_t count : kCounts) {
          const uint64_t r = mix(++turn);
          if (!runs_case(turn, static_cast<uint64_t>(type))) continue;
          const uint64_t first = r % 4000;
          const uint64_t bytes = count * size;
          const bool in_place = (r >> 32) % 2 == 0;
          GuardedBuffer send(bytes, (r >> 16) % 16 * size);
          GuardedBuffer recv(bytes * ranks, (r >> 24) % 16 * size);
          uint8_t* const own = in_place ? recv.data() + static_cast<uint64_t>(rank) * bytes : send.data();
          std::memcpy(own, pool.input(rank, first), bytes);
          ASSERT_EQ(nvrar_all_gather(comm, reinterpret_cast<uint64_t>(own), recv.address(), count, type, 0), NVRAR_OK)
              << nvrar_last_error();
          for (int source = 0; source < world; ++source) {
            const uint8_t* part = recv.data() + static_cast<uint64_t>(source) * bytes;
            ASSERT_EQ(difference(part, pool.input(source, first), bytes), "")
                << "rank " << rank << " part " << source << " type " << type << " count " << count;
          }
          ASSERT_TRUE(send.guards_intact() && recv.guards_intact());
        }
      });
    }
  }
}

TEST_P(DataMovementOfWorld, BroadcastFromEveryRootKeepsEveryBit) {
  const int world = GetParam();
  for (uint64_t ring_bytes : {uint64_t{0}, kSmallRingBytes}) {
    ThreadGroup group(world, {.ring_bytes = ring_bytes});
    for (int32_t type : kTypes) {
      const uint64_t size = element_bytes(type);
      const Pool pool(type, NVRAR_SUM, world, kPoolElements, static_cast<uint64_t>(type));
      group.run([&](int rank, nvrar_comm* comm) {
        uint64_t turn = 0;
        for (int root = 0; root < world; ++root) {
          for (uint64_t count : kCounts) {
            const uint64_t r = mix(++turn);
            if (!runs_case(turn, static_cast<uint64_t>(type))) continue;
            const uint64_t first = r % 4000;
            const uint64_t bytes = count * size;
            GuardedBuffer send(bytes, (r >> 16) % 16 * size);
            GuardedBuffer recv(bytes, (r >> 24) % 16 * size);
            const bool in_place = (r >> 32) % 2 == 0;
            GuardedBuffer& from = in_place ? recv : send;
            if (rank == root) std::memcpy(from.data(), pool.input(root, first), bytes);
            const uint64_t send_address = rank == root ? from.address() : 0;
            ASSERT_EQ(nvrar_broadcast(comm, send_address, recv.address(), count, type, root, 0), NVRAR_OK)
                << nvrar_last_error();
            ASSERT_EQ(difference(recv.data(), pool.input(root, first), bytes), "")
                << "rank " << rank << " root " << root << " count " << count;
            ASSERT_TRUE(send.guards_intact() && recv.guards_intact());
          }
        }
      });
    }
  }
}

// A rank that leaves a barrier before all have entered would read a counter that is too small.
TEST_P(DataMovementOfWorld, NobodyLeavesABarrierBeforeAllHaveEntered) {
  const int world = GetParam();
  const uint64_t rounds = repetitions(1000);
  ThreadGroup group(world);
  std::atomic<uint64_t> entered{0};
  group.run([&](int rank, nvrar_comm* comm) {
    for (uint64_t round = 1; round <= rounds; ++round) {
      if (mix(round * 8 + static_cast<uint64_t>(rank)) % 50 == 0) ::usleep(200);
      ++entered;
      ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
      ASSERT_GE(entered.load(), round * static_cast<uint64_t>(world));
      ASSERT_LE(entered.load(), (round + 1) * static_cast<uint64_t>(world));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, DataMovementOfWorld, ::testing::Range(1, 9));

}  // namespace
}  // namespace nvrar::test
