// Tests of features that only GPUs have: streams, graphs, and other programs' kernels beside a group's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gpu/graph.h"
#include "support/collective_case.h"
#include "support/fused_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

#define NVRAR_TEST_NEEDS_GPU() \
  if (!on_gpu()) GTEST_SKIP() << "the backend is the CPU: NVRAR_TEST_BACKEND is not cuda"

namespace nvrar::test {
namespace {

constexpr uint8_t kUntouched = 0x5B;
constexpr uint64_t kCount = 3000;
constexpr uint64_t kBytes = kCount * sizeof(float);

// A rank's input and output on its GPU.
struct Buffers {
  explicit Buffers(int rank)
      : in(kBytes, 0), out(kBytes, kUntouched), from(rank, 0, in), to(rank, kImageRoomBytes / 2, out) {}
  bool untouched() {
    to.fetch();
    return std::all_of(out.begin(), out.end(), [](uint8_t byte) { return byte == kUntouched; });
  }
  nvrar_status all_reduce(nvrar_comm* comm, int32_t algorithm, uint64_t stream) const {
    return nvrar_all_reduce(comm, from.address(), to.address(), kCount, NVRAR_FLOAT32, NVRAR_SUM, algorithm, stream);
  }
  std::vector<uint8_t> in;
  std::vector<uint8_t> out;
  Image from;
  Image to;
};

void give_input(Buffers* buffers, const uint8_t* input) {
  std::memcpy(buffers->in.data(), input, kBytes);
  buffers->from.give();
}

// A call, the same call captured, and a chain of captured calls in which every result is the next one's input, in turns
// that never stay the same; the data is another each time.
TEST(GpuStreams, GraphsAndEagerCallsInTurnsAreExact) {
  NVRAR_TEST_NEEDS_GPU();
  for (const TestTopology& topology : {TestTopology{2, 0}, {4, 0}, {4, 2}}) {
    const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, topology.world, kPoolElements, 51, topology.ranks_per_node);
    const std::vector<int32_t> ways = algorithms(topology.world, topology.ranks_per_node);
    ThreadGroup group(topology.world, {.ring_bytes = 65536, .ranks_per_node = topology.ranks_per_node});
    group.run([&](int rank, nvrar_comm* comm) {
      Buffers buffers(rank);
      const uint64_t to = buffers.to.address();
      const uint64_t own_stream = stream_of(rank);
      ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, own_stream)), NVRAR_OK) << nvrar_last_error();
      const auto enqueue = [&](uint64_t stream) {
        ASSERT_EQ(buffers.all_reduce(comm, ways.back(), stream), NVRAR_OK) << nvrar_last_error();
      };
      const Graph one(rank, enqueue);
      const Graph chain(rank, [&](uint64_t stream) {
        enqueue(stream);
        for (int i = 0; i < 40; ++i) {  // of results that are the same on all ranks: they stay
          const int32_t way = ways[static_cast<size_t>(i) % ways.size()];
          ASSERT_EQ(nvrar_all_reduce(comm, to, to, kCount, NVRAR_FLOAT32, NVRAR_MAX, way, stream), NVRAR_OK);
        }
      });
      for (uint64_t round = 0; round < 120; ++round) {
        const uint64_t first = round * 37 % 4000;
        give_input(&buffers, pool.input(rank, first));
        for (uint64_t i = 0; i <= mix(round) % 3; ++i) {
          const uint64_t turn = mix(round * 8 + i) % 4;
          if (turn == 0) enqueue(own_stream);
          if (turn == 1) one.launch(own_stream);
          if (turn == 2) chain.launch(own_stream);
          if (turn == 3) {
            ASSERT_EQ(nvrar_barrier(comm, own_stream), NVRAR_OK) << nvrar_last_error();
            one.launch(own_stream);
          }
        }
        ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error();
        buffers.to.fetch();
        ASSERT_EQ(difference(buffers.out.data(), pool.expected(first), kBytes), "")
            << "rank " << rank << " round " << round;
        count_checked_call();
      }
    });
    if (HasFailure()) return;
  }
}

// Of the same place in messages of other sizes, by every algorithm, in a graph and eager.
TEST(BatchInvariance, OfGraphs) {
  NVRAR_TEST_NEEDS_GPU();
  constexpr uint64_t kCounts[] = {40, 1000, 4097, 60'000};
  for (const TestTopology& topology : {TestTopology{2, 0}, {4, 0}, {4, 2}}) {
    const Pool pool(NVRAR_BFLOAT16, NVRAR_SUM, topology.world, 60'000, 57, topology.ranks_per_node);
    ThreadGroup group(topology.world, {.ring_bytes = 98'304, .ranks_per_node = topology.ranks_per_node});
    group.run([&](int rank, nvrar_comm* comm) {
      const uint64_t stream = stream_of(rank);
      std::vector<uint8_t> first;
      for (const uint64_t count : kCounts) {
        std::vector<uint8_t> in(pool.input(rank, 0), pool.input(rank, 0) + 2 * count);
        std::vector<uint8_t> out(2 * count);
        const Image from(rank, 0, in);
        Image to(rank, from.end(), out);
        for (const int32_t way : algorithms(topology.world, topology.ranks_per_node)) {
          const auto call = [&](uint64_t on) {
            ASSERT_EQ(nvrar_all_reduce(comm, from.address(), to.address(), count, NVRAR_BFLOAT16, NVRAR_SUM, way, on),
                      NVRAR_OK)
                << nvrar_last_error();
          };
          const auto expect_same = [&] {
            ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error();
            to.fetch();
            if (first.empty()) first.assign(out.begin(), out.begin() + 2 * kCounts[0]);
            ASSERT_EQ(difference(out.data(), first.data(), first.size()), "")
                << count << " elements, algorithm " << way;
            count_checked_call();
          };
          call(stream);
          expect_same();
          const Graph graph(rank, call);
          for (int replay = 0; replay < 2; ++replay) {
            graph.launch(stream);
            expect_same();
          }
        }
      }
    });
    if (HasFailure()) return;
  }
}

// Replayed with other logits each time.
TEST(GpuStreams, AGraphOfATopKFindsThoseOfEveryReplay) {
  NVRAR_TEST_NEEDS_GPU();
  constexpr uint32_t kColumns = 20'000;
  constexpr uint32_t kRows = 3;
  constexpr uint32_t kBest = 50;
  for (const int world : {1, 2, 4}) {
    ThreadGroup group(world);
    group.run([&](int rank, nvrar_comm* comm) {
      std::vector<uint8_t> logits(sizeof(float) * kColumns * kRows);
      std::vector<uint8_t> chosen(sizeof(int32_t) * kRows * kBest);
      std::vector<uint8_t> greatest(sizeof(float) * kRows * kBest);
      Image input(rank, 0, logits);
      Image indices(rank, input.end(), chosen);
      Image values_of(rank, indices.end(), greatest);
      const nvrar_selection call{.size = sizeof(nvrar_selection),
                                 .data_type = NVRAR_FLOAT32,
                                 .rows = kRows,
                                 .k = kBest,
                                 .columns = kColumns,
                                 .first_index = static_cast<uint64_t>(rank) * kColumns,
                                 .input = input.address(),
                                 .values = values_of.address(),
                                 .indices = indices.address()};
      const Graph graph(
          rank, [&](uint64_t stream) { ASSERT_EQ(nvrar_top_k(comm, &call, stream), NVRAR_OK) << nvrar_last_error(); });
      for (uint64_t replay = 0; replay < 50; ++replay) {
        std::vector<int32_t> expected;
        auto* const values = reinterpret_cast<float*>(logits.data());
        std::fill(values, values + kColumns * kRows, 0.0F);
        for (uint32_t row = 0; row < kRows; ++row) {
          for (uint32_t best = 0; best < kBest; ++best) {
            // Of the columns whose number is best modulo kBest, so that no two are the same.
            const uint64_t all = static_cast<uint64_t>(world) * kColumns / kBest;
            const uint64_t place = mix((replay * kRows + row) * kBest + best) % all * kBest + best;
            expected.push_back(static_cast<int32_t>(place));
            if (place / kColumns != static_cast<uint64_t>(rank)) continue;
            values[row * kColumns + place % kColumns] = static_cast<float>(kBest - best);
          }
        }
        input.give();
        graph.launch(stream_of(rank));
        ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error();
        indices.fetch();
        values_of.fetch();
        for (uint32_t i = 0; i < kRows * kBest; ++i) {
          ASSERT_EQ(reinterpret_cast<const float*>(greatest.data())[i], static_cast<float>(kBest - i % kBest));
        }
        ASSERT_EQ(std::memcmp(chosen.data(), expected.data(), chosen.size()), 0)
            << "rank " << rank << ", replay " << replay;
        count_checked_call();
      }
    });
    if (HasFailure()) return;
  }
}

// With programmatic dependent launch, every sum but the first starts while the one before still waits for its peers.
TEST(Invariant06_ProgrammaticLaunch, AGraphOfSumsThatTakeEachOthersResultsIsExact) {
  NVRAR_TEST_NEEDS_GPU();
  constexpr int kSums = 20;
  for (const int world : {2, 4, 8}) {
    for (const int32_t algorithm : {NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT}) {
      for (const uint64_t count : {uint64_t{64}, uint64_t{3000}, uint64_t{300'000}}) {
        const std::string what = std::to_string(world) + " ranks, algorithm " + std::to_string(algorithm) + ", " +
                                 std::to_string(count) + " elements";
        ThreadGroup group(world);
        group.run([&](int rank, nvrar_comm* comm) {
          std::vector<uint8_t> bytes(count * sizeof(float));
          const auto values = std::span(reinterpret_cast<float*>(bytes.data()), count);
          Image image(rank, 0, bytes);
          const uint64_t stream = stream_of(rank);
          ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream)), NVRAR_OK) << nvrar_last_error();
          const Graph sums(rank, [&](uint64_t captured) {
            for (int i = 0; i < kSums; ++i) {
              ASSERT_EQ(nvrar_all_reduce(comm, image.address(), image.address(), count, NVRAR_FLOAT32, NVRAR_SUM,
                                         algorithm, captured),
                        NVRAR_OK);
            }
          });
          for (int round = 0; round < 10; ++round) {
            for (uint64_t i = 0; i < count; ++i)
              values[i] = static_cast<float>(1 + (i + static_cast<uint64_t>(round)) % 5);
            image.give();
            sums.launch(stream);
            ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error() << " (" << what << ")";
            image.fetch();
            for (uint64_t i = 0; i < count; ++i) {
              // Powers of two times a small number: exact.
              const double wanted =
                  std::pow(world, kSums) * static_cast<double>(1 + (i + static_cast<uint64_t>(round)) % 5);
              ASSERT_EQ(static_cast<double>(values[i]), wanted) << what << ", rank " << rank << ", element " << i;
            }
            count_checked_call();
          }
        });
        if (HasFailure()) return;
      }
    }
  }
}

// The same of layers' all-reduces, each of which normalises what the one before has given. What they must give is what
// the same calls give one by one.
TEST(Invariant06_ProgrammaticLaunch, AGraphOfFusedCallsThatTakeEachOthersResultsIsExact) {
  NVRAR_TEST_NEEDS_GPU();
  constexpr int kCalls = 20;
  for (const int world : {2, 4, 8}) {
    for (const int32_t algorithm : {NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT}) {
      for (const uint32_t rows : {1u, 5u, 40u}) {
        const FusedCase c{.algorithm = algorithm, .rows = rows, .hidden = 4096, .eps = 1e-6f};
        ThreadGroup group(world);
        group.run([&](int rank, nvrar_comm* comm) {
          std::vector<uint8_t> x(c.bytes());
          std::vector<uint8_t> h(c.bytes());
          std::vector<uint8_t> weight(c.row_bytes());
          Image x_image(rank, 0, x);
          Image h_image(rank, x_image.end(), h);
          Image weight_image(rank, h_image.end(), weight);
          const uint64_t stream = stream_of(rank);
          nvrar_fused_all_reduce call = fused_call_of(c);
          call.input = call.output = x_image.address();
          call.residual = call.residual_out = h_image.address();
          call.weight = weight_image.address();
          ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream)), NVRAR_OK) << nvrar_last_error();
          const Graph graph(rank, [&](uint64_t captured) {
            for (int i = 0; i < kCalls; ++i) {
              ASSERT_EQ(nvrar_all_reduce_fused(comm, &call, captured), NVRAR_OK) << nvrar_last_error();
            }
          });
          for (uint64_t round = 0; round < 6; ++round) {
            const FusedData data(c.data_type, world, 0, rows * c.hidden, 71 + round);
            const auto give = [&] {
              std::memcpy(x.data(), data.sums.input(rank, 0), x.size());
              std::memcpy(h.data(), data.residual.data(), h.size());
              std::memcpy(weight.data(), data.weight.data(), weight.size());
              for (Image* image : {&x_image, &h_image, &weight_image}) image->give();
            };
            give();
            for (int i = 0; i < kCalls; ++i) {
              const nvrar_status status = nvrar_all_reduce_fused(comm, &call, stream);
              ASSERT_EQ(settled(rank, comm, status), NVRAR_OK) << nvrar_last_error();
            }
            x_image.fetch();
            h_image.fetch();
            const std::vector<uint8_t> wanted_x = x;
            const std::vector<uint8_t> wanted_h = h;
            give();
            graph.launch(stream);
            ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error();
            x_image.fetch();
            h_image.fetch();
            const std::string what = describe_case(c) + " of " + std::to_string(world) + " ranks";
            ASSERT_EQ(difference(x.data(), wanted_x.data(), x.size()), "") << what << ", rank " << rank;
            ASSERT_EQ(difference(h.data(), wanted_h.data(), h.size()), "") << what << ", rank " << rank;
            count_checked_call();
          }
        });
        if (HasFailure()) return;
      }
    }
  }
}

// Rank 1 does not come, so the first launch is still there when the second one begins.
void expect_overlap_caught(const std::function<void(nvrar_comm*, const Buffers&, uint64_t, uint64_t)>& launch_both) {
  ThreadGroup group(2, {.timeout_ns = 5'000 * kMs});
  Buffers buffers(0);
  const SecondStream second(0);
  launch_both(group.comm(0), buffers, stream_of(0), second.handle());
  second.wait();
  const double begin = seconds_now();
  EXPECT_EQ(settled(0, group.comm(0), NVRAR_OK), NVRAR_MISMATCH) << "launches that overlapped were not caught";
  EXPECT_TRUE(contains(nvrar_last_error(), "launches of the group overlapped")) << nvrar_last_error();
  EXPECT_LT(seconds_now() - begin, 1);
  count_checked_call();
}

TEST(Invariant05_OneOrderOfCalls, CallsOnTwoStreamsAtOnceAreCaught) {
  NVRAR_TEST_NEEDS_GPU();
  expect_overlap_caught([](nvrar_comm* comm, const Buffers& buffers, uint64_t first, uint64_t second) {
    ASSERT_EQ(buffers.all_reduce(comm, NVRAR_ALGORITHM_ONE_SHOT, first), NVRAR_OK) << nvrar_last_error();
    ::usleep(20'000);
    // It may be detected before this call returns.
    (void)buffers.all_reduce(comm, NVRAR_ALGORITHM_TWO_SHOT, second);
  });
}

TEST(Invariant05_OneOrderOfCalls, GraphsOnTwoStreamsAtOnceAreCaught) {
  NVRAR_TEST_NEEDS_GPU();
  expect_overlap_caught([](nvrar_comm* comm, const Buffers& buffers, uint64_t first, uint64_t second) {
    const auto enqueue = [&](uint64_t stream) {
      ASSERT_EQ(buffers.all_reduce(comm, NVRAR_ALGORITHM_AUTO, stream), NVRAR_OK) << nvrar_last_error();
    };
    const Graph one(0, enqueue);
    const Graph other(0, enqueue);
    one.launch(first);
    ::usleep(20'000);
    other.launch(second);
    // Before the graphs go.
    for (const uint64_t stream : {first, second}) {
      const cuda::CurrentContext current(context_of(0));
      cuda::check(cuda::driver().cuStreamSynchronize(reinterpret_cast<cuda::Stream>(stream)), "waiting for a graph");
    }
  });
}

TEST(Invariant14_WaitsEnd, AGraphOfAFailedGroupDoesNotTouchItsOutput) {
  NVRAR_TEST_NEEDS_GPU();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 53);
  for (const int32_t way : {NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT}) {
    ThreadGroup group(2, {.timeout_ns = 3'000 * kMs});
    group.run([&](int rank, nvrar_comm* comm) {
      Buffers buffers(rank);
      give_input(&buffers, pool.input(rank, 0));
      const Graph graph(rank, [&](uint64_t stream) {
        ASSERT_EQ(buffers.all_reduce(comm, way, stream), NVRAR_OK) << nvrar_last_error();
      });
      graph.launch(stream_of(rank));
      ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error();
      buffers.to.fetch();
      ASSERT_EQ(difference(buffers.out.data(), pool.expected(0), kBytes), "");

      std::fill(buffers.out.begin(), buffers.out.end(), kUntouched);
      buffers.to.give();
      ASSERT_EQ(settled(rank, comm, nvrar_barrier(comm, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
      ::usleep(50'000);  // until all have looked
      if (rank == 1) {
        EXPECT_EQ(nvrar_abort(comm), NVRAR_OK);
      }
      ::usleep(100'000);  // until the GPU has been told
      graph.launch(stream_of(rank));
      EXPECT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_ABORTED);
      EXPECT_TRUE(buffers.untouched()) << "rank " << rank << " ran in a failed group";
      count_checked_call();
    });
  }
}

// Blocks of all ranks do not fit beside it, so some wait until it has ended; nothing waits for ever.
TEST(GpuStreams, CallsBesideAKernelThatHogsTheGpuAreExact) {
  NVRAR_TEST_NEEDS_GPU();
  for (const int world : {2, 4}) {
    constexpr uint64_t kLarge = 200'000;
    const Pool pool(NVRAR_BFLOAT16, NVRAR_SUM, world, kLarge + 64, 57);
    ThreadGroup group(world);
    const SecondStream beside(0);
    hog_gpu(0, beside, 200 * kMs);
    ::usleep(20'000);
    group.run([&](int rank, nvrar_comm* comm) {
      for (uint64_t i = 0; i < 8; ++i) {
        const int32_t way = i % 2 == 0 ? NVRAR_ALGORITHM_ONE_SHOT : NVRAR_ALGORITHM_TWO_SHOT;
        run_case(rank, world, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_BFLOAT16, NVRAR_SUM}, way, kLarge, i});
        if (HasFatalFailure()) return;
      }
    });
    beside.wait();
  }
}

// Large calls of both groups at once, in another order on every other rank; in each group some ranks are at addresses
// that are no multiple of a packet's size, and so run another kernel, whose blocks take another part of a
// multiprocessor, and all beside short kernels of somebody else.
TEST(GpuStreams, CallsOfTwoGroupsAtOnceWhoseRanksTakeDifferentKernelsAreExact) {
  NVRAR_TEST_NEEDS_GPU();
  if (exclusive_groups()) GTEST_SKIP() << "no two exclusive groups may have calls at once";
  constexpr uint64_t kLarge = uint64_t{1} << 20;  // elements, for as many blocks as a launch may have
  constexpr uint64_t kLargeBytes = 2 * kLarge;
  constexpr uint64_t kRoom = uint64_t{4} << 20;
  for (const int world : {2, 4, 8}) {
    const Pool pool(NVRAR_BFLOAT16, NVRAR_SUM, world, kLarge + 64, 61);
    ThreadGroup first(world);
    ThreadGroup second(world);
    std::deque<SecondStream> streams_beside;
    std::deque<SecondStream> streams_of_others;
    std::deque<ForeignKernel> foreign_kernels;
    for (int rank = 0; rank < world; ++rank) {  // before anything waits on a GPU: making them may wait for it
      streams_beside.emplace_back(rank);
      streams_of_others.emplace_back(rank);
      foreign_kernels.emplace_back(rank).launch(streams_of_others.back(), 1, 128, 0);
      streams_of_others.back().wait();
    }
    first.run([&](int rank, nvrar_comm* comm) {
      const SecondStream& beside = streams_beside[static_cast<size_t>(rank)];
      const SecondStream& of_others = streams_of_others[static_cast<size_t>(rank)];
      const ForeignKernel& foreign = foreign_kernels[static_cast<size_t>(rank)];
      nvrar_comm* const comms[] = {comm, second.comm(rank)};
      const uint64_t streams[] = {stream_of(rank), beside.handle()};
      std::vector<uint8_t> in[2];
      std::vector<uint8_t> out[2];
      std::vector<Image> from;
      std::vector<Image> to;
      for (uint64_t group = 0; group < 2; ++group) {
        // One rank of the first group, all but one of the second.
        const uint64_t shift = (rank == 0) == (group == 0) ? 2 : 0;
        for (std::vector<uint8_t>* const memory : {&in[group], &out[group]}) memory->resize(kLargeBytes + shift);
        from.emplace_back(rank, 2 * group * kRoom, std::span(in[group]).subspan(shift));
        to.emplace_back(rank, (2 * group + 1) * kRoom, std::span(out[group]).subspan(shift));
      }
      const auto data = [&](std::vector<uint8_t>* memory) { return memory->data() + memory->size() - kLargeBytes; };
      for (uint64_t round = 0; round < 4; ++round) {
        for (size_t group = 0; group < 2; ++group) {
          std::memcpy(data(&in[group]), pool.input(rank, round + group), kLargeBytes);
          from[group].give();
        }
        ASSERT_EQ(settled(rank, comm, NVRAR_OK), NVRAR_OK) << nvrar_last_error();  // what was given is there
        for (int i = 0; i < 100; ++i) foreign.launch(of_others, foreign.multiprocessors(), 128, 20'000);
        for (int i = 0; i < 24; ++i) {
          const int32_t way = i % 3 == 0 ? NVRAR_ALGORITHM_ONE_SHOT : NVRAR_ALGORITHM_TWO_SHOT;
          for (int turn = 0; turn < 2; ++turn) {
            const auto group = static_cast<size_t>(turn + rank) % 2;
            // Data that moves has the largest blocks; the sum that follows goes to the same place.
            const nvrar_status status = i % 4 == 1
                                            ? nvrar_broadcast(comms[group], from[group].address(), to[group].address(),
                                                              kLarge, NVRAR_BFLOAT16, 0, streams[group])
                                            : nvrar_all_reduce(comms[group], from[group].address(), to[group].address(),
                                                               kLarge, NVRAR_BFLOAT16, NVRAR_SUM, way, streams[group]);
            ASSERT_EQ(status, NVRAR_OK) << nvrar_last_error();
          }
        }
        beside.wait();
        for (size_t group = 0; group < 2; ++group) {
          ASSERT_EQ(settled(rank, comms[group], NVRAR_OK), NVRAR_OK) << nvrar_last_error();
          to[group].fetch();
          ASSERT_EQ(difference(data(&out[group]), pool.expected(round + group), kLargeBytes), "")
              << "rank " << rank << " group " << group << " round " << round;
          count_checked_call();
        }
      }
    });
    if (HasFailure()) return;
  }
}

// A rank may create a group while its call in another one waits for a peer, which makes that call only once it has
// created its member, too. So nothing that creating a group does may wait for the GPU.
TEST(GpuStreams, AGroupIsCreatedWhileACallOfAnotherWaits) {
  NVRAR_TEST_NEEDS_GPU();
  if (exclusive_groups()) GTEST_SKIP() << "no two exclusive groups may have calls at once";
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 89);
  for (const bool linked : {false, true}) {
    ThreadGroup waiting(2);
    Buffers buffers[] = {Buffers(0), Buffers(1)};
    for (int rank = 0; rank < 2; ++rank) give_input(&buffers[rank], pool.input(rank, 0));
    const auto call = [&](int rank) {
      ASSERT_EQ(buffers[rank].all_reduce(waiting.comm(rank), NVRAR_ALGORITHM_ONE_SHOT, stream_of(rank)), NVRAR_OK);
    };
    call(0);
    GroupOptions options;
    if (linked) options = {.ranks_per_node = 1, .linked = true};
    ThreadGroup created(2, options);
    EXPECT_EQ(nvrar_async_error(waiting.comm(0)), NVRAR_OK) << nvrar_last_error();
    call(1);
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(settled(rank, waiting.comm(rank), NVRAR_OK), NVRAR_OK) << nvrar_last_error();
      buffers[rank].to.fetch();
      EXPECT_EQ(difference(buffers[rank].out.data(), pool.expected(0), kBytes), "") << "rank " << rank;
      count_checked_call();
    }
    created.run([&](int rank, nvrar_comm* comm) {
      run_case(rank, 2, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kCount});
    });
  }
}

TEST(GpuStreams, ALimitThatPassesBesideAHogEndsTheGroupInOrder) {
  NVRAR_TEST_NEEDS_GPU();
  constexpr uint64_t kLarge = 200'000;
  const Pool pool(NVRAR_BFLOAT16, NVRAR_SUM, 2, kLarge, 59);
  ThreadGroup group(2, {.timeout_ns = 100 * kMs});
  const SecondStream beside(0);
  hog_gpu(0, beside, 800 * kMs);
  ::usleep(20'000);
  group.run([&](int rank, nvrar_comm* comm) {
    const CollectiveCase c{NVRAR_ALL_REDUCE, {NVRAR_BFLOAT16, NVRAR_SUM}, NVRAR_ALGORITHM_TWO_SHOT, kLarge};
    const nvrar_status status = try_case(rank, 2, comm, pool, c);
    EXPECT_TRUE(status == NVRAR_OK || status == NVRAR_TIMEOUT) << status << " " << nvrar_last_error();
    count_checked_call();
  });
  beside.wait();
  // As good as new.
  ThreadGroup next(2);
  next.run([&](int rank, nvrar_comm* comm) {
    run_case(rank, 2, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_BFLOAT16, NVRAR_SUM}, NVRAR_ALGORITHM_TWO_SHOT, kLarge});
  });
}

TEST(DestroyOnAGpu, EndsAKernelThatWaitsForAnAbsentPeer) {
  NVRAR_TEST_NEEDS_GPU();
  for (const bool by_graph : {false, true}) {
    ThreadGroup group(2, {.timeout_ns = 30'000 * kMs});
    const Buffers buffers(0);
    if (by_graph) {
      const Graph graph(0, [&](uint64_t stream) {
        ASSERT_EQ(buffers.all_reduce(group.comm(0), NVRAR_ALGORITHM_ONE_SHOT, stream), NVRAR_OK) << nvrar_last_error();
      });
      graph.launch(stream_of(0));
      ::usleep(50'000);
    } else {
      ASSERT_EQ(buffers.all_reduce(group.comm(0), NVRAR_ALGORITHM_ONE_SHOT, stream_of(0)), NVRAR_OK);
    }
    const double begin = seconds_now();
    ASSERT_EQ(nvrar_destroy(group.release(0)), NVRAR_OK) << nvrar_last_error();
    EXPECT_LT(seconds_now() - begin, 5);
    EXPECT_EQ(nvrar_async_error(group.comm(1)), NVRAR_ABORTED);
    count_checked_call();
  }
}

// What is enqueued behind other work of the caller's completes, and a capture on another stream is not broken.
TEST(DestroyOnAGpu, WaitsForItsKernelsWhileAnotherStreamCaptures) {
  NVRAR_TEST_NEEDS_GPU();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 61);
  ThreadGroup stays(2);
  ThreadGroup goes(2);
  Buffers buffers[] = {Buffers(0), Buffers(1)};
  const SecondStream beside[] = {SecondStream(0), SecondStream(1)};
  for (int rank = 0; rank < 2; ++rank) give_input(&buffers[rank], pool.input(rank, 0));
  hog_gpu(0, beside[0], 400 * kMs);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(buffers[rank].all_reduce(goes.comm(rank), NVRAR_ALGORITHM_TWO_SHOT, beside[rank].handle()), NVRAR_OK);
  }
  const Graph graph(0, [&](uint64_t stream) {
    std::thread other([&] { EXPECT_EQ(nvrar_destroy(goes.release(1)), NVRAR_OK) << nvrar_last_error(); });
    EXPECT_EQ(nvrar_destroy(goes.release(0)), NVRAR_OK) << nvrar_last_error();
    other.join();
    ASSERT_EQ(nvrar_barrier(stays.comm(0), stream), NVRAR_OK) << nvrar_last_error();
  });
  for (int rank = 0; rank < 2; ++rank) {
    beside[rank].wait();
    buffers[rank].to.fetch();
    EXPECT_EQ(difference(buffers[rank].out.data(), pool.expected(0), kBytes), "") << "rank " << rank;
    count_checked_call();
  }
  graph.launch(stream_of(0));
  ASSERT_EQ(nvrar_barrier(stays.comm(1), stream_of(1)), NVRAR_OK);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(settled(rank, stays.comm(rank), NVRAR_OK), NVRAR_OK);
}

// The legacy stream would.
TEST(GpuStreams, AGroupThatComesAndGoesBreaksNoCaptureOnABlockingStream) {
  NVRAR_TEST_NEEDS_GPU();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 83);
  ThreadGroup stays(2);
  const SecondStream blocking(0, SecondStream::kBlocking);
  const Graph graph(0, blocking.handle(), [&](uint64_t stream) {
    ASSERT_EQ(nvrar_barrier(stays.comm(0), stream), NVRAR_OK) << nvrar_last_error();
    std::thread([&] {
      ThreadGroup goes(2);
      goes.run([&](int rank, nvrar_comm* comm) {
        run_case(rank, 2, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kCount});
      });
    }).join();
  });
  graph.launch(stream_of(0));
  ASSERT_EQ(nvrar_barrier(stays.comm(1), stream_of(1)), NVRAR_OK);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(settled(rank, stays.comm(rank), NVRAR_OK), NVRAR_OK);
}

TEST(DestroyOnAGpu, SucceedsBesideTheCallersOwnLongWork) {
  NVRAR_TEST_NEEDS_GPU();
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, 2, kPoolElements, 67);
  ThreadGroup group(2);
  group.run([&](int rank, nvrar_comm* comm) {
    run_case(rank, 2, comm, pool, {NVRAR_ALL_REDUCE, {NVRAR_FLOAT32, NVRAR_SUM}, NVRAR_ALGORITHM_AUTO, kCount});
  });
  const SecondStream beside(0);
  hog_gpu(0, beside, 11'000 * kMs);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(nvrar_destroy(group.release(rank)), NVRAR_OK) << nvrar_last_error();
  beside.wait();
}

// Against the words of nvrar.h, but safe: the driver frees nothing before.
TEST(DestroyOnAGpu, OfAGroupWhoseGraphHasNotBegunLeavesItsOutputAsItWas) {
  NVRAR_TEST_NEEDS_GPU();
  ThreadGroup group(2);
  Buffers buffers(0);
  const SecondStream behind(0);
  const Graph graph(0, [&](uint64_t stream) {
    ASSERT_EQ(buffers.all_reduce(group.comm(0), NVRAR_ALGORITHM_ONE_SHOT, stream), NVRAR_OK) << nvrar_last_error();
  });
  hog_gpu(0, behind, 800 * kMs);
  graph.launch(behind.handle());
  ASSERT_EQ(nvrar_destroy(group.release(0)), NVRAR_OK) << nvrar_last_error();
  behind.wait();
  EXPECT_TRUE(buffers.untouched());
  count_checked_call();
}

}  // namespace
}  // namespace nvrar::test
