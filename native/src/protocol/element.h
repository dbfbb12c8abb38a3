// Element types and reduction operators: the one definition of their bits (protocol.md 10). They are scalar and have
// few branches; backends may have vector forms, which the tests compare with these.
//
// A type has Bits (the form in memory), Accumulator (the type of the arithmetic), widen and narrow (which rounds once);
// an operator has apply and, for AVG's division before that rounding, finish.
#ifndef NVRAR_PROTOCOL_ELEMENT_H
#define NVRAR_PROTOCOL_ELEMENT_H

#include "protocol/packet.h"

namespace nvrar::protocol {

NVRAR_HD uint32_t float_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
NVRAR_HD float bits_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
NVRAR_HD uint64_t double_bits(double value) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
NVRAR_HD double bits_double(uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
// Tests the bits, because a build with -ffast-math would remove a comparison with itself.
NVRAR_HD bool is_nan(float value) { return (float_bits(value) & 0x7FFFFFFFu) > 0x7F800000u; }
NVRAR_HD bool is_nan(double value) { return (double_bits(value) & ~(uint64_t{1} << 63)) > uint64_t{0x7FF} << 52; }

struct Float32 {
  using Bits = uint32_t;
  using Accumulator = float;
  static constexpr bool kFloat = true;
  static constexpr uint32_t kBytes = 4;
  static constexpr Bits kNan = 0x7FFFFFFFu;
  static constexpr Bits kInfinity = 0x7F800000u;
  static NVRAR_HD float widen(Bits bits) { return bits_float(bits); }
  static NVRAR_HD Bits narrow(float value) { return is_nan(value) ? kNan : float_bits(value); }
};

struct Float64 {
  using Bits = uint64_t;
  using Accumulator = double;
  static constexpr bool kFloat = true;
  static constexpr uint32_t kBytes = 8;
  static constexpr Bits kNan = uint64_t{0x7FF8} << 48;
  static NVRAR_HD double widen(Bits bits) { return bits_double(bits); }
  static NVRAR_HD Bits narrow(double value) { return is_nan(value) ? kNan : double_bits(value); }
};

struct Bfloat16 {
  using Bits = uint16_t;
  using Accumulator = float;
  static constexpr bool kFloat = true;
  static constexpr uint32_t kBytes = 2;
  static constexpr Bits kNan = 0x7FFFu;
  static constexpr Bits kInfinity = 0x7F80u;
  static NVRAR_HD float widen(Bits bits) { return bits_float(uint32_t{bits} << 16); }
  static NVRAR_HD Bits narrow(float value) {
    if (is_nan(value)) return kNan;
    const uint32_t bits = float_bits(value);
    return static_cast<Bits>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);  // round to nearest, ties to even
  }
};

struct Float16 {
  using Bits = uint16_t;
  using Accumulator = float;
  static constexpr bool kFloat = true;
  static constexpr uint32_t kBytes = 2;
  static constexpr Bits kNan = 0x7FFFu;
  static constexpr Bits kInfinity = 0x7C00u;
  static constexpr uint32_t kExponentShift = 112u << 23;    // difference of the exponent biases, 127 - 15
  static constexpr uint32_t kInfinityFrom = 0x477FF000u;    // 65520: the tie between 65504 and 65536 goes to even
  static constexpr uint32_t kSubnormalBelow = 0x38800000u;  // 2^-14
  static constexpr uint32_t kHalf = 126u << 23;  // 0.5: its last mantissa bit weighs 2^-24, float16's smallest

  static NVRAR_HD float widen(Bits bits) {
    const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16;
    const uint32_t magnitude = uint32_t{bits} & 0x7FFFu;
    if (magnitude >= 0x7C00u) return bits_float(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
    if (magnitude >= 0x0400u) return bits_float(sign | ((magnitude << 13) + kExponentShift));
    return bits_float(sign | float_bits(static_cast<float>(magnitude) * 0x1p-24f));
  }
  static NVRAR_HD Bits narrow(float value) {
    if (is_nan(value)) return kNan;
    const uint32_t sign = float_bits(value) >> 16 & 0x8000u;
    const uint32_t magnitude = float_bits(value) & 0x7FFFFFFFu;
    if (magnitude >= kInfinityFrom) return static_cast<Bits>(sign | 0x7C00u);
    if (magnitude < kSubnormalBelow) {  // the addition rounds at 2^-24, to nearest even
      return static_cast<Bits>(sign | (float_bits(bits_float(magnitude) + bits_float(kHalf)) - kHalf));
    }
    return static_cast<Bits>(sign | (magnitude - kExponentShift + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13);
  }
};

template <class BitsType, class Number>
struct Integer {
  using Bits = BitsType;
  using Accumulator = Number;
  static constexpr bool kFloat = false;
  static constexpr uint32_t kBytes = sizeof(Bits);
  static NVRAR_HD Number widen(Bits bits) { return static_cast<Number>(bits); }
  static NVRAR_HD Bits narrow(Number value) { return static_cast<Bits>(value); }
};
using Int8 = Integer<uint8_t, int8_t>;
using Uint8 = Integer<uint8_t, uint8_t>;
using Int32 = Integer<uint32_t, int32_t>;
using Int64 = Integer<uint64_t, int64_t>;

// Whether the word that a sentinel packet replaces and the word that replaces it consist of NaNs of this type. All bits
// of both words are set, except the lowest one of kCanonicalWord. For some floats such an element is a number, as 0xFE
// in fp8 e4m3, which has no infinity to compare with either. Such a type needs another canonical word before its sums
// can use sentinel packets.
template <class Element, class Bits = typename Element::Bits>
constexpr bool kFitsSentinels = static_cast<Bits>(SentinelPacket::kEmptyWord << 1) >
                                    static_cast<Bits>(Element::kInfinity << 1) &&
                                static_cast<Bits>(SentinelPacket::kCanonicalWord << 1) >
                                    static_cast<Bits>(Element::kInfinity << 1);

// The number of packets for the sums of one packet's elements when they are sent in the accumulator's type.
template <class Element>
constexpr uint32_t kPartialParts = sizeof(typename Element::Accumulator) / Element::kBytes;

// Integers wrap in their own width: the low bits of an unsigned 64-bit result are the result in any narrower width, and
// unsigned overflow is defined.
struct Sum {
  static NVRAR_HD float apply(float a, float b) { return a + b; }
  static NVRAR_HD double apply(double a, double b) { return a + b; }
  template <class Number>
  static NVRAR_HD Number apply(Number a, Number b) {
    return static_cast<Number>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  template <class Number>
  static NVRAR_HD Number finish(Number value, uint32_t /*world*/) {
    return value;
  }
};

// Floats only.
struct Avg {
  static NVRAR_HD float apply(float a, float b) { return a + b; }
  static NVRAR_HD double apply(double a, double b) { return a + b; }
  // A division, because multiplying by the reciprocal would round twice.
  static NVRAR_HD float finish(float value, uint32_t world) { return value / static_cast<float>(world); }
  static NVRAR_HD double finish(double value, uint32_t world) { return value / static_cast<double>(world); }
};

struct Product {
  static NVRAR_HD float apply(float a, float b) { return a * b; }
  static NVRAR_HD double apply(double a, double b) { return a * b; }
  template <class Number>
  static NVRAR_HD Number apply(Number a, Number b) {
    return static_cast<Number>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  template <class Number>
  static NVRAR_HD Number finish(Number value, uint32_t /*world*/) {
    return value;
  }
};

// Floats that compare equal have the same bits, or are zeros, of which only -0 has a bit set.
struct Max {
  static NVRAR_HD float apply(float a, float b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a > b) return a;
    if (b > a) return b;
    return bits_float(float_bits(a) & float_bits(b));
  }
  static NVRAR_HD double apply(double a, double b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a > b) return a;
    if (b > a) return b;
    return bits_double(double_bits(a) & double_bits(b));
  }
  template <class Number>
  static NVRAR_HD Number apply(Number a, Number b) {
    return a > b ? a : b;
  }
  template <class Number>
  static NVRAR_HD Number finish(Number value, uint32_t /*world*/) {
    return value;
  }
};

struct Min {
  static NVRAR_HD float apply(float a, float b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a < b) return a;
    if (b < a) return b;
    return bits_float(float_bits(a) | float_bits(b));
  }
  static NVRAR_HD double apply(double a, double b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a < b) return a;
    if (b < a) return b;
    return bits_double(double_bits(a) | double_bits(b));
  }
  template <class Number>
  static NVRAR_HD Number apply(Number a, Number b) {
    return a < b ? a : b;
  }
  template <class Number>
  static NVRAR_HD Number finish(Number value, uint32_t /*world*/) {
    return value;
  }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_ELEMENT_H
