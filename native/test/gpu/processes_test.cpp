// Ranks as processes, each on a GPU of its own, of which one is killed or stopped in the middle of its calls, on one
// host and on hosts of one rank each. Two processes on one GPU take turns, so that a kernel cannot meet the other's:
// the tests need two GPUs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>

#include "gpu/graph.h"
#include "support/collective_case.h"
#include "support/fused_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kCount = 4096;
constexpr uint64_t kBytes = kCount * sizeof(float);
constexpr uint64_t kTimeoutNs = 500 * kMs;
constexpr int kCallsOfGraph = 160;

void skip_unless_two_gpus() {
  if (!on_gpu()) GTEST_SKIP() << "the backend is the CPU: NVRAR_TEST_BACKEND is not cuda";
  if (gpu_of(1) == 0) GTEST_SKIP() << "there are fewer than 2 GPUs: NVRAR_TEST_GPUS";
}

void expect_idle_gpu(int rank) {
  const cuda::CurrentContext current(context_of(rank));
  EXPECT_EQ(cuda::driver().cuStreamQuery(reinterpret_cast<cuda::Stream>(stream_of(rank))), cuda::kSuccess);
}

// Contexts take longer to make than the limit.
void meet(int rank, int world, Board* board) {
  (void)context_of(rank);
  ++board->ready;
  while (board->ready < world) ::usleep(200);
}

// What a graph of many sums is captured from.
auto sums_of(nvrar_comm* comm, const Image& from, const Image& to) {
  return [comm, &from, &to](uint64_t stream) {
    for (int i = 0; i < kCallsOfGraph; ++i) {
      ASSERT_EQ(nvrar_all_reduce(comm, from.address(), to.address(), kCount, NVRAR_FLOAT32, NVRAR_SUM,
                                 NVRAR_ALGORITHM_AUTO, stream),
                NVRAR_OK)
          << nvrar_last_error();
    }
  };
}

struct KilledCase {
  int32_t memory;
  bool linked;
};
void PrintTo(const KilledCase& c, std::ostream* out) {
  *out << (c.linked ? "hosts" : c.memory == NVRAR_MEMORY_IPC ? "IPC" : "any memory");
}

class KilledRankOnGpus : public ::testing::TestWithParam<KilledCase> {
 protected:
  void SetUp() override { skip_unless_two_gpus(); }
  static int world() { return std::clamp(std::atoi(std::getenv("NVRAR_TEST_GPUS")), 2, 8); }

  // What the survivors have at the end: in time, with the name of the dead, and a GPU on which nothing runs.
  static void expect_lost(int rank, nvrar_comm* comm, nvrar_status status, double last_good) {
    // A connection that ends tells sooner than the limit.
    const bool linked = GetParam().linked;
    const nvrar_status expected = linked ? NVRAR_PEER_LOST : NVRAR_TIMEOUT;
    EXPECT_EQ(status, expected) << nvrar_last_error();
    EXPECT_LT(seconds_now() - last_good, linked ? 1.0 : 2.0);
    EXPECT_TRUE(contains(nvrar_last_error(), linked ? "lost its connection to rank 1" : "without rank 1"))
        << nvrar_last_error();
    expect_idle_gpu(rank);
    EXPECT_EQ(nvrar_barrier(comm, stream_of(rank)), expected) << "a failed group gives no more results";
    count_checked_call();
  }
  // `wrong` says how the results of a replay differ from those expected; "" for not at all.
  static void replay_until_lost(int rank, nvrar_comm* comm, Board* board, const Graph& graph,
                                const std::function<std::string()>& wrong) {
    nvrar_status status = NVRAR_OK;
    double last_good = 0;
    while (status == NVRAR_OK) {
      last_good = seconds_now();
      graph.launch(stream_of(rank));
      status = settled(rank, comm, NVRAR_OK);
      if (status != NVRAR_OK) break;
      ASSERT_EQ(wrong(), "");
      ++board->marks[rank];
    }
    expect_lost(rank, comm, status, last_good);
  }
  static void kill_one(const ProcessBody& body) {
    const auto begin = [&](int rank, nvrar_comm* comm, Board* board) {
      meet(rank, world(), board);
      body(rank, comm, board);
    };
    GroupOptions options{.timeout_ns = kTimeoutNs, .memory = GetParam().memory, .linked = GetParam().linked};
    if (options.linked) options.ranks_per_node = 1;
    ProcessGroup group(world(), options, begin);
    std::vector<int> ranks;
    for (int rank = 0; rank < world(); ++rank) ranks.push_back(rank);
    ASSERT_TRUE(group.wait_marks(ranks, 30, 60));
    group.send_signal(1, SIGKILL);
    EXPECT_TRUE(group.join(30, 1));
  }
};

TEST_P(KilledRankOnGpus, InACallEndsTheOthersInTime) {
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world(), kPoolElements, 61);
  kill_one([&](int rank, nvrar_comm* comm, Board* board) {
    nvrar_status status = NVRAR_OK;
    double last_good = 0;
    for (uint64_t i = 0; status == NVRAR_OK; ++i) {
      last_good = seconds_now();
      // Hosts have no two-shot.
      const int32_t way = i % 2 == 0          ? NVRAR_ALGORITHM_ONE_SHOT
                          : GetParam().linked ? NVRAR_ALGORITHM_AUTO
                                              : NVRAR_ALGORITHM_TWO_SHOT;
      status =
          try_case(rank, world(), comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, way, kCount, i % 1000});
      ++board->marks[rank];
    }
    expect_lost(rank, comm, status, last_good);
  });
}

TEST_P(KilledRankOnGpus, InAGraphOfManyCallsEndsTheOthersInTime) {
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, world(), kCount, 63);
  kill_one([&](int rank, nvrar_comm* comm, Board* board) {
    std::vector<uint8_t> in(pool.input(rank, 0), pool.input(rank, 0) + kBytes);
    std::vector<uint8_t> out(kBytes);
    const Image from(rank, 0, in);
    Image to(rank, kImageRoomBytes / 2, out);
    const Graph graph(rank, sums_of(comm, from, to));
    replay_until_lost(rank, comm, board, graph, [&] {
      to.fetch();
      return difference(out.data(), pool.expected(0), kBytes);
    });
  });
}

TEST_P(KilledRankOnGpus, InAGraphOfFusedCallsEndsTheOthersInTime) {
  const FusedCase c{.rows = 3, .hidden = kCount, .eps = 1e-6f};
  const FusedData data(c.data_type, world(), 0, c.rows * c.hidden, 67);
  const FusedResult expected = fused_reference(c, data);
  kill_one([&](int rank, nvrar_comm* comm, Board* board) {
    std::vector<uint8_t> in(data.sums.input(rank, 0), data.sums.input(rank, 0) + c.bytes());
    std::vector<uint8_t> residual = data.residual;
    std::vector<uint8_t> weight = data.weight;
    std::vector<uint8_t> h(c.bytes());
    std::vector<uint8_t> out(c.bytes());
    const Image from(rank, 0, in);
    const Image addend(rank, from.end(), residual);
    const Image scale(rank, addend.end(), weight);
    const Image h_to(rank, scale.end(), h);
    Image to(rank, h_to.end(), out);
    nvrar_fused_all_reduce call = fused_call_of(c);
    call.input = from.address();
    call.residual = addend.address();
    call.weight = scale.address();
    call.residual_out = h_to.address();
    call.output = to.address();
    const Graph graph(rank, [&](uint64_t stream) {
      for (int i = 0; i < kCallsOfGraph; ++i) {
        ASSERT_EQ(nvrar_all_reduce_fused(comm, &call, stream), NVRAR_OK) << nvrar_last_error();
      }
    });
    replay_until_lost(rank, comm, board, graph, [&] {
      to.fetch();
      return difference(out.data(), expected.output.data(), c.bytes());
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, KilledRankOnGpus,
                         ::testing::Values(KilledCase{NVRAR_MEMORY_IPC, false}, KilledCase{NVRAR_MEMORY_AUTO, false},
                                           KilledCase{NVRAR_MEMORY_AUTO, true}));

class StoppedRankOnHosts : public ::testing::Test {
 protected:
  void SetUp() override { skip_unless_two_gpus(); }

  // Two hosts replay a graph of sums until a replay fails or rank 0 says that it is over, while rank 1 is stopped for
  // so long, several times.
  static void stop_rank_1(uint64_t timeout_ns, int stop_ms, int stops, nvrar_status expected) {
    const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kCount, 71, 1);
    const auto body = [&](int rank, nvrar_comm* comm, Board* board) {
      meet(rank, 2, board);
      std::vector<uint8_t> in(pool.input(rank, 0), pool.input(rank, 0) + kBytes);
      std::vector<uint8_t> out(kBytes);
      std::vector<uint8_t> over(1);
      const Image from(rank, 0, in);
      Image to(rank, kImageRoomBytes / 2, out);
      const Graph graph(rank, sums_of(comm, from, to));
      nvrar_status status = NVRAR_OK;
      while (status == NVRAR_OK && over[0] == 0) {
        graph.launch(stream_of(rank));
        status = settled(rank, comm, NVRAR_OK);
        if (status != NVRAR_OK) break;
        to.fetch();
        ASSERT_EQ(difference(out.data(), pool.expected(0), kBytes), "");
        count_checked_call();
        ++board->marks[rank];
        over[0] = board->marks[7] != 0 ? 1 : 0;
        Image said(rank, kImageRoomBytes / 4, over);
        status = nvrar_broadcast(comm, said.address(), said.address(), 1, NVRAR_UINT8, 0, stream_of(rank));
        if (status == NVRAR_OK) status = settled(rank, comm, NVRAR_OK);
        said.fetch();
      }
      EXPECT_EQ(status, expected) << nvrar_last_error();
      expect_idle_gpu(rank);
      board->marks[4 + rank] = 1;
    };
    ProcessGroup group(2, {.timeout_ns = timeout_ns, .ranks_per_node = 1, .linked = true}, body);
    ASSERT_TRUE(group.wait_marks({0, 1}, 5, 60));
    for (int i = 0; i < stops; ++i) {
      group.send_signal(1, SIGSTOP);
      ::usleep(static_cast<useconds_t>(stop_ms) * 1000);
      EXPECT_EQ(group.board().marks[4], expected == NVRAR_OK ? 0 : 1) << "whether rank 0 has ended";
      group.send_signal(1, SIGCONT);
      ::usleep(20'000);
    }
    group.board().marks[7] = 1;
    EXPECT_TRUE(group.join(30));
  }
};

TEST_F(StoppedRankOnHosts, ForLessThanTheLimitOnlyDelays) { stop_rank_1(20'000 * kMs, 1'500, 2, NVRAR_OK); }

TEST_F(StoppedRankOnHosts, ForLongerEndsBothInTime) { stop_rank_1(kTimeoutNs, 2'500, 1, NVRAR_TIMEOUT); }

class IdleGroupOnHosts : public ::testing::TestWithParam<uint32_t> {};  // by the number of link threads

// After calls.
TEST_P(IdleGroupOnHosts, TakesAHundredthOfACoreForEachLinkThread) {
  if (!on_gpu()) GTEST_SKIP() << "the backend is the CPU: NVRAR_TEST_BACKEND is not cuda";
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 73, 1);
  const GroupOptions options{
      .timeout_ns = 20'000 * kMs, .ranks_per_node = 1, .linked = true, .link_threads = GetParam()};
  ProcessGroup group(2, options, [&](int rank, nvrar_comm* comm, Board* board) {
    meet(rank, 2, board);
    for (uint64_t i = 0; i < 20; ++i) {
      run_case(rank, 2, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kCount, i});
    }
    constexpr double kSeconds = 3;
    ::usleep(1'000'000);
    const std::clock_t before = std::clock();
    ::usleep(static_cast<useconds_t>(kSeconds * 1e6));
    const double cores = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / kSeconds;
    std::fprintf(stderr, "an idle member with %u link threads takes %.4f of a core\n", GetParam(), cores);
    EXPECT_LT(cores, 0.01 * GetParam());
    ++board->ready;
    while (board->ready < 4) ::usleep(1000);
  });
  EXPECT_TRUE(group.join(60));
}

INSTANTIATE_TEST_SUITE_P(LinkThreads, IdleGroupOnHosts, ::testing::Values(1, 4));

}  // namespace
}  // namespace nvrar::test
