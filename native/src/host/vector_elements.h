// Reductions of whole packets in registers: the wide form of protocol/element.h, to which a test holds every bit
// pattern. GNU vectors of 16 bytes, so plain x86-64 is enough and no second instruction set has to be chosen at run
// time.
#ifndef NVRAR_HOST_VECTOR_ELEMENTS_H
#define NVRAR_HOST_VECTOR_ELEMENTS_H

#include "protocol/element.h"

namespace nvrar::host {

typedef float FloatVector __attribute__((vector_size(16)));
typedef int32_t IntVector __attribute__((vector_size(16)));
using BitsVector = protocol::Packet;

NVRAR_HD BitsVector select(IntVector mask, BitsVector yes, BitsVector no) {
  const BitsVector bits = reinterpret_cast<BitsVector>(mask);
  return (yes & bits) | (no & ~bits);
}
NVRAR_HD BitsVector bits_of(FloatVector value) { return reinterpret_cast<BitsVector>(value); }
NVRAR_HD FloatVector floats_of(BitsVector bits) { return reinterpret_cast<FloatVector>(bits); }
NVRAR_HD BitsVector fill(uint32_t word) { return BitsVector{word, word, word, word}; }
// Of values without a sign: the signed comparison is the only one that SSE2 has.
NVRAR_HD IntVector below(BitsVector a, uint32_t b) {
  return reinterpret_cast<IntVector>(a) < reinterpret_cast<IntVector>(fill(b));
}
NVRAR_HD IntVector nan_mask(FloatVector value) { return value != value; }

// Wide<Element>: the packet's elements as kParts vectors of accumulators, and back with one rounding.
template <class Element>
struct Wide;

template <>
struct Wide<protocol::Float32> {
  using Vector = FloatVector;
  static constexpr int kParts = 1;
  static NVRAR_HD void widen(BitsVector packet, Vector* parts) { parts[0] = floats_of(packet); }
  static NVRAR_HD BitsVector narrow(const Vector* parts) {
    return select(nan_mask(parts[0]), fill(protocol::Float32::kNan), bits_of(parts[0]));
  }
};

template <>
struct Wide<protocol::Int32> {
  using Vector = BitsVector;
  static constexpr int kParts = 1;
  static NVRAR_HD void widen(BitsVector packet, Vector* parts) { parts[0] = packet; }
  static NVRAR_HD BitsVector narrow(const Vector* parts) { return parts[0]; }
};

// 16-bit floats: part 0 holds the even elements (low halves of the words), part 1 the odd ones.
template <>
struct Wide<protocol::Bfloat16> {
  using Vector = FloatVector;
  static constexpr int kParts = 2;
  static NVRAR_HD void widen(BitsVector packet, Vector* parts) {
    parts[0] = floats_of(packet << 16);
    parts[1] = floats_of(packet & 0xFFFF0000u);
  }
  static NVRAR_HD BitsVector narrow(const Vector* parts) {
    return round_half(parts[0]) >> 16 | (round_half(parts[1]) & 0xFFFF0000u);
  }

 private:
  static NVRAR_HD BitsVector round_half(FloatVector value) {
    const BitsVector bits = bits_of(value);
    const BitsVector rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    return select(nan_mask(value), fill(uint32_t{protocol::Bfloat16::kNan} << 16), rounded);
  }
};

template <>
struct Wide<protocol::Float16> {
  using Vector = FloatVector;
  using Element = protocol::Float16;
  static constexpr int kParts = 2;
  static NVRAR_HD void widen(BitsVector packet, Vector* parts) {
    parts[0] = widen_half(packet & 0xFFFFu);
    parts[1] = widen_half(packet >> 16);
  }
  static NVRAR_HD BitsVector narrow(const Vector* parts) { return narrow_half(parts[0]) | narrow_half(parts[1]) << 16; }

 private:
  static NVRAR_HD FloatVector widen_half(BitsVector half) {
    const BitsVector sign = (half & 0x8000u) << 16;
    const BitsVector magnitude = half & 0x7FFFu;
    const BitsVector normal = (magnitude << 13) + Element::kExponentShift;
    const BitsVector special = (magnitude << 13) | 0x7F800000u;
    const IntVector as_int = reinterpret_cast<IntVector>(magnitude);
    const BitsVector subnormal = bits_of(__builtin_convertvector(as_int, FloatVector) * 0x1p-24f);
    const BitsVector finite = select(below(magnitude, 0x0400u), subnormal, normal);
    return floats_of(sign | select(below(magnitude, 0x7C00u), finite, special));
  }
  static NVRAR_HD BitsVector narrow_half(FloatVector value) {
    const BitsVector sign = bits_of(value) >> 16 & 0x8000u;
    const BitsVector magnitude = bits_of(value) & 0x7FFFFFFFu;
    const BitsVector subnormal = bits_of(floats_of(magnitude) + floats_of(fill(Element::kHalf))) - Element::kHalf;
    const BitsVector normal = (magnitude - Element::kExponentShift + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    const BitsVector small = select(below(magnitude, Element::kSubnormalBelow), subnormal, normal);
    const BitsVector number = select(below(magnitude, Element::kInfinityFrom), small, fill(0x7C00u));
    return select(nan_mask(value), fill(Element::kNan), sign | number);
  }
};

template <class Op>
struct WideOp;

template <>
struct WideOp<protocol::Sum> {
  template <class Vector>
  static NVRAR_HD Vector apply(Vector a, Vector b) {
    return a + b;
  }
};

template <>
struct WideOp<protocol::Max> {
  static NVRAR_HD FloatVector apply(FloatVector a, FloatVector b) {
    // Equal values have the same bits, or are zeros of which +0 is the greater. A NaN compares false and falls through.
    const BitsVector number = select(a > b, bits_of(a), select(b > a, bits_of(b), bits_of(a) & bits_of(b)));
    return floats_of(select(nan_mask(a), bits_of(a), select(nan_mask(b), bits_of(b), number)));
  }
  static NVRAR_HD BitsVector apply(BitsVector a, BitsVector b) {
    return select(reinterpret_cast<IntVector>(a) > reinterpret_cast<IntVector>(b), a, b);
  }
};

// The Accumulator of the steps in protocol/.
template <class Element, class Op>
class VectorAccumulator {
 public:
  explicit NVRAR_HD VectorAccumulator(BitsVector packet) { Type::widen(packet, parts_); }
  NVRAR_HD void combine(BitsVector packet) {
    typename Type::Vector other[Type::kParts];
    Type::widen(packet, other);
    for (int i = 0; i < Type::kParts; ++i) parts_[i] = WideOp<Op>::apply(parts_[i], other[i]);
  }
  NVRAR_HD BitsVector finish() const { return Type::narrow(parts_); }

 private:
  using Type = Wide<Element>;
  typename Type::Vector parts_[Type::kParts];
};

}  // namespace nvrar::host

#endif  // NVRAR_HOST_VECTOR_ELEMENTS_H
