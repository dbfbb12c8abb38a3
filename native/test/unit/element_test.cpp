// Element types and operators: the scalar definitions against the compiler's own types, the vector forms against them.
#include "protocol/element.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "cpu/vector_elements.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using protocol::Avg;
using protocol::Bfloat16;
using protocol::Float16;
using protocol::Float32;
using protocol::Float64;
using protocol::Int32;
using protocol::Int64;
using protocol::Int8;
using protocol::Max;
using protocol::Min;
using protocol::Packet;
using protocol::Product;
using protocol::Sum;
using protocol::Uint8;

constexpr uint32_t kPatterns = 65536;

// Rounding by definition: the nearer neighbour, the even one of two equally near.
template <class Element>
uint16_t nearest(float value, uint16_t below) {
  const auto above = static_cast<uint16_t>(below + 1);
  const double low = double{value} - double{Element::widen(below)};
  const double high = double{Element::widen(above)} - double{value};
  if (low != high) return low < high ? below : above;
  return below % 2 == 0 ? below : above;
}

TEST(Float16, EveryPatternWidensAsTheCompilerSays) {
  for (uint32_t p = 0; p < kPatterns; ++p) {
    const auto bits = static_cast<uint16_t>(p);
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(bits));
    const float got = Float16::widen(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << p;
    } else {
      ASSERT_EQ(protocol::float_bits(got), protocol::float_bits(expected)) << p;
    }
  }
}

template <class Element>
void every_pattern_survives_a_round_trip() {
  for (uint32_t p = 0; p < kPatterns; ++p) {
    const auto bits = static_cast<uint16_t>(p);
    const float value = Element::widen(bits);
    ASSERT_EQ(Element::narrow(value), std::isnan(value) ? Element::kNan : bits) << p;
  }
}
TEST(Float16, EveryPatternSurvivesARoundTrip) { every_pattern_survives_a_round_trip<Float16>(); }
TEST(Bfloat16, EveryPatternSurvivesARoundTrip) { every_pattern_survives_a_round_trip<Bfloat16>(); }

// Between each number and the next: the tie, and one float32 step on either side of it.
template <class Element>
void rounds_to_nearest_even(uint16_t largest) {
  for (uint16_t bits = 0; bits < largest; ++bits) {
    const float low = Element::widen(bits);
    const float high = Element::widen(static_cast<uint16_t>(bits + 1));
    const auto tie = static_cast<float>((double{low} + double{high}) / 2);
    for (float value : {std::nextafterf(tie, low), tie, std::nextafterf(tie, high)}) {
      const uint16_t expected = nearest<Element>(value, bits);
      ASSERT_EQ(Element::narrow(value), expected) << value;
      ASSERT_EQ(Element::narrow(-value), expected | 0x8000) << -value;
    }
  }
}
TEST(Float16, RoundsToNearestEven) { rounds_to_nearest_even<Float16>(0x7BFF); }
TEST(Bfloat16, RoundsToNearestEven) { rounds_to_nearest_even<Bfloat16>(0x7F7F); }

TEST(Float16, OverflowsToInfinityFromTheTieOn) {
  EXPECT_EQ(Float16::narrow(65519.996f), 0x7BFF);
  EXPECT_EQ(Float16::narrow(65520.0f), 0x7C00);
  EXPECT_EQ(Float16::narrow(-65520.0f), 0xFC00);
  EXPECT_EQ(Float16::narrow(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(Bfloat16, OverflowsToInfinity) {
  EXPECT_EQ(Bfloat16::narrow(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(Bfloat16::narrow(-std::numeric_limits<float>::max()), 0xFF80);
}

template <class Number>
void orders_zeros_and_passes_nan_on() {
  const Number nan = std::numeric_limits<Number>::quiet_NaN();
  for (const auto& [a, b] : {std::pair<Number, Number>{-0.0, 0.0}, {0.0, -0.0}}) {
    EXPECT_FALSE(std::signbit(Max::apply(a, b)));
    EXPECT_TRUE(std::signbit(Min::apply(a, b)));
  }
  EXPECT_TRUE(std::signbit(Max::apply(Number{-0.0}, Number{-0.0})));
  EXPECT_FALSE(std::signbit(Min::apply(Number{0.0}, Number{0.0})));
  EXPECT_EQ(Max::apply(Number{-1}, Number{2}), Number{2});
  EXPECT_EQ(Min::apply(Number{-1}, Number{2}), Number{-1});
  for (Number other : {Number{1}, Number{0}, std::numeric_limits<Number>::infinity(), nan}) {
    EXPECT_TRUE(std::isnan(Max::apply(nan, other)) && std::isnan(Max::apply(other, nan)));
    EXPECT_TRUE(std::isnan(Min::apply(nan, other)) && std::isnan(Min::apply(other, nan)));
  }
}
TEST(MaxAndMin, PassNanOnAndOrderZeros) {
  orders_zeros_and_passes_nan_on<float>();
  orders_zeros_and_passes_nan_on<double>();
}

TEST(MaxAndMin, KnowWhichIntegersHaveASign) {
  EXPECT_EQ(Max::apply(Int8::widen(0x80), Int8::widen(1)), 1);
  EXPECT_EQ(Max::apply(Uint8::widen(0x80), Uint8::widen(1)), 0x80);
  EXPECT_EQ(Min::apply(Int32::widen(0xFFFFFFFFu), Int32::widen(0x80000000u)), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(Min::apply(Int64::widen(~0ULL), Int64::widen(1)), -1);
}

TEST(Sum, StartsFromTheFirstValue) { EXPECT_EQ(Float32::narrow(Sum::apply(-0.0f, -0.0f)), 0x80000000u); }

template <class Element>
void wraps() {
  using Number = typename Element::Accumulator;
  const Number least = std::numeric_limits<Number>::min();
  const Number most = std::numeric_limits<Number>::max();
  EXPECT_EQ(Sum::apply(most, Number{1}), least);
  EXPECT_EQ(Product::apply(most, Number{2}), static_cast<Number>(-2));
  EXPECT_EQ(Product::apply(least, least), Number{0});
}
TEST(Integers, WrapInTheirOwnWidth) { wraps<Int8>(), wraps<Uint8>(), wraps<Int32>(), wraps<Int64>(); }

// A product with 1/3 would round to the neighbour.
TEST(Avg, DividesOnce) {
  EXPECT_EQ(Avg::finish(Avg::apply(Avg::apply(1.0f, 2.0f), 4.0f), 3), 7.0f / 3.0f);
  EXPECT_EQ(Avg::finish(5.0, 3), 5.0 / 3.0);
  // 2049 is no float16; its half 1024.5 is none either, and both roundings together would give 1024 + 1.
  EXPECT_EQ(Float16::narrow(Avg::finish(Avg::apply(2048.0f, 1.0f), 2)), 0x6400);
}

TEST(Floats, GiveOneNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float32::narrow(Sum::apply(infinity, -infinity)), 0x7FFFFFFFu);
  EXPECT_EQ(Float16::narrow(Product::apply(infinity, 0.0f)), 0x7FFF);
  EXPECT_EQ(Bfloat16::narrow(Float32::widen(0xFFFFFFFFu)), 0x7FFF);
  EXPECT_EQ(Float64::narrow(Float64::widen(~0ULL)), 0x7FF8000000000000u);
  EXPECT_EQ(Float64::narrow(Float64::widen(0xFFF0000000000000u)), 0xFFF0000000000000u);
}

template <class Element>
using Elements = std::array<typename Element::Bits, 16 / Element::kBytes>;

template <class Element, class Op>
Elements<Element> reduce_by_scalars(const Packet* packets, int count, uint32_t world) {
  Elements<Element> result;
  for (size_t i = 0; i < result.size(); ++i) {
    auto value = Element::widen(std::bit_cast<Elements<Element>>(packets[0])[i]);
    for (int s = 1; s < count; ++s) {
      value = Op::apply(value, Element::widen(std::bit_cast<Elements<Element>>(packets[s])[i]));
    }
    result[i] = Element::narrow(Op::finish(value, world));
  }
  return result;
}

template <class Element, class Op>
using Accumulator = cpu::VectorAccumulator<Element, Op>;

template <class Element, class Op>
void expect_vector_form_equals_scalar(const Packet* packets, int count) {
  constexpr uint32_t kWorld = 3;
  Accumulator<Element, Op> sum(packets[0]);
  for (int s = 1; s < count; ++s) sum.combine(packets[s]);
  const auto got = std::bit_cast<Elements<Element>>(sum.finish(kWorld));
  ASSERT_EQ(got, (reduce_by_scalars<Element, Op>(packets, count, kWorld)));
}

// Hands f every operator that the type has.
template <class Element, class F>
void for_every_op(F f) {
  f.template operator()<Sum>();
  f.template operator()<Product>();
  f.template operator()<Max>();
  f.template operator()<Min>();
  if constexpr (Element::kFloat) f.template operator()<Avg>();
}

// NaNs, infinities, zeros, the smallest and the largest numbers of all types, the empty slot's pattern.
constexpr uint32_t kEdges[] = {0,          0x80008000, 0x3F803F80, 0xBF80BF80, 0x7F807F80, 0xFF80FF80, 0x7FFF7FFF,
                               0xFFFFFFFF, 0x00010001, 0x80018001, 0x7BFF7BFF, 0xFBFFFBFF, 0x7F7F7F7F, 0x7C007C00,
                               0x80000000, 0x00000001, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FF00000, 0xFFF00000,
                               0x7FF00001, 0x7FEFFFFF, 0x80808080, 0x01010101, 0x80000001, 0x7FFFFFFF};
constexpr uint64_t kEdgeCount = std::size(kEdges);

Packet random_packet(uint64_t seed) {
  const uint64_t low = mix(2 * seed);
  const uint64_t high = mix(2 * seed + 1);
  const auto upper = [](uint64_t bits) { return static_cast<uint32_t>(bits >> 32); };
  return Packet{static_cast<uint32_t>(low), upper(low), static_cast<uint32_t>(high), upper(high)};
}

// Every word of edges with every other one, as halves of 64-bit numbers too, and as many random ones.
template <class Element>
void edges_and_random_words() {
  for_every_op<Element>([]<class Op>() {
    for (uint64_t n = 0; n < kEdgeCount * kEdgeCount * kEdgeCount; ++n) {
      const uint32_t a = kEdges[n % kEdgeCount];
      const uint32_t b = kEdges[n / kEdgeCount % kEdgeCount];
      const uint32_t c = kEdges[n / kEdgeCount / kEdgeCount];
      const Packet packets[] = {{a, b, c, a}, {b, c, a, a}, random_packet(n), random_packet(n + 1)};
      expect_vector_form_equals_scalar<Element, Op>(packets, 2);
      expect_vector_form_equals_scalar<Element, Op>(packets + 1, 2);
      expect_vector_form_equals_scalar<Element, Op>(packets + 2, 2);
      expect_vector_form_equals_scalar<Element, Op>(packets, 4);
      if (::testing::Test::HasFatalFailure()) FAIL() << "case " << n;
    }
  });
}

// Every pattern in every lane, with a partner from each class of numbers, as the first and as the second value.
template <class Element>
void every_half() {
  for_every_op<Element>([]<class Op>() {
    for (uint32_t p = 0; p < kPatterns; ++p) {
      const uint32_t word = p << 16 | p;
      const auto edge = [p](uint32_t i) { return kEdges[(p + i) % kEdgeCount]; };
      const Packet same = {word, word, word, word};
      const Packet packets[] = {same,
                                {edge(0), edge(7), edge(14), edge(21)},
                                random_packet(p),
                                {edge(3), edge(10), edge(17), edge(24)},
                                same};
      expect_vector_form_equals_scalar<Element, Op>(packets, 1);
      expect_vector_form_equals_scalar<Element, Op>(packets, 2);
      expect_vector_form_equals_scalar<Element, Op>(packets, 3);
      expect_vector_form_equals_scalar<Element, Op>(packets + 3, 2);
      if (::testing::Test::HasFatalFailure()) FAIL() << "pattern " << p;
    }
  });
}

// Every pair of bytes in every lane.
template <class Element>
void every_pair_of_bytes() {
  for_every_op<Element>([]<class Op>() {
    for (uint32_t pair = 0; pair < kPatterns; ++pair) {
      std::array<uint8_t, 16> first;
      std::array<uint8_t, 16> second;
      for (uint32_t lane = 0; lane < 16; ++lane) {
        first[lane] = static_cast<uint8_t>(pair + 17 * lane);
        second[lane] = static_cast<uint8_t>((pair >> 8) + 31 * lane);
      }
      const Packet packets[] = {std::bit_cast<Packet>(first), std::bit_cast<Packet>(second)};
      expect_vector_form_equals_scalar<Element, Op>(packets, 2);
      if (::testing::Test::HasFatalFailure()) FAIL() << "pair " << pair;
    }
  });
}

TEST(VectorForm, EqualsTheScalarFormForEveryPatternOfFloat16) { every_half<Float16>(); }
TEST(VectorForm, EqualsTheScalarFormForEveryPatternOfBfloat16) { every_half<Bfloat16>(); }
TEST(VectorForm, EqualsTheScalarFormForEveryPairOfInt8) { every_pair_of_bytes<Int8>(); }
TEST(VectorForm, EqualsTheScalarFormForEveryPairOfUint8) { every_pair_of_bytes<Uint8>(); }
TEST(VectorForm, EqualsTheScalarFormForFloat32) { edges_and_random_words<Float32>(); }
TEST(VectorForm, EqualsTheScalarFormForFloat64) { edges_and_random_words<Float64>(); }
TEST(VectorForm, EqualsTheScalarFormForInt32) { edges_and_random_words<Int32>(); }
TEST(VectorForm, EqualsTheScalarFormForInt64) { edges_and_random_words<Int64>(); }

// What crosses between nodes: the sum of partials is that of the accumulators, with no rounding on the way, and the
// first half of each packet is enough for the elements of the first half.
template <class Element>
void partials_are_whole() {
  for_every_op<Element>([]<class Op>() {
    using Sums = Accumulator<Element, Op>;
    for (uint64_t n = 0; n < 10000; ++n) {
      Sums left(random_packet(4 * n));
      left.combine(random_packet(4 * n + 1));
      Sums right(random_packet(4 * n + 2));
      right.combine(random_packet(4 * n + 3));
      Packet partials[Sums::kPartialPackets];
      Packet halves[Sums::kPartialPackets];
      for (int i = 0; i < Sums::kPartialPackets; ++i) {
        partials[i] = right.partial(i);
        halves[i] = Packet{partials[i][0], partials[i][1], 7, 0};
      }
      Sums expected = left;
      expected.combine(right);
      Sums whole = left;
      whole.combine(Sums::of_partials(partials));
      Sums half = left;
      half.combine(Sums::of_partials(halves));
      const auto bits = [](const Sums& sums) { return std::bit_cast<std::array<uint64_t, 2>>(sums.finish(4)); };
      ASSERT_EQ(bits(whole), bits(expected)) << "case " << n;
      ASSERT_EQ(bits(half)[0], bits(expected)[0]) << "case " << n;
    }
  });
}
TEST(Partials, CrossWithoutRounding) {
  partials_are_whole<Float16>(), partials_are_whole<Bfloat16>(), partials_are_whole<Float32>();
  partials_are_whole<Float64>(), partials_are_whole<Int8>(), partials_are_whole<Uint8>();
  partials_are_whole<Int32>(), partials_are_whole<Int64>();
}

// Sums of 16-bit floats that only an accumulator of 32 bits gets right: 2048 + 1 + 1 in float16, 256 + 1 + 1 in bf16.
TEST(Partials, OfHalvesAreFloat32) {
  const auto sum = []<class Element>(uint32_t big, uint32_t one) {
    const Packet ones = {one, one, one, one};
    Accumulator<Element, Sum> first(Packet{big, big, big, big});
    Accumulator<Element, Sum> second(ones);
    first.combine(ones);
    second = Accumulator<Element, Sum>::of_partials(std::array{first.partial(0), first.partial(1)}.data());
    second.combine(ones);
    return second.finish(3)[0];
  };
  EXPECT_EQ(sum.operator()<Float16>(0x68006800, 0x3C003C00), 0x68016801u);
  EXPECT_EQ(sum.operator()<Bfloat16>(0x43804380, 0x3F803F80), 0x43814381u);
}

}  // namespace
}  // namespace nvrar::test
