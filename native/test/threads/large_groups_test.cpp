// Groups of more ranks than a node may have, on one host whose ranks are divided into nodes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "member/descriptor.h"
#include "protocol/ring_layout.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/transfers.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kShortNs = 1'000 * kMs;

GroupOptions options_of(const TestTopology& topology, uint64_t times_ring = 1) {
  return {.ring_bytes = times_ring * protocol::min_ring_bytes(static_cast<uint32_t>(topology.world), true),
          .timeout_ns = 60'000 * kMs,
          .ranks_per_node = topology.ranks_per_node};
}

nvrar_failure failure_of(nvrar_comm* comm) {
  nvrar_failure failure{};
  failure.size = sizeof failure;
  EXPECT_EQ(nvrar_failure_of(comm, &failure), NVRAR_OK);
  return failure;
}

bool has(const nvrar_failure& failure, int rank) {
  const uint64_t word = rank < 128 ? failure.missing[rank / 64] : failure.missing_from_128[rank / 64 - 2];
  return (word >> rank % 64 & 1) != 0;
}

int count_of(const nvrar_failure& failure, int world) {
  int ranks = 0;
  for (int rank = 0; rank < world; ++rank) ranks += has(failure, rank) ? 1 : 0;
  return ranks;
}

class LargeGroup : public ::testing::TestWithParam<TestTopology> {
 protected:
  void SetUp() override {
    if (on_gpu()) GTEST_SKIP() << "a group on GPUs has at most 8 ranks";
  }
};

// Every collective and algorithm, with sums that depend on their order, in several launches and in one.
TEST_P(LargeGroup, AllCollectivesAreExact) {
  const TestTopology topology = GetParam();
  const int world = topology.world;
  const std::vector<int32_t> ways = algorithms(world, topology.ranks_per_node);
  ThreadGroup group(world, options_of(topology));
  uint64_t number = 0;
  for (const Reduction& reduction : reductions()) {
    if (!runs_case(++number, 0) && reduction.data_type != NVRAR_FLOAT32) continue;
    const bool thorough = reduction.data_type == NVRAR_FLOAT32 && reduction.op == NVRAR_SUM;
    const Pool pool = make_pool(reduction, world, topology.ranks_per_node, 61);
    std::vector<CollectiveCase> cases;
    const auto add = [&](int32_t collective, int32_t way, uint64_t count) {
      CollectiveCase c{collective, reduction, way, count, cases.size() * 13 % 500};
      c.root = static_cast<int>(cases.size() * 31 + number * 7) % world;
      c.in_place = cases.size() % 3 == 0;
      c.send_offset = cases.size() % 5;
      cases.push_back(c);
    };
    for (const int32_t way : ways) {
      for (const uint64_t count : {1u, 67u, 5000u}) {
        if (count < 5000 || thorough) add(NVRAR_ALL_REDUCE, way, count);
      }
    }
    for (const int32_t collective :
         {NVRAR_REDUCE, NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER, NVRAR_ALL_TO_ALL, NVRAR_BROADCAST}) {
      const bool moves = collective != NVRAR_REDUCE && collective != NVRAR_REDUCE_SCATTER;
      if (moves && reduction.op != NVRAR_SUM) continue;
      add(collective, NVRAR_ALGORITHM_AUTO, 5);
      add(collective, NVRAR_ALGORITHM_AUTO, thorough ? 301 : 65);
    }
    group.run([&](int rank, nvrar_comm* comm) {
      for (const CollectiveCase& c : cases) {
        run_case(rank, world, comm, pool, c);
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
    if (HasFailure()) return;
  }
}

// Data moves over some edges only, and evidence over others: each pair of calls in turn, with a laggard.
TEST_P(LargeGroup, CallsOfAllKindsFollowEachOther) {
  const TestTopology topology = GetParam();
  const int world = topology.world;
  const Reduction reduction{NVRAR_FLOAT32, NVRAR_SUM};
  const Pool pool = make_pool(reduction, world, topology.ranks_per_node, 67);
  constexpr int32_t kKinds[] = {NVRAR_ALL_REDUCE, NVRAR_REDUCE,     NVRAR_REDUCE_SCATTER, NVRAR_ALL_GATHER,
                                NVRAR_BROADCAST,  NVRAR_ALL_TO_ALL, NVRAR_BARRIER};
  ThreadGroup group(world, options_of(topology));
  const uint64_t calls = repetitions(7 * 7 * 4);
  std::atomic<uint64_t> entered{0};
  group.run([&](int rank, nvrar_comm* comm) {
    for (uint64_t i = 0; i < calls; ++i) {
      if (i % 16 == 0 && mix(i) % static_cast<uint64_t>(world) == static_cast<uint64_t>(rank)) ::usleep(300);
      CollectiveCase c{kKinds[(i % 2 == 0 ? i / 2 : i / 14) % std::size(kKinds)], reduction, NVRAR_ALGORITHM_AUTO, 33};
      c.first = i * 7 % 900;
      c.root = static_cast<int>((mix(i) >> 20) % static_cast<uint64_t>(world));
      ++entered;
      if (c.collective == NVRAR_BARRIER) {
        ASSERT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
        ASSERT_GE(entered.load(), (i + 1) * static_cast<uint64_t>(world)) << "a rank left before all had entered";
        continue;
      }
      run_case(rank, world, comm, pool, c);
      if (::testing::Test::HasFatalFailure()) FAIL() << "call " << i << " on rank " << rank;
    }
  });
}

TEST_P(LargeGroup, BatchesArriveWhole) {
  const TestTopology topology = GetParam();
  const int world = topology.world;
  std::vector<Message> messages;
  for (int rank = 0; rank < world; ++rank) {
    for (const int distance : {1, topology.ranks_per_node, world / 2}) {
      const auto seed = static_cast<uint64_t>(rank * 1000 + distance);
      messages.push_back({rank, (rank + distance) % world, NVRAR_INT32, 1 + mix(seed) % 3000, seed});
    }
  }
  ThreadGroup group(world, options_of(topology));
  group.run([&](int rank, nvrar_comm* comm) {
    const RankBatch batch(rank, messages, 5);
    ASSERT_EQ(batch.run(comm), NVRAR_OK) << nvrar_last_error();
    ASSERT_EQ(batch.fault(), "");
  });
}

TEST_P(LargeGroup, ATimeOutNamesTheAbsentRank) {
  const TestTopology topology = GetParam();
  const int world = topology.world;
  for (const int absent : {world / 2, world - 1}) {
    GroupOptions options = options_of(topology);
    options.timeout_ns = kShortNs;
    ThreadGroup group(world, options);
    const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world, 64, 1, topology.ranks_per_node);
    group.run([&](int rank, nvrar_comm* comm) {
      if (rank == absent) return;
      EXPECT_EQ(try_case(rank, world, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, 0, 10}),
                NVRAR_TIMEOUT);
      const std::string sentence = nvrar_last_error();
      const std::string name = "rank " + std::to_string(absent);
      EXPECT_TRUE(contains(sentence, "without " + name)) << sentence;
      EXPECT_TRUE(contains(sentence, ": " + name + " has entered no call, ranks")) << sentence;
      const nvrar_failure failure = failure_of(comm);
      EXPECT_TRUE(has(failure, absent)) << sentence;
      EXPECT_EQ(count_of(failure, world), 1) << sentence;
    });
  }
}

TEST_P(LargeGroup, DifferingCallsAreFoundOnEveryRank) {
  const TestTopology topology = GetParam();
  const int world = topology.world;
  const int other = world - 1;
  ThreadGroup group(world, options_of(topology));
  group.run([&](int rank, nvrar_comm* comm) {
    float values[2] = {1, 1};
    const auto at = [&](int i) { return reinterpret_cast<uint64_t>(&values[i]); };
    EXPECT_EQ(nvrar_broadcast(comm, at(0), at(1), 1, NVRAR_FLOAT32, rank == other ? 1 : 0, 0), NVRAR_MISMATCH);
    // The node of the rank finds out, perhaps before all others have entered the call.
    const std::string sentence = nvrar_last_error();
    EXPECT_TRUE(contains(sentence, "the calls of the ranks differ: ")) << sentence;
    EXPECT_TRUE(contains(sentence, "rank " + std::to_string(other) + " is in broadcast #1 float32[1] from root 1"))
        << sentence;
  });
}

TEST_P(LargeGroup, AnAbortEndsAllCalls) {
  const TestTopology topology = GetParam();
  const int last = topology.world - 1;
  ThreadGroup group(topology.world, options_of(topology));
  group.run([&](int rank, nvrar_comm* comm) {
    if (rank == last) {
      ::usleep(200'000);
      EXPECT_EQ(nvrar_abort(comm), NVRAR_OK);
      return;
    }
    EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_ABORTED);
    EXPECT_TRUE(contains(nvrar_last_error(), "rank " + std::to_string(last) + " aborted the group"))
        << nvrar_last_error();
    EXPECT_EQ(failure_of(comm).origin, last);
  });
}

// Even and uneven nodes, few and many, and nodes of one rank.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr TestTopology kLarge[] = {{9, 8}, {11, 1}, {22, 2}};
#else
constexpr TestTopology kLarge[] = {{9, 8}, {11, 1}, {22, 3}, {64, 8}, {64, 1}, {61, 7}, {128, 8}, {127, 2}};
#endif
INSTANTIATE_TEST_SUITE_P(Groups, LargeGroup, ::testing::ValuesIn(kLarge), [](const auto& group) {
  return std::to_string(group.param.world) + "RanksIn" + std::to_string(group.param.ranks_per_node);
});

// The same topology gives the same bits by every algorithm: the expected ones above are one reference for all.

std::string refusal(int world, int ranks_per_node, uint64_t ring_bytes = 0, int32_t backend = NVRAR_BACKEND_CPU) {
  const size_t open_before = open_descriptors();
  nvrar_config config = make_config(0, world, {.ring_bytes = ring_bytes, .ranks_per_node = ranks_per_node});
  config.backend = backend;
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  EXPECT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  uint8_t descriptor[NVRAR_DESCRIPTOR_BYTES];
  nvrar_comm* comm = nullptr;
  EXPECT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptor, &comm), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(comm, nullptr);
  const std::string sentence = nvrar_last_error();
  EXPECT_EQ(open_descriptors(), open_before) << sentence;
  return sentence;
}

TEST(LargeGroups, ThatAreTooLargeAreRefusedInOneSentence) {
  if (linked_nodes()) GTEST_SKIP() << "hosts make the nodes";
  EXPECT_EQ(refusal(513, 8), "a world size of 513 is not between 1 and 512");
  EXPECT_EQ(refusal(65, 1), "a group has at most 64 nodes, and ranks_per_node 1 makes 65 for a world size of 65");
  EXPECT_EQ(refusal(18, 9), "a node has at most 8 ranks, and ranks_per_node 9 makes nodes of 9 for a world size of 18");
  EXPECT_EQ(refusal(9, 0), "a node has at most 8 ranks, and ranks_per_node 0 makes nodes of 9 for a world size of 9");
  EXPECT_EQ(refusal(64, 8, 65536),
            "ring_bytes 65536 is not a multiple of 4096 between 98304 and 1073741824 (for a group of 64 ranks)");
  EXPECT_EQ(refusal(512, 8, 520192),
            "ring_bytes 520192 is not a multiple of 4096 between 524288 and 1073741824 (for a group of 512 ranks)");
  EXPECT_EQ(refusal(9, 3, 0, NVRAR_BACKEND_CUDA),
            "a world size of 9 is not between 1 and 8, the most that a group on GPUs without link_address has");
}

// What a rank's rings take (docs/concepts/protocol.md 2): the areas depend on ring_bytes alone, and what is added for
// each rank of the group is small.
TEST(LargeGroups, RingMemoryGrowsByTheTransfersOfEachRankOnly) {
  struct Size {
    uint32_t world;
    uint32_t ranks_per_node;
    uint64_t ring_bytes;
    uint64_t total_bytes;
  };
  constexpr uint64_t kKib = 1024;
  constexpr uint64_t kMib = 1024 * kKib;
  for (const Size& size :
       {Size{8, 8, kMib, 6 * kMib + 512 * kKib + 8 * kKib}, Size{8, 4, kMib, 9 * kMib + 512 * kKib + 8 * kKib},
        Size{64, 8, kMib, 9 * kMib + 512 * kKib + 8 * kKib}, Size{128, 8, kMib, 9 * kMib + 1 * kMib + 12 * kKib},
        Size{512, 8, kMib, 9 * kMib + 4 * kMib + 36 * kKib},
        Size{64, 8, 96 * kKib, 9 * 96 * kKib + 384 * kKib + 8 * kKib},
        Size{512, 8, 512 * kKib, 9 * 512 * kKib + 4 * kMib + 36 * kKib}}) {
    const protocol::RingLayout layout{size.ring_bytes, {size.world, size.ranks_per_node}};
    EXPECT_EQ(layout.total_bytes(), size.total_bytes) << size.world << " ranks";
    std::printf("[ RINGS    ] %3u ranks in nodes of %u, ring_bytes %7llu: %8llu bytes for each rank\n", size.world,
                size.ranks_per_node, static_cast<unsigned long long>(size.ring_bytes),
                static_cast<unsigned long long>(layout.total_bytes()));
  }
}

// What a member really has, whether its peers have come or not.
TEST(LargeGroups, AMemberTakesTheMemoryOfItsRingsAndLittleMore) {
  if (on_gpu()) GTEST_SKIP() << "a group on GPUs has at most 8 ranks";
  constexpr uint64_t kMib = 1 << 20;
  for (const uint32_t world : {8u, 64u, 512u}) {
    const nvrar_config config = make_config(0, static_cast<int>(world), {.ring_bytes = kMib, .ranks_per_node = 8});
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
    Descriptor descriptor{};
    nvrar_comm* comm = nullptr;
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(&descriptor), &comm), NVRAR_OK)
        << nvrar_last_error();
    struct stat segment {};
    EXPECT_EQ(::fstat(descriptor.segment.fd, &segment), 0);
    const uint64_t taken = static_cast<uint64_t>(segment.st_blocks) * 512;
    const uint64_t rings = protocol::RingLayout{kMib, {world, 8}}.total_bytes();
    const bool may_have_nodes = linked_nodes();  // then one host has room for the rings of several
    EXPECT_GE(taken, rings);
    EXPECT_LE(taken, rings + kMib / 8 + (may_have_nodes ? 3 * kMib : 0)) << world << " ranks";
    std::printf("[ MEMORY   ] a member of %3u ranks in nodes of 8 takes %8llu bytes\n", world,
                static_cast<unsigned long long>(taken));
    EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  }
}

}  // namespace
}  // namespace nvrar::test
