// Fused all-reduces with all ranks as threads of one process.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "call/fusion.h"
#include "support/collective_case.h"
#include "support/fused_case.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint32_t kHidden[] = {8, 24, 1000, 1024, 4096, 8192, 16384};
constexpr uint32_t kRows[] = {1, 2, 3, 17};
constexpr uint64_t kElements = uint64_t{1} << 17;  // of the data that cases take windows of
constexpr uint64_t kMostOfACase = 17 * 4096;
constexpr float kEps = 1e-6f;
constexpr uint8_t kUntouched = 0x5B;

// A group in several nodes of one host on GPUs refuses fused calls.
bool runs_in(const TestTopology& topology) { return !on_gpu() || topology.ranks_per_node == 0 || linked_nodes(); }
// With which most of the cases take several launches. On GPUs a launch has whole rows.
uint64_t tight_ring_bytes(int ranks_per_node) {
  return on_gpu() ? uint64_t{NVRAR_MAX_HIDDEN} * sizeof(float) * NVRAR_MAX_RANKS_PER_NODE
                  : small_ring_bytes(ranks_per_node);
}

struct Expected {
  FusedCase c;
  FusedResult result;
};

// Runs the cases in this order on every rank.
void run_cases(ThreadGroup* group, const FusedData& data, const std::vector<Expected>& cases) {
  group->run([&](int rank, nvrar_comm* comm) {
    for (const Expected& expected : cases) {
      run_case(rank, comm, expected.c, data, expected.result);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}
Expected expected_of(const FusedCase& c, const FusedData& data) { return {c, fused_reference(c, data)}; }

class Invariant18_FusedRows : public ::testing::TestWithParam<TestTopology> {};

// Every form and type at every shape; the small ring cuts most of them into several launches. The algorithms and the
// places of the results take the shapes in turn.
TEST_P(Invariant18_FusedRows, EveryFormGivesTheReferenceBitForBit) {
  if (!runs_in(GetParam())) GTEST_SKIP() << "fused calls on GPUs are for groups in one node";
  const auto [world, ranks_per_node] = GetParam();
  const std::vector<int32_t> ways = algorithms(world, ranks_per_node);
  ThreadGroup roomy(world, {.ranks_per_node = ranks_per_node});
  ThreadGroup tight(world, {.ring_bytes = tight_ring_bytes(ranks_per_node), .ranks_per_node = ranks_per_node});
  uint64_t turn = 0;
  uint64_t number = 0;
  for (const int32_t type : kFusedTypes) {
    const FusedData data(type, world, ranks_per_node, kElements, static_cast<uint64_t>(type));
    for (const int32_t form : kForms) {
      const auto targets = places(form);
      std::vector<Expected> cases[2];
      for (const uint32_t hidden : kHidden) {
        for (const uint32_t rows : kRows) {
          const uint64_t elements = uint64_t{rows} * hidden;
          if (elements > kMostOfACase || !runs_case(++turn, number)) continue;
          const uint64_t random = mix(turn);
          const auto [output, residual_out] = targets[random % targets.size()];
          cases[turn / kFewerCases % 2].push_back(expected_of({.form = form,
                                                               .data_type = type,
                                                               .algorithm = ways[turn / kFewerCases / 2 % ways.size()],
                                                               .rows = rows,
                                                               .hidden = hidden,
                                                               .eps = random % 5 == 0 ? 0 : kEps,
                                                               .first = (random >> 8) % (kElements - elements),
                                                               .output = output,
                                                               .residual_out = residual_out,
                                                               .distance = random >> 40},
                                                              data));
        }
      }
      ++number;
      run_cases(&roomy, data, cases[0]);
      run_cases(&tight, data, cases[1]);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OneNode, Invariant18_FusedRows, ::testing::ValuesIn(kOneNode));
INSTANTIATE_TEST_SUITE_P(Nodes, Invariant18_FusedRows, ::testing::ValuesIn(kNodes));

TEST(Invariant18_FusedRowsAlike, EveryAlgorithmAndEveryPlaceGivesTheSameBits) {
  for (const auto& [world, ranks_per_node] : {TestTopology{1, 0}, {2, 0}, {3, 0}, {4, 2}, {5, 3}}) {
    if (!runs_in({world, ranks_per_node})) continue;
    ThreadGroup group(world, {.ring_bytes = tight_ring_bytes(ranks_per_node), .ranks_per_node = ranks_per_node});
    for (const int32_t type : kFusedTypes) {
      FusedCase c{.data_type = type, .rows = 3, .hidden = 1000, .eps = kEps};
      const FusedData data(type, world, ranks_per_node, c.rows * c.hidden, 77);
      std::vector<Expected> cases;
      for (const int32_t form : kForms) {
        c.form = form;
        Expected expected = expected_of(c, data);
        for (const int32_t algorithm : algorithms(world, ranks_per_node)) {
          for (const auto& [output, residual_out] : places(form)) {
            expected.c.algorithm = algorithm;
            expected.c.output = output;
            expected.c.residual_out = residual_out;
            ++expected.c.distance;
            cases.push_back(expected);
          }
        }
      }
      run_cases(&group, data, cases);
      if (HasFailure()) return;
    }
  }
}

TEST(Invariant18_FusedRowsAlike, LargeGroupsAndNodesOfDifferentSizesGiveTheReference) {
  if (on_gpu()) GTEST_SKIP() << "groups on GPUs are not as large";
  for (const auto& [world, ranks_per_node] : {TestTopology{9, 8}, TestTopology{22, 3}}) {
    ThreadGroup group(world, {.ranks_per_node = ranks_per_node});
    for (const int32_t type : kFusedTypes) {
      const FusedData data(type, world, ranks_per_node, 4096, 5);
      std::vector<Expected> cases;
      for (const int32_t form : kForms) {
        cases.push_back(expected_of({.form = form, .data_type = type, .rows = 4, .hidden = 1000, .eps = kEps}, data));
      }
      run_cases(&group, data, cases);
      if (HasFailure()) return;
    }
  }
}

// The sums are the same on all ranks even where what is added to them is not.
TEST(Invariant18_FusedRowsAlike, RanksMayPassDifferentResidualsAndWeights) {
  constexpr int kWorld = 3;
  ThreadGroup group(kWorld);
  for (const int32_t type : kFusedTypes) {
    const FusedData common(type, kWorld, 0, 4096, 6);
    std::vector<FusedData> own(kWorld, common);
    for (int rank = 0; rank < kWorld; ++rank) {
      const FusedData other(type, kWorld, 0, 4096, 60 + static_cast<uint64_t>(rank));
      own[static_cast<size_t>(rank)].residual = other.residual;
      own[static_cast<size_t>(rank)].weight = other.weight;
    }
    group.run([&](int rank, nvrar_comm* comm) {
      for (const int32_t form : kForms) {
        const FusedCase c{.form = form, .data_type = type, .rows = 2, .hidden = 1024, .eps = kEps};
        const FusedData& data = own[static_cast<size_t>(rank)];
        run_case(rank, comm, c, data, fused_reference(c, data));
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

// The float64 computation is held against the reference, which every rank's results equal.
TEST(Invariant18_FusedRowsAlike, ErrorsAreThoseOfOneRoundingAndOfAFewInFloat32) {
  for (const int32_t form : kForms) {
    for (const int32_t type : kFusedTypes) {
      const FusedData data(type, 1, 0, kElements, 8);
      double largest = 0;
      for (const uint32_t hidden : kHidden) {
        const FusedCase c{.form = form, .data_type = type, .rows = 4, .hidden = hidden, .eps = kEps};
        largest = std::max(largest, largest_error(c, data, fused_reference(c, data)));
      }
      std::printf("[ ERROR    ] %s%s: at most %.4f ulps\n", element_type(type).name, describe_form(form).c_str(),
                  largest);
      EXPECT_LT(largest, type == NVRAR_FLOAT32 && form == NVRAR_FUSION_RMS_NORM ? 4 : 0.51);
    }
  }
}

// The data of these tests would show it if a square were added without being rounded.
TEST(Invariant18_FusedRowsAlike, ContractedAdditionsWouldShow) {
  const FusedData data(NVRAR_FLOAT32, 1, 0, kElements, NVRAR_FLOAT32);
  const FusedCase c{.form = NVRAR_FUSION_RMS_FOLD, .data_type = NVRAR_FLOAT32, .rows = 17, .hidden = 1000};
  EXPECT_NE(fused_reference(c, data).squares, fused_reference(c, data, true).squares);
}

// Rows of numbers that are none, of both zeros, and of numbers at both ends of the type.
enum Row : uint32_t {
  kNanOfARank,
  kNanOfTheResidual,
  kInfinity,
  kInfinitiesOfBothSigns,
  kNegativeZeros,
  kZeros,
  kSubnormals,
  kLargest,
  kSquaresOverflow,
  kZeroTimesInfinity,
  kSpecialRows
};
constexpr uint32_t kSpecialHidden = 200;  // the last part is not full
constexpr uint64_t kOdd = 5;              // the element of a row that is not as the others are
constexpr uint64_t kInfiniteWeight = 9;

uint64_t nan_of(int32_t type) { return type == NVRAR_FLOAT32 ? 0xFFFFFFFF : 0xFFFF; }  // an empty slot's bits, too
uint64_t sign_of(int32_t type) { return uint64_t{1} << (8 * element_bytes(type) - 1); }
uint64_t largest_of(int32_t type) {
  return type == NVRAR_FLOAT32 ? 0x7F7FFFFF : type == NVRAR_BFLOAT16 ? 0x7F7F : 0x7BFF;
}

uint64_t special_bits(int32_t type, uint64_t rank, uint64_t place, bool residual) {
  const uint64_t column = place % kSpecialHidden;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (place / kSpecialHidden) {
    case kNanOfARank:
      if (column == kOdd && rank == 1 && !residual) return nan_of(type);
      break;
    case kNanOfTheResidual:
      if (column == kOdd && residual) return nan_of(type);
      break;
    case kInfinity:
      if (column == kOdd && rank == 0 && !residual) return bits_of(type, infinity);
      break;
    case kInfinitiesOfBothSigns:
      if (column == kOdd && rank < 2 && !residual) return bits_of(type, rank == 0 ? infinity : -infinity);
      break;
    case kNegativeZeros:
      return sign_of(type);
    case kZeros:
      return column % 2 == 0 ? 0 : sign_of(type) * (rank % 2);
    case kSubnormals:
      return (mix(place * 8 + rank) & 0x5F) | (column % 3 == 0 ? sign_of(type) : 0);
    case kLargest:
      return largest_of(type);
    case kSquaresOverflow:
      return bits_of(type, type == NVRAR_FLOAT16 ? 1000.0 : 1e25);
    case kZeroTimesInfinity:
      if (column == kInfiniteWeight) return 0;
      break;
    default:
      break;
  }
  return bits_of(type, static_cast<double>(mix(place * 8 + rank) % 1000) * 0x1p-8 - 2);
}

FusedData special_data(int32_t type, int world) {
  return FusedData(
      type, world, 0, kSpecialRows * kSpecialHidden,
      [=](uint64_t rank, uint64_t place) { return special_bits(type, rank, place, false); },
      [=](uint64_t rank, uint64_t place) { return special_bits(type, rank, place, true); },
      [=](uint64_t, uint64_t place) {
        return bits_of(type, place == kInfiniteWeight ? std::numeric_limits<double>::infinity()
                                                      : 1 + static_cast<double>(place % 7) * 0.125);
      });
}

// How many elements of a row are the canonical NaN.
uint64_t nans_in(const std::vector<uint8_t>& elements, int32_t type, Row row) {
  const uint64_t size = element_bytes(type);
  const uint32_t nan = type == NVRAR_FLOAT32 ? 0x7FFFFFFF : 0x7FFF;
  uint64_t count = 0;
  for (uint64_t i = 0; i < kSpecialHidden; ++i) {
    count += std::memcmp(elements.data() + (row * kSpecialHidden + i) * size, &nan, size) == 0 ? 1 : 0;
  }
  return count;
}
bool are_zeros(const std::vector<uint8_t>& elements, int32_t type, Row row) {
  const uint64_t size = element_bytes(type);
  for (uint64_t i = 0; i < kSpecialHidden; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, elements.data() + (row * kSpecialHidden + i) * size, size);
    if (i != kInfiniteWeight && (bits & ~sign_of(type)) != 0) return false;
  }
  return true;
}

TEST(Invariant18_FusedRowsAlike, NumbersThatAreNoneZerosAndTheEndsOfATypeGiveTheReference) {
  for (const int world : {1, 2, 3}) {
    ThreadGroup group(world);
    for (const int32_t type : kFusedTypes) {
      const FusedData data = special_data(type, world);
      std::vector<Expected> cases;
      for (const int32_t form : kForms) {
        for (const float eps : {0.0f, kEps}) {
          cases.push_back(expected_of(
              {.form = form, .data_type = type, .rows = kSpecialRows, .hidden = kSpecialHidden, .eps = eps}, data));
        }
      }
      run_cases(&group, data, cases);
      if (HasFailure()) return;
    }
  }
}

// What the results above are, by the element, so that the reference is not the only one to say so.
TEST(Invariant18_FusedRowsAlike, ARowWithANanHasOneAndARowOfZerosHasNoScaleWithoutEps) {
  constexpr int kWorld = 2;
  ThreadGroup group(kWorld);
  for (const int32_t type : kFusedTypes) {
    const FusedData data = special_data(type, kWorld);
    const auto result = [&](int32_t form, float eps) {
      const Expected expected = expected_of(
          {.form = form, .data_type = type, .rows = kSpecialRows, .hidden = kSpecialHidden, .eps = eps}, data);
      run_cases(&group, data, {expected});
      return expected.result;
    };
    const FusedResult norm = result(NVRAR_FUSION_RMS_NORM, 0);
    for (const Row row : {kNanOfARank, kNanOfTheResidual, kInfinitiesOfBothSigns}) {
      EXPECT_EQ(nans_in(norm.residual_out, type, row), 1u) << row;
      EXPECT_EQ(nans_in(norm.output, type, row), kSpecialHidden) << "the row's scale is a NaN";
    }
    EXPECT_EQ(nans_in(norm.output, type, kInfinity), 2u) << "infinity times 0, and 0 times an infinite weight";
    for (const Row row : {kZeros, kNegativeZeros}) {
      EXPECT_EQ(nans_in(norm.output, type, row), kSpecialHidden) << "0 times the infinite scale of a row of zeros";
    }
    EXPECT_EQ(nans_in(norm.output, type, kSubnormals), 0u);
    EXPECT_EQ(are_zeros(norm.output, type, kSquaresOverflow), type != NVRAR_FLOAT16);
    EXPECT_EQ(nans_in(norm.output, type, kZeroTimesInfinity), 1u);

    const FusedResult with_eps = result(NVRAR_FUSION_RMS_NORM, kEps);
    for (const Row row : {kZeros, kNegativeZeros}) {
      EXPECT_EQ(nans_in(with_eps.output, type, row), 1u) << "0 times an infinite weight";
      EXPECT_TRUE(are_zeros(with_eps.output, type, row));
    }
    const FusedResult fold = result(NVRAR_FUSION_RMS_FOLD, 0);
    EXPECT_EQ(nans_in(fold.output, type, kNanOfARank), 1u) << "no other element knows of it";
    const uint64_t parts = fold.squares.size() / sizeof(uint32_t) / kSpecialRows;
    std::vector<uint32_t> squares(parts);
    std::memcpy(squares.data(), fold.squares.data(), parts * sizeof(uint32_t));  // of the first row
    EXPECT_EQ(std::count(squares.begin(), squares.end(), 0x7FFFFFFFu), 1);
  }
}

// MXCSR: the masks of all exceptions, and what else is set.
TEST(Invariant18_FusedRowsAlike, AThreadsControlWordChangesNoBitAndIsLeftAsItWas) {
  if (on_gpu()) GTEST_SKIP() << "the control word is the CPU's";
  constexpr uint32_t kMasked = 0x1F80;
  constexpr uint32_t kFlags = 0x003F;
  constexpr uint32_t kWords[] = {kMasked, kMasked | 0x8040, kMasked | 0x4000, (kMasked & ~0x0800u) | 0x2000,
                                 kMasked | 0x6000};
  for (const int world : {1, 5}) {
    ThreadGroup group(world);
    for (const int32_t type : kFusedTypes) {
      const FusedData data = special_data(type, world);
      for (const int32_t form : kForms) {
        const FusedCase c{.form = form, .data_type = type, .rows = kSpecialRows, .hidden = kSpecialHidden, .eps = kEps};
        const FusedResult expected = fused_reference(c, data);
        group.run([&](int rank, nvrar_comm* comm) {
          for (uint32_t turn = 0; turn < std::size(kWords); ++turn) {
            const uint32_t word = kWords[(static_cast<uint32_t>(rank) + turn) % std::size(kWords)];
            _mm_setcsr(word);
            run_case(rank, comm, c, data, expected);
            const uint32_t after = _mm_getcsr();
            _mm_setcsr(kMasked);
            ASSERT_EQ(after & ~kFlags, word & ~kFlags) << "rank " << rank;
            if (::testing::Test::HasFatalFailure()) return;
          }
        });
      }
    }
  }
}

// A rank's memory for a call of any form that may fail.
struct Memory {
  explicit Memory(const FusedCase& given)
      : c(given),
        bytes(given.bytes()),
        input(bytes, 0),
        residual(bytes, 0),
        weight(given.row_bytes(), 0),
        residual_out(bytes, 0),
        output(bytes, 0),
        squares(given.rows * given.parts() * sizeof(float), 0) {
    for (GuardedBuffer* buffer : {&input, &residual, &weight}) std::memset(buffer->data(), 0, size_of(*buffer));
    for (GuardedBuffer* buffer : {&residual_out, &output, &squares}) {
      std::memset(buffer->data(), kUntouched, size_of(*buffer));
    }
  }
  nvrar_fused_all_reduce call() {
    nvrar_fused_all_reduce fused = fused_call_of(c);
    fused.input = input.address();
    fused.residual = c.has_residual() ? residual.address() : 0;
    fused.weight = c.has_weight() ? weight.address() : 0;
    fused.residual_out = c.has_residual_out() ? residual_out.address() : 0;
    fused.output = output.address();
    fused.squares = c.has_squares() ? squares.address() : 0;
    return fused;
  }
  bool untouched() {
    for (GuardedBuffer* buffer : {&residual_out, &output, &squares}) {
      const uint8_t* const data = buffer->data();
      if (std::any_of(data, data + size_of(*buffer), [](uint8_t byte) { return byte != kUntouched; })) return false;
    }
    return true;
  }
  uint64_t size_of(const GuardedBuffer& buffer) const {
    return &buffer == &weight ? c.row_bytes() : &buffer == &squares ? c.rows * c.parts() * sizeof(float) : bytes;
  }

  FusedCase c;
  uint64_t bytes;
  GuardedBuffer input, residual, weight, residual_out, output, squares;
};

nvrar_call last_call(nvrar_comm* comm, int rank) {
  nvrar_call call{};
  call.size = sizeof call;
  EXPECT_EQ(nvrar_call_of(comm, rank, &call), NVRAR_OK) << nvrar_last_error();
  return call;
}

const FusedCase kUsual{.form = NVRAR_FUSION_RMS_NORM,
                       .data_type = NVRAR_FLOAT32,
                       .algorithm = NVRAR_ALGORITHM_ONE_SHOT,
                       .rows = 4,
                       .hidden = 64,
                       .eps = kEps};

// Rank 1 makes the odd call; all ranks must see it, and none may have a result.
void expect_caught(const FusedCase& usual, const FusedCase& odd, const std::string& message) {
  ThreadGroup group(3, {.ring_bytes = kSmallRingBytes, .timeout_ns = 5'000 * kMs});
  group.run([&](int rank, nvrar_comm* comm) {
    Memory memory(rank == 1 ? odd : usual);
    const nvrar_fused_all_reduce call = memory.call();
    EXPECT_EQ(nvrar_all_reduce_fused(comm, &call, 0), NVRAR_MISMATCH)
        << "rank " << rank << " was not told of " << describe_case(odd) << ": " << nvrar_last_error();
    EXPECT_STREQ(nvrar_last_error(), ("the calls of the ranks differ: " + message).c_str());
    EXPECT_TRUE(memory.untouched()) << "rank " << rank << " has a result where " << describe_case(odd) << " met "
                                    << describe_case(usual);
    count_checked_call();
  });
}

constexpr char kOthers[] = ", ranks 0, 2 in allReduce #1 float32[4 x 64] SUM + residual + RMS norm (one-shot)";

TEST(Invariant13_DifferingCallsAreCaught, InTheFormOfAFusedAllReduce) {
  if (on_gpu()) GTEST_SKIP() << "its message names no call";
  const char* const names[] = {" + residual", " + bias", "", " + residual + RMS fold"};
  for (const int32_t form : kForms) {
    if (form == kUsual.form) continue;
    FusedCase usual = kUsual;
    usual.eps = 0;  // so that only the form differs
    FusedCase odd = usual;
    odd.form = form;
    expect_caught(
        usual, odd,
        std::string("rank 1 is in allReduce #1 float32[4 x 64] SUM") + names[form - 1] + " (one-shot)" + kOthers);
  }
}

TEST(Invariant13_DifferingCallsAreCaught, InTheShapeTypeAndAlgorithmOfAFusedAllReduce) {
  if (on_gpu()) GTEST_SKIP() << "its message names no call";
  FusedCase odd = kUsual;
  odd.rows = 8;
  odd.hidden = 32;  // as many elements
  expect_caught(
      kUsual, odd,
      std::string("rank 1 is in allReduce #1 float32[8 x 32] SUM + residual + RMS norm (one-shot)") + kOthers);
  odd = kUsual;
  odd.rows = 5;
  expect_caught(
      kUsual, odd,
      std::string("rank 1 is in allReduce #1 float32[5 x 64] SUM + residual + RMS norm (one-shot)") + kOthers);
  odd = kUsual;
  odd.data_type = NVRAR_BFLOAT16;
  expect_caught(
      kUsual, odd,
      std::string("rank 1 is in allReduce #1 bfloat16[4 x 64] SUM + residual + RMS norm (one-shot)") + kOthers);
  odd = kUsual;
  odd.algorithm = NVRAR_ALGORITHM_TWO_SHOT;
  expect_caught(
      kUsual, odd,
      std::string("rank 1 is in allReduce #1 float32[4 x 64] SUM + residual + RMS norm (two-shot)") + kOthers);
}

TEST(Invariant13_DifferingCallsAreCaught, InTheEpsOfAFusedAllReduce) {
  if (on_gpu()) GTEST_SKIP() << "its message names no call";
  FusedCase odd = kUsual;
  odd.eps = std::nextafter(kEps, 1.0f);
  expect_caught(kUsual, odd,
                "ranks 0, 1, 2 are in allReduce #1 float32[4 x 64] SUM + residual + RMS norm (one-shot), which differ "
                "in eps");
}

// The two zeros are the same eps.
TEST(Invariant18_FusedRowsAlike, RanksMayPassZerosOfDifferentSigns) {
  ThreadGroup group(2);
  FusedCase c{.data_type = NVRAR_FLOAT32, .rows = 2, .hidden = 64};
  const FusedData data(c.data_type, 2, 0, c.rows * c.hidden, 8);
  const FusedResult expected = fused_reference(c, data);
  group.run([&](int rank, nvrar_comm* comm) {
    FusedCase own = c;
    own.eps = rank == 0 ? 0.0f : -0.0f;
    run_case(rank, comm, own, data, expected);
  });
}

TEST(Invariant13_DifferingCallsAreCaught, BetweenAFusedAllReduceAndAnother) {
  if (on_gpu()) GTEST_SKIP() << "its message names no call";
  ThreadGroup group(2);
  group.run([&](int rank, nvrar_comm* comm) {
    Memory memory(kUsual);
    const nvrar_fused_all_reduce call = memory.call();
    const nvrar_status status = rank == 0
                                    ? nvrar_all_reduce_fused(comm, &call, 0)
                                    : nvrar_all_reduce(comm, call.input, call.output, uint64_t{call.rows} * call.hidden,
                                                       NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_ONE_SHOT, 0);
    EXPECT_EQ(status, NVRAR_MISMATCH) << "rank " << rank;
    EXPECT_STREQ(nvrar_last_error(),
                 "the calls of the ranks differ: rank 0 is in allReduce #1 float32[4 x 64] SUM + residual + RMS norm "
                 "(one-shot), rank 1 in allReduce #1 float32[256] SUM (one-shot)");
    EXPECT_TRUE(memory.untouched()) << "rank " << rank;
    count_checked_call();
  });
}

TEST(Invariant14_WaitsEnd, AFusedAllReduceInAFailedGroupLeavesAtOnceAndDoesNotTouchItsOutputs) {
  for (const int32_t form : kForms) {
    if (on_gpu()) GTEST_SKIP() << "its outputs are in other memory";
    ThreadGroup group(3, {.timeout_ns = 5'000 * kMs});
    ASSERT_EQ(nvrar_abort(group.comm(1)), NVRAR_OK);
    group.run([&](int rank, nvrar_comm* comm) {
      FusedCase c = kUsual;
      c.form = form;
      Memory memory(c);
      const nvrar_fused_all_reduce call = memory.call();
      EXPECT_EQ(nvrar_all_reduce_fused(comm, &call, 0), NVRAR_ABORTED);
      EXPECT_TRUE(memory.untouched()) << "rank " << rank << " ran " << describe_case(c) << " in a failed group";
      count_checked_call();
    });
  }
}

TEST(Invariant14_WaitsEnd, AFusedAllReduceHasADeadline) {
  if (on_gpu()) GTEST_SKIP() << "its outputs are in other memory";
  ThreadGroup group(2, {.timeout_ns = 50 * kMs});
  Memory memory(kUsual);
  const nvrar_fused_all_reduce call = memory.call();
  EXPECT_EQ(nvrar_all_reduce_fused(group.comm(0), &call, 0), NVRAR_TIMEOUT);
  EXPECT_EQ(std::string(nvrar_last_error())
                .rfind("allReduce #1 float32[4 x 64] SUM + residual + RMS norm (one-shot) timed out after 0.", 0),
            0u)
      << nvrar_last_error();
  EXPECT_TRUE(memory.untouched());
  count_checked_call();
}

class FusedCall : public ::testing::Test {
 protected:
  void SetUp() override {
    if (on_gpu()) GTEST_SKIP() << "addresses on a GPU are other ones";
  }
  nvrar_status run(const nvrar_fused_all_reduce& call) { return nvrar_all_reduce_fused(group_.comm(0), &call, 0); }

  ThreadGroup group_{1};
  Memory memory_{kUsual};
};

TEST_F(FusedCall, ThatIsRefusedWritesNothingAndHasNoNumber) {
  const auto refused = [&](auto change) {
    nvrar_fused_all_reduce call = memory_.call();
    change(call);
    EXPECT_EQ(run(call), NVRAR_INVALID_ARGUMENT);
    count_checked_call();
    return std::string(nvrar_last_error());
  };
  using Fused = nvrar_fused_all_reduce;
  EXPECT_EQ(refused([](Fused& c) { c.reserved = 1; }), "call.reserved is not 0");
  EXPECT_EQ(refused([](Fused& c) { c.form = 5; }), "there is no form 5 of a fused all-reduce");
  EXPECT_EQ(refused([](Fused& c) { c.data_type = 3; }), "there is no data type 3");
  EXPECT_EQ(refused([](Fused& c) { c.algorithm = 9; }), "there is no algorithm 9");
  EXPECT_EQ(refused([](Fused& c) { c.algorithm = NVRAR_ALGORITHM_HIERARCHICAL; }),
            "the hierarchical algorithm needs more than one node, and this group's 1 rank is in one");
  EXPECT_EQ(refused([](Fused& c) { c.hidden = 12; }), "hidden 12 is not a multiple of 8 between 8 and 16384");
  EXPECT_EQ(refused([](Fused& c) { c.output = c.input + 16; }),
            "output and input overlap, and are not the same address");
  EXPECT_EQ(refused([](Fused& c) { c.size = 76; }),
            "call.size is 76, not one between 80 and 4096: set it to sizeof the struct");
  EXPECT_EQ(nvrar_all_reduce_fused(group_.comm(0), nullptr, 0), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(), "call is null");
  EXPECT_TRUE(memory_.untouched());
  EXPECT_EQ(run(memory_.call()), NVRAR_OK) << nvrar_last_error();
  EXPECT_FALSE(memory_.untouched());
  EXPECT_EQ(describe(last_call(group_.comm(0), 0)), "allReduce #1 float32[4 x 64] SUM + residual + RMS norm");
}

TEST_F(FusedCall, OfANewerCallerIsTakenUnlessItSaysWhatIsNotKnownHere) {
  struct {
    nvrar_fused_all_reduce known;
    uint64_t unknown;
  } newer{memory_.call(), 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(run(newer.known), NVRAR_OK) << nvrar_last_error();
  newer.unknown = 1;
  EXPECT_EQ(run(newer.known), NVRAR_INVALID_ARGUMENT);
  EXPECT_STREQ(nvrar_last_error(),
               "call sets a field that this library does not know: it has 88 bytes, this library's struct 80");
}

TEST_F(FusedCall, OfNoRowsNeedsNoBuffersAndHasANumber) {
  nvrar_fused_all_reduce call = fused_call_of(kUsual);
  call.rows = 0;
  EXPECT_EQ(run(call), NVRAR_OK) << nvrar_last_error();
  const nvrar_call record = last_call(group_.comm(0), 0);
  EXPECT_EQ(describe(record), "allReduce #1 float32[0 x 64] SUM + residual + RMS norm");
  EXPECT_EQ(record.state, NVRAR_CALL_DONE);
  call.hidden = 12;
  EXPECT_EQ(run(call), NVRAR_INVALID_ARGUMENT);
}

TEST_F(FusedCall, ItsRecordNamesTheFormAndTheRows) {
  for (const int32_t form : kForms) {
    for (const uint32_t hidden : {8u, uint32_t{NVRAR_MAX_HIDDEN}}) {
      Memory memory({.form = form, .data_type = NVRAR_FLOAT16, .rows = 2, .hidden = hidden});
      ASSERT_EQ(run(memory.call()), NVRAR_OK) << nvrar_last_error();
      const nvrar_call record = last_call(group_.comm(0), 0);
      EXPECT_EQ(record.fusion, form);
      EXPECT_EQ(record.hidden, hidden);
      EXPECT_EQ(record.count, 2 * hidden);
      EXPECT_EQ(record.op, NVRAR_SUM);
      EXPECT_EQ(record.collective, NVRAR_ALL_REDUCE);
    }
  }
  float value = 1;
  const auto address = reinterpret_cast<uint64_t>(&value);
  ASSERT_EQ(nvrar_all_reduce(group_.comm(0), address, address, 1, NVRAR_FLOAT32, NVRAR_SUM, 0, 0), NVRAR_OK);
  EXPECT_EQ(last_call(group_.comm(0), 0).fusion, 0);
  EXPECT_EQ(last_call(group_.comm(0), 0).hidden, 0u);
}

TEST_F(FusedCall, WithoutMemoryForItsSumsDoesNothingAndHasNoNumber) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process instead";
#endif
  nvrar_fused_all_reduce call = fused_call_of(kUsual);
  call.rows = std::numeric_limits<uint32_t>::max();
  call.hidden = NVRAR_MAX_HIDDEN;  // 256 TB a buffer
  call.input = call.output = uint64_t{1} << 50;
  call.residual = call.residual_out = uint64_t{2} << 50;
  call.weight = uint64_t{3} << 50;
  EXPECT_EQ(run(call), NVRAR_SYSTEM);
  EXPECT_STREQ(nvrar_last_error(), "the process is out of memory");
  EXPECT_EQ(last_call(group_.comm(0), 0).state, NVRAR_CALL_NONE);
  EXPECT_EQ(run(memory_.call()), NVRAR_OK) << nvrar_last_error();
  EXPECT_EQ(last_call(group_.comm(0), 0).sequence, 1u);
}

}  // namespace
}  // namespace nvrar::test
