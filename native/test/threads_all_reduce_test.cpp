// All-reduce with all ranks as threads of one process.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>

#include "call.h"
#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

struct Case {
  int32_t data_type;
  int32_t op;
  uint64_t count;
  uint64_t first;        // window of the pool
  uint64_t send_offset;  // in elements
  uint64_t recv_offset;
  bool in_place;
};

void check_all_reduce(int rank, nvrar_comm* comm, const Pool& pool, const Case& c) {
  const uint64_t size = element_bytes(c.data_type);
  const uint64_t bytes = c.count * size;
  GuardedBuffer send(bytes, c.send_offset * size);
  GuardedBuffer recv(bytes, c.recv_offset * size);
  GuardedBuffer& out = c.in_place ? send : recv;
  std::memcpy(send.data(), pool.input(rank, c.first), bytes);
  const nvrar_status status =
      nvrar_all_reduce(comm, send.address(), out.address(), c.count, c.data_type, c.op, NVRAR_ALGORITHM_AUTO, 0);
  ASSERT_EQ(status, NVRAR_OK) << nvrar_last_error();
  ASSERT_EQ(difference(out.data(), pool.expected(c.first), bytes), "")
      << "rank " << rank << " type " << c.data_type << " op " << c.op << " count " << c.count;
  if (!c.in_place) {
    ASSERT_EQ(difference(send.data(), pool.input(rank, c.first), bytes), "") << "the input changed";
  }
  ASSERT_TRUE(send.guards_intact() && recv.guards_intact()) << "count " << c.count;
}

constexpr uint64_t kCounts[] = {0,   1,    2,    3,    4,    5,    7,    8,    9,    15,   16,  17,  31,
                                32,  33,   63,   64,   65,   127,  128,  129,  255,  256,  257, 511, 512,
                                513, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097};
constexpr uint64_t kPoolElements = 8192;

class AllReduceOfWorld : public ::testing::TestWithParam<int> {};

// Every type and operator at counts around each threshold; the small ring cuts most of them into several launches.
TEST_P(AllReduceOfWorld, GivesTheOrderedReferenceBitForBit) {
  const int world = GetParam();
  uint64_t setting = 0;
  for (uint64_t ring_bytes : {uint64_t{0}, kSmallRingBytes}) {
    ThreadGroup group(world, {.ring_bytes = ring_bytes});
    for (const Reduction& reduction : reductions()) {
      const int32_t type = reduction.data_type;
      const int32_t op = reduction.op;
      const Pool pool(type, op, world, kPoolElements, mix(static_cast<uint64_t>(type * 100 + op)));
      ++setting;
      group.run([&](int rank, nvrar_comm* comm) {
        uint64_t turn = 0;
        for (uint64_t count : kCounts) {
          const uint64_t r = mix(++turn + ring_bytes);
          if (!runs_case(turn, setting)) continue;
          check_all_reduce(rank, comm, pool,
                           {type, op, count, r % 4000, (r >> 16) % 16, (r >> 24) % 16, (r >> 32) % 2 == 0});
          if (::testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllReduceOfWorld, ::testing::Range(1, 9));

// Each count up to 4096, each at one pair of distances from a vector boundary.
TEST(AllReduceSweep, EveryCountIsExact) {
  for (int world : {2, 3, 8}) {
    ThreadGroup group(world, {.ring_bytes = 65536});
    for (int32_t type : {NVRAR_FLOAT32, NVRAR_BFLOAT16}) {
      const Pool pool(type, NVRAR_SUM, world, kPoolElements, 7);
      const uint64_t step = 4096 / repetitions(4096);
      group.run([&](int rank, nvrar_comm* comm) {
        for (uint64_t count = 1; count <= 4096; count += step) {
          const Case c{type, NVRAR_SUM, count, count * 31 % 4000, count % 16, count / 16 % 16, count % 3 == 0};
          check_all_reduce(rank, comm, pool, c);
          if (::testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

// Counts around the sizes of vectors, groups of vectors and packet kinds, each at every pair of distances of send and
// recv from a vector boundary, apart and in place.
TEST(AllReduceSweep, EveryPairOfOffsetsIsExact) {
  constexpr uint64_t kVectorBytes = 16;
  constexpr uint64_t kSomeCounts[] = {1, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 255, 257, 1000};
  for (int world : {2, 3, 8}) {
    ThreadGroup group(world, {.ring_bytes = kSmallRingBytes});
    for (int32_t type : {NVRAR_FLOAT32, NVRAR_BFLOAT16}) {
      const Pool pool(type, NVRAR_SUM, world, kPoolElements, 23);
      const uint64_t offsets = kVectorBytes / element_bytes(type);
      group.run([&](int rank, nvrar_comm* comm) {
        for (uint64_t number = 0; number < std::size(kSomeCounts) * offsets * offsets; ++number) {
          const uint64_t count = kSomeCounts[number / (offsets * offsets)];
          const uint64_t send = number / offsets % offsets;
          const uint64_t recv = number % offsets;
          if (!runs_case(send + recv, count)) continue;
          Case c{type, NVRAR_SUM, count, number * 31 % 4000, send, recv, false};
          check_all_reduce(rank, comm, pool, c);
          if (::testing::Test::HasFatalFailure()) return;
          if (send != recv) continue;
          c.in_place = true;
          check_all_reduce(rank, comm, pool, c);
          if (::testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

}  // namespace
}  // namespace nvrar::test
