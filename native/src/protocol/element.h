// Element types and reduction operators: the one definition of their bits (protocol.md 10). Scalar and branch-light;
// backends may have wider forms, which tests hold to these.
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
// By bits: -ffast-math of a careless build cannot remove it.
NVRAR_HD bool is_nan(float value) { return (float_bits(value) & 0x7FFFFFFFu) > 0x7F800000u; }

struct Float32 {
  using Bits = uint32_t;
  using Accumulator = float;
  static constexpr uint32_t kBytes = 4;
  static constexpr Bits kNan = 0x7FFFFFFFu;
  static NVRAR_HD float widen(Bits bits) { return bits_float(bits); }
  static NVRAR_HD Bits narrow(float value) { return is_nan(value) ? kNan : float_bits(value); }
};

struct Bfloat16 {
  using Bits = uint16_t;
  using Accumulator = float;
  static constexpr uint32_t kBytes = 2;
  static constexpr Bits kNan = 0x7FFFu;
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
  static constexpr uint32_t kBytes = 2;
  static constexpr Bits kNan = 0x7FFFu;
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

// Unsigned inside: sums wrap in two's complement without undefined behaviour.
struct Int32 {
  using Bits = uint32_t;
  using Accumulator = uint32_t;
  static constexpr uint32_t kBytes = 4;
  static NVRAR_HD uint32_t widen(Bits bits) { return bits; }
  static NVRAR_HD Bits narrow(uint32_t value) { return value; }
};

struct Sum {
  static NVRAR_HD float apply(float a, float b) { return a + b; }
  static NVRAR_HD uint32_t apply(uint32_t a, uint32_t b) { return a + b; }
};

struct Max {
  static NVRAR_HD float apply(float a, float b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a > b) return a;
    if (b > a) return b;
    return bits_float(float_bits(a) & float_bits(b));  // equal: the same bits, or two zeros of which +0 is the greater
  }
  static NVRAR_HD uint32_t apply(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a) > static_cast<int32_t>(b) ? a : b;
  }
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_ELEMENT_H
