// Reductions of whole packets in registers: the vector form of protocol/element.h. A test compares the two for every
// bit pattern. The GNU vectors have 16 bytes, like a packet. They need nothing beyond AVX, which the backend requires
// anyway, so no instruction set has to be selected at run time.
#ifndef NVRAR_CPU_VECTOR_ELEMENTS_H
#define NVRAR_CPU_VECTOR_ELEMENTS_H

#include "protocol/element.h"

namespace nvrar::cpu {

typedef float FloatVector __attribute__((vector_size(16)));
typedef double DoubleVector __attribute__((vector_size(16)));
typedef int32_t IntVector __attribute__((vector_size(16)));
typedef uint64_t LongBitsVector __attribute__((vector_size(16)));
using BitsVector = protocol::Packet;

// Of an address with any alignment.
NVRAR_HD BitsVector load_vector(const uint8_t* from) {
  BitsVector packet;
  __builtin_memcpy(&packet, from, sizeof packet);
  return packet;
}
NVRAR_HD void store_vector(uint8_t* to, BitsVector packet) { __builtin_memcpy(to, &packet, sizeof packet); }

template <class Vector>
NVRAR_HD BitsVector bits_of(Vector value) {
  return reinterpret_cast<BitsVector>(value);
}
// mask is the result of a comparison: each of its elements is all ones or all zeros.
template <class Mask>
NVRAR_HD BitsVector select(Mask mask, BitsVector yes, BitsVector no) {
  return (yes & bits_of(mask)) | (no & ~bits_of(mask));
}
NVRAR_HD FloatVector floats_of(BitsVector bits) { return reinterpret_cast<FloatVector>(bits); }
NVRAR_HD BitsVector fill(uint32_t word) { return BitsVector{word, word, word, word}; }
// Only for values less than 2^31, because x86 has only the signed comparison.
NVRAR_HD IntVector below(BitsVector a, uint32_t b) {
  return reinterpret_cast<IntVector>(a) < reinterpret_cast<IntVector>(fill(b));
}
template <class Vector>
NVRAR_HD auto nan_mask(Vector value) {
  return value != value;
}

// Wide<Element>: converts a packet's elements to kParts vectors of accumulators, and back with one rounding. Integers
// are unsigned, because the overflow of a signed vector would be undefined.
template <class Element>
struct Wide {
  static_assert(!Element::kFloat, "floats have forms of their own");
  typedef typename Element::Bits Vector __attribute__((vector_size(16)));
  static constexpr int kParts = 1;
  static NVRAR_HD void widen(BitsVector packet, Vector* parts) { parts[0] = reinterpret_cast<Vector>(packet); }
  static NVRAR_HD BitsVector narrow(const Vector* parts) { return bits_of(parts[0]); }
};

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
struct Wide<protocol::Float64> {
  using Vector = DoubleVector;
  static constexpr int kParts = 1;
  static NVRAR_HD void widen(BitsVector packet, Vector* parts) { parts[0] = reinterpret_cast<Vector>(packet); }
  static NVRAR_HD BitsVector narrow(const Vector* parts) {
    const LongBitsVector nan = {protocol::Float64::kNan, protocol::Float64::kNan};
    return select(nan_mask(parts[0]), bits_of(nan), bits_of(parts[0]));
  }
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

// The vector forms of the scalar operators; Element determines how an integer vector's bits are compared.
template <class Op>
struct WideOp;

template <class Element, class Vector>
NVRAR_HD auto less_mask(Vector a, Vector b) {
  typedef typename Element::Accumulator Numbers __attribute__((vector_size(16)));
  return reinterpret_cast<Numbers>(a) < reinterpret_cast<Numbers>(b);
}

// For each element: a if it is a NaN, else b if it is a NaN, else the number.
template <class Vector>
NVRAR_HD Vector nan_or(Vector a, Vector b, BitsVector number) {
  return reinterpret_cast<Vector>(select(nan_mask(a), bits_of(a), select(nan_mask(b), bits_of(b), number)));
}

template <>
struct WideOp<protocol::Sum> {
  template <class Element, class Vector>
  static NVRAR_HD Vector apply(Vector a, Vector b) {
    return a + b;
  }
  template <class Vector>
  static NVRAR_HD Vector finish(Vector value, uint32_t /*world*/) {
    return value;
  }
};

template <>
struct WideOp<protocol::Product> {
  template <class Element, class Vector>
  static NVRAR_HD Vector apply(Vector a, Vector b) {
    return a * b;
  }
  template <class Vector>
  static NVRAR_HD Vector finish(Vector value, uint32_t /*world*/) {
    return value;
  }
};

template <>
struct WideOp<protocol::Avg> {
  template <class Element, class Vector>
  static NVRAR_HD Vector apply(Vector a, Vector b) {
    static_assert(Element::kFloat, "AVG is for floats");
    return a + b;
  }
  static NVRAR_HD FloatVector finish(FloatVector value, uint32_t world) { return value / static_cast<float>(world); }
  static NVRAR_HD DoubleVector finish(DoubleVector value, uint32_t world) { return value / static_cast<double>(world); }
};

template <>
struct WideOp<protocol::Max> {
  template <class Element, class Vector>
  static NVRAR_HD Vector apply(Vector a, Vector b) {
    const auto less = less_mask<Element>(a, b);
    if constexpr (Element::kFloat) {
      const BitsVector equal = bits_of(a) & bits_of(b);
      return nan_or(a, b, select(less, bits_of(b), select(less_mask<Element>(b, a), bits_of(a), equal)));
    } else {
      return reinterpret_cast<Vector>(select(less, bits_of(b), bits_of(a)));
    }
  }
  template <class Vector>
  static NVRAR_HD Vector finish(Vector value, uint32_t /*world*/) {
    return value;
  }
};

template <>
struct WideOp<protocol::Min> {
  template <class Element, class Vector>
  static NVRAR_HD Vector apply(Vector a, Vector b) {
    const auto less = less_mask<Element>(a, b);
    if constexpr (Element::kFloat) {
      const BitsVector equal = bits_of(a) | bits_of(b);
      return nan_or(a, b, select(less, bits_of(a), select(less_mask<Element>(b, a), bits_of(b), equal)));
    } else {
      return reinterpret_cast<Vector>(select(less, bits_of(a), bits_of(b)));
    }
  }
  template <class Vector>
  static NVRAR_HD Vector finish(Vector value, uint32_t /*world*/) {
    return value;
  }
};

// The running sum of one vector, into which reduction.cpp combines a packet of each source.
template <class Element, class Op>
class VectorAccumulator {
  using Type = Wide<Element>;

 public:
  static constexpr int kPartialPackets = Type::kParts;

  explicit NVRAR_HD VectorAccumulator(BitsVector packet) { Type::widen(packet, parts_); }
  static NVRAR_HD VectorAccumulator of_partials(const BitsVector* packets) {
    VectorAccumulator accumulator;
    for (int i = 0; i < kPartialPackets; ++i)
      accumulator.parts_[i] = reinterpret_cast<typename Type::Vector>(packets[i]);
    return accumulator;
  }

  NVRAR_HD void combine(BitsVector packet) { combine(VectorAccumulator(packet)); }
  NVRAR_HD void combine(const VectorAccumulator& other) {
    for (int i = 0; i < kPartialPackets; ++i) {
      parts_[i] = WideOp<Op>::template apply<Element>(parts_[i], other.parts_[i]);
    }
  }
  NVRAR_HD BitsVector partial(int i) const { return bits_of(parts_[i]); }
  NVRAR_HD BitsVector finish(uint32_t world) const {
    typename Type::Vector finished[kPartialPackets];
    for (int i = 0; i < kPartialPackets; ++i) finished[i] = WideOp<Op>::finish(parts_[i], world);
    return Type::narrow(finished);
  }

 private:
  VectorAccumulator() = default;

  typename Type::Vector parts_[kPartialPackets];
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_VECTOR_ELEMENTS_H
