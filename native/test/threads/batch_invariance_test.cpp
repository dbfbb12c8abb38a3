// An element's bits depend on the ranks' values and on the topology alone: not on the size of the message, the place in
// it, the algorithm, the collective, the other elements, or whether the call is fused. Results are compared with each
// other; that they are the right ones is for other tests.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "call/call.h"
#include "support/collective_case.h"
#include "support/fused_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kBlock = 40;  // elements that are part of every message

// Where the block is in a message, and the message in memory.
struct Layout {
  uint64_t count;
  uint64_t place;
  uint64_t shift;  // of the message from a boundary of 64 bytes, in elements
  bool in_place = false;
};
constexpr Layout kLayouts[] = {
    {kBlock, 0, 0},        {kBlock, 0, 1, true}, {kBlock + 1, 1, 0},        {1000, 960, 3},
    {4096, 2048, 0, true}, {4097, 2001, 5},      {20'000, 19'960, 0, true}, {20'001, 9'999, 0}};
constexpr Layout kLargeLayouts[] = {{300'000, 299'960, 0}, {1'000'003, 500'000, 1}};

// What a rank gives; around the block is something else in every message.
std::vector<uint8_t> message(const Pool& block, int rank, uint64_t size, const Layout& layout, uint64_t parts,
                             uint64_t seed) {
  std::vector<uint8_t> bytes(parts * layout.count * size);
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t random = mix(seed + i * 8 + static_cast<uint64_t>(rank));
    std::memcpy(bytes.data() + i, &random, std::min(sizeof random, bytes.size() - i));
  }
  for (uint64_t part = 0; part < parts; ++part) {
    std::memcpy(bytes.data() + (part * layout.count + layout.place) * size, block.input(rank, 0), kBlock * size);
  }
  return bytes;
}

struct Member {
  int rank;
  int world;
  nvrar_comm* comm;
  int32_t type;
  int32_t op;
  uint64_t size;  // of an element
};

// The block of the result, if the rank has one.
std::vector<uint8_t> block_of(const Member& m, const Pool& block, int32_t collective, int32_t algorithm,
                              const Layout& layout, uint64_t seed) {
  const uint64_t parts = collective == NVRAR_REDUCE_SCATTER ? static_cast<uint64_t>(m.world) : 1;
  const std::vector<uint8_t> given = message(block, m.rank, m.size, layout, parts, seed);
  GuardedBuffer in(given.size(), layout.shift * m.size);
  GuardedBuffer out(layout.count * m.size, layout.shift * m.size);
  std::memcpy(in.data(), given.data(), given.size());
  Image from(m.rank, 0, &in);
  Image to(m.rank, from.end(), &out);
  const uint64_t own = parts == 1 ? 0 : static_cast<uint64_t>(m.rank) * layout.count * m.size;
  const uint64_t send = from.address(in.data());
  const uint64_t recv = layout.in_place ? send + own : to.address(out.data());
  const uint64_t stream = stream_of(m.rank);
  const int root = m.world - 1;
  const nvrar_status status = collective == NVRAR_ALL_REDUCE
                                  ? nvrar_all_reduce(m.comm, send, recv, layout.count, m.type, m.op, algorithm, stream)
                              : collective == NVRAR_REDUCE
                                  ? nvrar_reduce(m.comm, send, recv, layout.count, m.type, m.op, root, stream)
                                  : nvrar_reduce_scatter(m.comm, send, recv, layout.count, m.type, m.op, stream);
  EXPECT_EQ(settled(m.rank, m.comm, status), NVRAR_OK) << nvrar_last_error();
  if (collective == NVRAR_REDUCE && m.rank != root) return {};
  (layout.in_place ? from : to).fetch();
  const uint8_t* const result = (layout.in_place ? in.data() + own : out.data()) + layout.place * m.size;
  count_checked_call();
  return {result, result + kBlock * m.size};
}

class BatchInvariance : public ::testing::TestWithParam<TestTopology> {};

TEST_P(BatchInvariance, OfEveryTypeAndOperator) {
  const auto [world, ranks_per_node] = GetParam();
  // Messages of some kilobytes take several launches, whose limits differ.
  ThreadGroup group(world, {.ring_bytes = 98'304, .ranks_per_node = ranks_per_node});
  uint64_t number = 0;
  for (const Reduction& reduction : reductions()) {
    const Pool block(reduction.data_type, reduction.op, world, kBlock, 17, ranks_per_node);
    ++number;
    group.run([&, world = world, ranks_per_node = ranks_per_node](int rank, nvrar_comm* comm) {
      const Member m{rank, world, comm, reduction.data_type, reduction.op, element_bytes(reduction.data_type)};
      const std::vector<uint8_t> first = block_of(m, block, NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_AUTO, kLayouts[0], 0);
      uint64_t seed = 1;
      const auto expect_same = [&](int32_t collective, int32_t algorithm, const Layout& layout) {
        seed += 1'000'000'007;
        const std::vector<uint8_t> other = block_of(m, block, collective, algorithm, layout, seed);
        if (other.empty()) return;
        ASSERT_EQ(difference(other.data(), first.data(), first.size()), "")
            << "rank " << rank << ", type " << m.type << ", op " << m.op << ", collective " << collective
            << ", algorithm " << algorithm << ", " << layout.count << " elements, the block at " << layout.place;
      };
      uint64_t turn = 0;
      for (const Layout& layout : kLayouts) {
        if (!runs_case(++turn, number)) continue;
        for (const int32_t algorithm : algorithms(world, ranks_per_node)) {
          expect_same(NVRAR_ALL_REDUCE, algorithm, layout);
        }
        expect_same(NVRAR_REDUCE, NVRAR_ALGORITHM_AUTO, layout);
        expect_same(NVRAR_REDUCE_SCATTER, NVRAR_ALGORITHM_AUTO, layout);
        if (::testing::Test::HasFatalFailure()) return;
      }
      // What models sum, also in messages of megabytes.
      if (reduction.op != NVRAR_SUM || reduction.data_type == NVRAR_FLOAT64) return;
      if (repetitions(100) < 100) return;
      for (const Layout& layout : kLargeLayouts) expect_same(NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_AUTO, layout);
    });
    if (HasFailure()) return;
  }
}

constexpr uint32_t kHidden = 1000;

// The results of one row of a fused call.
std::vector<uint8_t> row_of(const Member& m, const FusedData& data, int32_t form, int32_t algorithm, uint32_t rows,
                            uint32_t row, uint64_t seed) {
  const uint64_t row_bytes = kHidden * m.size;
  const Layout layout{uint64_t{rows} * kHidden, 0, 0};
  const auto fill = [&](const uint8_t* of_row, uint64_t salt, int rank) {
    std::vector<uint8_t> bytes = message(data.sums, rank, m.size, layout, 1, seed + salt);
    std::memcpy(bytes.data() + row * row_bytes, of_row, row_bytes);
    return bytes;
  };
  std::vector<std::vector<uint8_t>> memory = {fill(data.sums.input(m.rank, 0), 0, m.rank),
                                              fill(data.residual.data(), 1, 0),
                                              {data.weight.begin(), data.weight.begin() + static_cast<long>(row_bytes)},
                                              std::vector<uint8_t>(rows * row_bytes),
                                              std::vector<uint8_t>(rows * row_bytes),
                                              std::vector<uint8_t>(rows * (row_bytes + 127) / 128 * 4)};
  const uint64_t of_a_row[] = {0, 0, 0, row_bytes, row_bytes, (row_bytes + 127) / 128 * 4};
  std::vector<Image> images;
  for (size_t i = 0; i < memory.size(); ++i) {
    // A fused call needs multiples of 16.
    images.emplace_back(m.rank, i * (kImageRoomBytes / 8), memory[i]);
  }
  const auto address = [&](size_t i, bool used) { return used ? images[i].address(memory[i].data()) : 0; };
  const bool residual = form != NVRAR_FUSION_BIAS;
  const bool has_h = form == NVRAR_FUSION_RMS_NORM || form == NVRAR_FUSION_RMS_FOLD;
  const nvrar_fused_all_reduce call{.size = sizeof(nvrar_fused_all_reduce),
                                    .form = form,
                                    .data_type = m.type,
                                    .algorithm = algorithm,
                                    .rows = rows,
                                    .hidden = kHidden,
                                    .eps = form == NVRAR_FUSION_RMS_NORM ? 1e-6f : 0,
                                    .reserved = 0,
                                    .input = address(0, true),
                                    .residual = address(1, residual),
                                    .weight = address(2, form != NVRAR_FUSION_RESIDUAL),
                                    .residual_out = address(4, has_h),
                                    .output = address(3, true),
                                    .squares = address(5, form == NVRAR_FUSION_RMS_FOLD)};
  EXPECT_EQ(settled(m.rank, m.comm, nvrar_all_reduce_fused(m.comm, &call, stream_of(m.rank))), NVRAR_OK)
      << nvrar_last_error();
  std::vector<uint8_t> result;
  for (size_t i = 3; i < memory.size(); ++i) {
    images[i].fetch();
    const uint8_t* const begin = memory[i].data() + row * of_a_row[i];
    const bool used = i == 3 || (i == 4 && has_h) || (i == 5 && form == NVRAR_FUSION_RMS_FOLD);
    if (used) result.insert(result.end(), begin, begin + of_a_row[i]);
  }
  count_checked_call();
  return result;
}

TEST_P(BatchInvariance, OfFusedAllReduces) {
  const auto [world, ranks_per_node] = GetParam();
  if (on_gpu() && ranks_per_node != 0 && !linked_nodes()) GTEST_SKIP() << "fused calls on GPUs are for one node";
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  for (const int32_t type : kFusedTypes) {
    const FusedData data(type, world, ranks_per_node, kHidden, 23);
    // So that the result is the sum itself.
    FusedData zeros(type, world, ranks_per_node, kHidden, 23);
    std::fill(zeros.residual.begin(), zeros.residual.end(), uint8_t{0});
    group.run([&, world = world, ranks_per_node = ranks_per_node](int rank, nvrar_comm* comm) {
      const Member m{rank, world, comm, type, NVRAR_SUM, element_bytes(type)};
      uint64_t seed = 1;
      const auto expect_same = [&](const std::vector<uint8_t>& first, const FusedData& of, int32_t form,
                                   int32_t algorithm, uint32_t rows, uint32_t row) {
        const std::vector<uint8_t> other = row_of(m, of, form, algorithm, rows, row, seed += 1'000'000'007);
        ASSERT_EQ(other.size(), first.size());
        ASSERT_EQ(difference(other.data(), first.data(), first.size()), "")
            << "rank " << rank << ", type " << type << ", form " << form << ", algorithm " << algorithm << ", row "
            << row << " of " << rows;
      };
      for (const int32_t form : kForms) {
        const std::vector<uint8_t> first = row_of(m, data, form, NVRAR_ALGORITHM_AUTO, 1, 0, 0);
        for (const int32_t algorithm : algorithms(world, ranks_per_node)) {
          for (const auto& [rows, row] : {std::pair<uint32_t, uint32_t>{1, 0}, {2, 1}, {7, 3}, {33, 32}}) {
            expect_same(first, data, form, algorithm, rows, row);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
      const std::vector<uint8_t> sums(data.sums.expected(0), data.sums.expected(0) + kHidden * m.size);
      expect_same(sums, zeros, NVRAR_FUSION_RESIDUAL, NVRAR_ALGORITHM_AUTO, 7, 3);
    });
    if (HasFailure()) return;
  }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr TestTopology kInOneNode[] = {{2, 0}};
constexpr TestTopology kInNodes[] = {{4, 2}};
#else
constexpr TestTopology kInOneNode[] = {{2, 0}, {3, 0}, {8, 0}};
constexpr TestTopology kInNodes[] = {{2, 1}, {4, 2}, {5, 3}};
#endif
INSTANTIATE_TEST_SUITE_P(OneNode, BatchInvariance, ::testing::ValuesIn(kInOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, BatchInvariance, ::testing::ValuesIn(kInNodes));

}  // namespace
}  // namespace nvrar::test
