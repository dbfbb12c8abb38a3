// Top-k over ranks with all ranks as threads of one process, beside a reference that sorts whole rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "protocol/element.h"
#include "support/abi.h"
#include "support/collective_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr int32_t kFloatTypes[] = {NVRAR_BFLOAT16, NVRAR_FLOAT16, NVRAR_FLOAT32};
constexpr uint8_t kUntouched = 0x5B;

uint32_t size_of(int32_t type) { return type == NVRAR_FLOAT32 ? 4 : 2; }

float number_of(int32_t type, uint32_t bits) {
  if (type == NVRAR_FLOAT32) return protocol::bits_float(bits);
  const auto low = static_cast<uint16_t>(bits);
  return type == NVRAR_FLOAT16 ? protocol::Float16::widen(low) : protocol::Bfloat16::widen(low);
}
uint32_t nan_of(int32_t type) { return type == NVRAR_FLOAT32 ? protocol::Float32::kNan : protocol::Float16::kNan; }
uint32_t minus_infinity_of(int32_t type) {
  return type == NVRAR_FLOAT32 ? 0xFF800000u : type == NVRAR_FLOAT16 ? 0xFC00u : 0xFF80u;
}

enum class Data { kFewValues, kAnyBits, kRising, kSomeNans };

struct TopKCase {
  int32_t type = NVRAR_FLOAT32;
  uint32_t rows = 1;
  uint32_t k = 1;
  Data data = Data::kFewValues;
  std::vector<uint32_t> columns;  // of each rank
  uint64_t seed = 0;

  uint32_t first(int rank) const { return std::accumulate(columns.begin(), columns.begin() + rank, 7u); }
  uint64_t row_of(uint64_t row) const { return seed * 100'003 + row; }
  uint32_t bits_at(uint64_t row, uint32_t index) const {
    const uint64_t random = mix(row_of(row) << 24 ^ index);
    const uint32_t mask = type == NVRAR_FLOAT32 ? ~0u : 0xFFFFu;
    const auto bits = static_cast<uint32_t>(random >> 8) & mask;
    const bool nan = std::isnan(number_of(type, bits));
    switch (data) {
      case Data::kFewValues: {
        constexpr uint32_t kValues[] = {0, 1, 2, 3};  // -0, +0, 1 and 1.5, or as near
        const uint32_t one = type == NVRAR_FLOAT32 ? 0x3F800000u : type == NVRAR_FLOAT16 ? 0x3C00u : 0x3F80u;
        const uint32_t of[] = {(mask >> 1) + 1, 0, one, one + one / 100};
        return of[kValues[random % 4]];
      }
      case Data::kAnyBits:
        return nan ? 0 : bits;
      case Data::kRising:  // worse for whoever keeps the best ones so far
        return (type == NVRAR_FLOAT32 ? 0x3F000000u : 0x3000u) + index / (type == NVRAR_FLOAT32 ? 1 : 16);
      case Data::kSomeNans:
        return nan && random % 64 != 0 ? 0 : bits;
    }
    return 0;
  }
};

struct TopKResult {
  std::vector<uint8_t> values;
  std::vector<int32_t> indices;
};

TopKResult reference(const TopKCase& c) {
  struct Entry {
    float number;
    uint32_t bits;
    uint32_t index;
  };
  TopKResult result;
  const auto put = [&](uint32_t bits, int32_t index) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&bits);
    result.values.insert(result.values.end(), bytes, bytes + size_of(c.type));
    result.indices.push_back(index);
  };
  std::vector<Entry> row;
  const uint32_t begin = c.first(0);
  const uint32_t end = c.first(static_cast<int>(c.columns.size()));
  for (uint32_t r = 0; r < c.rows; ++r) {
    row.clear();
    bool nan = false;
    for (uint32_t index = begin; index < end; ++index) {
      const uint32_t bits = c.bits_at(r, index);
      row.push_back({number_of(c.type, bits), bits, index});
      nan = nan || std::isnan(row.back().number);
    }
    std::stable_sort(row.begin(), row.end(), [&](const Entry& a, const Entry& b) {
      if (a.number != b.number) return a.number > b.number;
      return std::signbit(b.number) && !std::signbit(a.number);
    });
    for (uint32_t i = 0; i < c.k; ++i) {
      if (nan) {
        put(nan_of(c.type), -1);
      } else if (i >= row.size()) {
        put(minus_infinity_of(c.type), -1);
      } else {
        put(row[i].bits, static_cast<int32_t>(row[i].index));
      }
    }
  }
  return result;
}

// A rank's buffers. Their distances from a boundary follow the seed.
struct TopKBuffers {
  TopKBuffers(int rank, const TopKCase& c)
      : columns(c.columns[static_cast<size_t>(rank)]),
        input(uint64_t{c.rows} * columns * size_of(c.type), c.seed % 5 * size_of(c.type)),
        values(uint64_t{c.rows} * c.k * size_of(c.type), c.seed % 3 * size_of(c.type)),
        indices(uint64_t{c.rows} * c.k * sizeof(int32_t), c.seed % 7 * sizeof(int32_t)) {
    for (uint64_t row = 0; row < c.rows; ++row) {
      for (uint32_t column = 0; column < columns; ++column) {
        const uint32_t bits = c.bits_at(row, c.first(rank) + column);
        std::memcpy(input.data() + (row * columns + column) * size_of(c.type), &bits, size_of(c.type));
      }
    }
    std::memset(values.data(), kUntouched, uint64_t{c.rows} * c.k * size_of(c.type));
  }
  uint32_t columns;
  GuardedBuffer input;
  GuardedBuffer values;
  GuardedBuffer indices;
};

void run_case(int rank, nvrar_comm* comm, const TopKCase& c, const TopKResult& expected, bool with_values = true) {
  TopKBuffers buffers(rank, c);
  const Image input(rank, 0, &buffers.input);
  Image values(rank, input.end(), &buffers.values);
  Image indices(rank, values.end(), &buffers.indices);
  const nvrar_selection selection{.size = sizeof(nvrar_selection),
                                  .data_type = c.type,
                                  .rows = c.rows,
                                  .k = c.k,
                                  .columns = buffers.columns,
                                  .first_index = c.first(rank),
                                  .input = buffers.columns == 0 ? 0 : input.address(buffers.input.data()),
                                  .values = with_values ? values.address(buffers.values.data()) : 0,
                                  .indices = indices.address(buffers.indices.data())};
  ASSERT_EQ(settled(rank, comm, nvrar_top_k(comm, &selection, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
  values.fetch();
  indices.fetch();
  const std::string what = "rank " + std::to_string(rank) + ", type " + std::to_string(c.type) + ", " +
                           std::to_string(c.rows) + " rows of " + std::to_string(buffers.columns) + ", k " +
                           std::to_string(c.k) + ", data " + std::to_string(static_cast<int>(c.data));
  const uint64_t places = uint64_t{c.rows} * c.k;
  ASSERT_EQ(difference(buffers.indices.data(), reinterpret_cast<const uint8_t*>(expected.indices.data()),
                       places * sizeof(int32_t)),
            "")
      << "indices of " << what;
  const std::vector<uint8_t> untouched(places * size_of(c.type), kUntouched);
  const std::vector<uint8_t>& values_expected = with_values ? expected.values : untouched;
  ASSERT_EQ(difference(buffers.values.data(), values_expected.data(), values_expected.size()), "")
      << "values of " << what;
  ASSERT_TRUE(buffers.values.guards_intact() && buffers.indices.guards_intact()) << what;
  count_checked_call();
}

class TopKOverRanks : public ::testing::TestWithParam<TestTopology> {};

TEST_P(TopKOverRanks, IsThatOfTheWholeRow) {
  const auto [world, ranks_per_node] = GetParam();
  ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
  constexpr uint32_t kKs[] = {1, 2, 5, 40, 64, 333, 1024};
  constexpr uint32_t kColumns[] = {0, 1, 3, 31, 256, 1000, 1536, 5000, 9000, 70'000};
  std::vector<std::pair<TopKCase, TopKResult>> cases;
  const uint64_t count = repetitions(120);
  for (uint64_t number = 0; number < count; ++number) {
    const uint64_t random = mix(number + 1000 * static_cast<uint64_t>(world));
    TopKCase c;
    c.type = kFloatTypes[number % 3];
    c.k = kKs[random % std::size(kKs)];
    c.data = static_cast<Data>(random >> 8 & 3);
    c.seed = number;
    uint64_t all = 0;
    for (int rank = 0; rank < world; ++rank) {
      c.columns.push_back(kColumns[mix(random + static_cast<uint64_t>(rank)) % std::size(kColumns)]);
      all += c.columns.back();
    }
    c.rows = static_cast<uint32_t>(std::min<uint64_t>(1 + (random >> 16) % 40, 1 + 60'000 / (all + 1)));
    cases.emplace_back(c, reference(c));
  }
  group.run([&](int rank, nvrar_comm* comm) {
    for (const auto& [c, expected] : cases) {
      run_case(rank, comm, c, expected, c.seed % 4 != 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(OneNode, TopKOverRanks, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, TopKOverRanks, ::testing::ValuesIn(kNodes));

TEST(TopK, OfAMillionRowsWithTiesIsTheReference) {
  constexpr uint32_t kRowsOfACall = 10'000;
  ThreadGroup group(2);
  for (uint64_t call = 0; call < repetitions(100); ++call) {
    const TopKCase c{.type = kFloatTypes[call % 3],
                     .rows = kRowsOfACall,
                     .k = 1 + static_cast<uint32_t>(call % 2) * 4,
                     .data = call % 5 == 4 ? Data::kSomeNans : Data::kFewValues,
                     .columns = {12, 9},
                     .seed = call};
    const TopKResult expected = reference(c);
    group.run([&](int rank, nvrar_comm* comm) { run_case(rank, comm, c, expected); });
    if (HasFailure()) return;
  }
}

// A selection that a call takes, of the rank's first bytes of memory.
struct Selection {
  explicit Selection(int rank) : memory(4096, 0), image(rank, 0, memory) {
    call = {.size = sizeof call,
            .data_type = NVRAR_FLOAT32,
            .rows = 2,
            .k = 4,
            .columns = 8,
            .first_index = static_cast<uint64_t>(rank) * 8,
            .input = image.address(memory.data()),
            .values = image.address(memory.data() + 1024),
            .indices = image.address(memory.data() + 2048)};
  }
  std::vector<uint8_t> memory;
  Image image;
  nvrar_selection call;
};

TEST(TopK, OfAnotherShapeOnARankIsAMismatch) {
  struct Shape {
    uint32_t rows;
    uint32_t k;
    int32_t type = NVRAR_FLOAT32;
  };
  // The third one is as many keys as that of rank 0, and so is the first part of the last one, which rank 0 has in two.
  for (const Shape& shape : {Shape{1, 4}, {2, 3}, {4, 2}, {2, 4, NVRAR_BFLOAT16}, {8, 1024}}) {
    ThreadGroup group(2);
    group.run([&](int rank, nvrar_comm* comm) {
      std::vector<uint8_t> room(256 << 10, 0);
      const Image image(rank, 4096, room);
      Selection selection(rank);
      if (shape.k == 1024) {
        selection.call.rows = 16;
        selection.call.k = 1024;
        selection.call.columns = 1;
        selection.call.values = image.address();
        selection.call.indices = image.address() + (128 << 10);
      }
      if (rank == 1) {
        selection.call.rows = shape.rows;
        selection.call.k = shape.k;
        selection.call.data_type = shape.type;
      }
      const nvrar_status status = settled(rank, comm, nvrar_top_k(comm, &selection.call, stream_of(rank)));
      EXPECT_EQ(status, NVRAR_MISMATCH) << nvrar_last_error();
    });
  }
}

// As replicated logits have them: each of these columns counts, and no place is left as it was.
TEST(TopK, OfColumnsThatSeveralRanksHaveHasThemSeveralTimes) {
  for (const uint32_t k : {2u, 3u, 5u, 300u}) {
    ThreadGroup group(3);
    group.run([&](int rank, nvrar_comm* comm) {
      constexpr uint32_t kColumns = 2000;
      std::vector<uint8_t> logits(kColumns * sizeof(float));
      for (uint32_t i = 0; i < kColumns; ++i) reinterpret_cast<float*>(logits.data())[i] = static_cast<float>(i / 4);
      std::vector<uint8_t> chosen(k * sizeof(int32_t), kUntouched);
      const Image input(rank, 0, logits);
      Image indices(rank, input.end(), chosen);
      const nvrar_selection call{.size = sizeof(nvrar_selection),
                                 .data_type = NVRAR_FLOAT32,
                                 .rows = 1,
                                 .k = k,
                                 .columns = kColumns,
                                 .first_index = 0,
                                 .input = input.address(),
                                 .values = 0,
                                 .indices = indices.address()};
      ASSERT_EQ(settled(rank, comm, nvrar_top_k(comm, &call, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
      indices.fetch();
      const auto* const got = reinterpret_cast<const int32_t*>(chosen.data());
      for (uint32_t i = 0; i < k; ++i) {
        const uint32_t place = i / 3;  // of the distinct columns, each of which is there three times
        ASSERT_EQ(got[i], static_cast<int32_t>(kColumns - 4 - place / 4 * 4 + place % 4))
            << "rank " << rank << ", place " << i;
      }
    });
    if (HasFailure()) return;
  }
}

TEST(TopK, AndAnAllGatherOfAsManyKeysAreAMismatch) {
  ThreadGroup group(2);
  group.run([&](int rank, nvrar_comm* comm) {
    Selection selection(rank);
    const nvrar_status status = rank == 0 ? nvrar_top_k(comm, &selection.call, stream_of(rank))
                                          : nvrar_all_gather(comm, selection.call.input, selection.call.values, 8,
                                                             NVRAR_INT64, stream_of(rank));
    EXPECT_EQ(settled(rank, comm, status), NVRAR_MISMATCH) << nvrar_last_error();
    EXPECT_TRUE(contains(nvrar_last_error(), "allGather #1 int64[2 x 4]")) << nvrar_last_error();
  });
}

TEST(TopK, IsRefusedInASentenceAndTheGroupStaysAsItIs) {
  struct Wrong {
    void (*make)(nvrar_selection*);
    const char* sentence;
  };
  const Wrong wrongs[] = {
      {[](nvrar_selection* s) { s->data_type = NVRAR_INT32; },
       "a top-k is of bfloat16, float16 or float32, and the elements are int32"},
      {[](nvrar_selection* s) { s->data_type = 99; },
       "a top-k is of bfloat16, float16 or float32, and the elements are type 99"},
      {[](nvrar_selection* s) { s->k = 0; }, "k is 0, must be 1 to 1024"},
      {[](nvrar_selection* s) { s->k = 1025; }, "k is 1025, must be 1 to 1024"},
      {[](nvrar_selection* s) { s->first_index = (uint64_t{1} << 31) - 7; },
       "the indices of 8 columns from 2147483641 on reach past those of an int32"},
      {[](nvrar_selection* s) { s->columns = ~uint64_t{0}; },
       "the indices of 18446744073709551615 columns from 0 on reach past those of an int32"},
      {[](nvrar_selection* s) {
         s->columns = uint64_t{1} << 31;
         s->rows = 1u << 31;
       },
       "2147483648 rows of 2147483648 columns do not fit into the address space"},
      {[](nvrar_selection* s) { s->input = 0; }, "input is null"},
      {[](nvrar_selection* s) { s->indices = 0; }, "indices is null"},
      {[](nvrar_selection* s) { s->indices += 2; }, "indices is not aligned to the element's 4 bytes"},
      {[](nvrar_selection* s) { s->values += 2; }, "values is not aligned to the element's 4 bytes"},
      {[](nvrar_selection* s) { s->values = s->indices; }, "values and indices overlap"},
      {[](nvrar_selection* s) { s->indices = s->input + 60; }, "input and indices overlap"},
      {[](nvrar_selection* s) { s->values = s->input; }, "input and values overlap"},
      {[](nvrar_selection* s) { s->size = 8; }, "selection.size is 8"},
  };
  ThreadGroup group(2);
  group.run([&](int rank, nvrar_comm* comm) {
    Selection selection(rank);
    for (const Wrong& wrong : wrongs) {
      nvrar_selection call = Selection(0).call;
      wrong.make(&call);
      EXPECT_EQ(nvrar_top_k(comm, &call, stream_of(rank)), NVRAR_INVALID_ARGUMENT);
      EXPECT_TRUE(contains(nvrar_last_error(), wrong.sentence)) << nvrar_last_error() << "\n" << wrong.sentence;
    }
    EXPECT_EQ(nvrar_top_k(comm, nullptr, stream_of(rank)), NVRAR_INVALID_ARGUMENT);
    selection.call.rows = 0;
    EXPECT_EQ(nvrar_top_k(comm, &selection.call, stream_of(rank)), NVRAR_OK) << nvrar_last_error();
    selection.call.rows = 2;
    EXPECT_EQ(settled(rank, comm, nvrar_top_k(comm, &selection.call, stream_of(rank))), NVRAR_OK) << nvrar_last_error();
  });
}

}  // namespace
}  // namespace nvrar::test
