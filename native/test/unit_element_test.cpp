// Element types and operators: the scalar definitions against the compiler's own types, the vector forms against them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "host/vector_elements.h"
#include "protocol/element.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

using protocol::Bfloat16;
using protocol::Float16;
using protocol::Float32;
using protocol::Int32;
using protocol::Max;
using protocol::Packet;
using protocol::Sum;

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

TEST(Max, PassesNanOnAndOrdersZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(protocol::float_bits(Max::apply(-0.0f, 0.0f)), 0u);
  EXPECT_EQ(protocol::float_bits(Max::apply(0.0f, -0.0f)), 0u);
  EXPECT_EQ(protocol::float_bits(Max::apply(-0.0f, -0.0f)), 0x80000000u);
  EXPECT_TRUE(std::isnan(Max::apply(nan, 1.0f)));
  EXPECT_TRUE(std::isnan(Max::apply(1.0f, nan)));
  EXPECT_EQ(Max::apply(0x80000000u, 1u), 1u);
  EXPECT_EQ(Max::apply(0xFFFFFFFFu, 0x80000000u), 0xFFFFFFFFu);
}

TEST(Sum, StartsFromTheFirstValueAndWraps) {
  EXPECT_EQ(Float32::narrow(Sum::apply(-0.0f, -0.0f)), 0x80000000u);
  EXPECT_EQ(
      Float32::narrow(Sum::apply(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity())),
      0x7FFFFFFFu);
  EXPECT_EQ(Sum::apply(0x7FFFFFFFu, 1u), 0x80000000u);
}

template <class Element>
uint32_t element_at(Packet packet, int i) {
  if constexpr (Element::kBytes == 4) return packet[i];
  return packet[i / 2] >> (i % 2 * 16) & 0xFFFFu;
}

template <class Element, class Op>
void expect_vector_form_equals_scalar(const Packet* packets, int count) {
  host::VectorAccumulator<Element, Op> sum(packets[0]);
  for (int s = 1; s < count; ++s) sum.combine(packets[s]);
  const Packet got = sum.finish();
  for (int i = 0; i < static_cast<int>(16 / Element::kBytes); ++i) {
    auto value = Element::widen(static_cast<typename Element::Bits>(element_at<Element>(packets[0], i)));
    for (int s = 1; s < count; ++s) {
      value = Op::apply(value, Element::widen(static_cast<typename Element::Bits>(element_at<Element>(packets[s], i))));
    }
    ASSERT_EQ(element_at<Element>(got, i), Element::narrow(value)) << "element " << i;
  }
}

// Every 16-bit pattern in every lane, with a partner from each class of numbers; then random words.
template <class Element, class Op>
void sweep() {
  constexpr uint32_t kPartners[] = {0,          0x80008000, 0x3F803F80, 0xBF80BF80, 0x7F807F80, 0xFF80FF80, 0x7FFF7FFF,
                                    0xFFFFFFFF, 0x00010001, 0x80018001, 0x7BFF7BFF, 0xFBFFFBFF, 0x7F7F7F7F, 0x7C007C00};
  for (uint32_t p = 0; p < kPatterns; ++p) {
    const uint32_t word = p << 16 | p;
    const uint32_t partner = kPartners[p % std::size(kPartners)];
    const auto random = static_cast<uint32_t>(mix(p));
    const auto other = static_cast<uint32_t>(mix(p) >> 32);
    const Packet packets[] = {{word, random, p, p << 16}, {partner, other, word, word}, {random, word, other, partner}};
    expect_vector_form_equals_scalar<Element, Op>(packets, 1);
    expect_vector_form_equals_scalar<Element, Op>(packets, 2);
    expect_vector_form_equals_scalar<Element, Op>(packets, 3);
    if (::testing::Test::HasFatalFailure()) FAIL() << "pattern " << p;
  }
}

TEST(VectorForm, EqualsTheScalarFormForFloat32) { sweep<Float32, Sum>(), sweep<Float32, Max>(); }
TEST(VectorForm, EqualsTheScalarFormForFloat16) { sweep<Float16, Sum>(), sweep<Float16, Max>(); }
TEST(VectorForm, EqualsTheScalarFormForBfloat16) { sweep<Bfloat16, Sum>(), sweep<Bfloat16, Max>(); }
TEST(VectorForm, EqualsTheScalarFormForInt32) { sweep<Int32, Sum>(), sweep<Int32, Max>(); }

}  // namespace
}  // namespace nvrar::test
