// The types of the C ABI by the compiler's own types, independent of the library's sources.
#ifndef NVRAR_TEST_SUPPORT_NUMBERS_H
#define NVRAR_TEST_SUPPORT_NUMBERS_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace nvrar::test {

// A type is its Bits, the Number that is computed in, and the way from one to the other and back.
template <class N, class B, uint64_t kNanBits>
struct Plain {
  using Number = N;
  using Bits = B;
  static Number number(Bits bits) { return std::bit_cast<Number>(bits); }
  static Bits bits(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(value)) return static_cast<Bits>(kNanBits);
    }
    return std::bit_cast<Bits>(value);
  }
};
struct Half {
  using Number = float;
  using Bits = uint16_t;
  static float number(Bits bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
  static Bits bits(float value) {
    return std::isnan(value) ? Bits{0x7FFF} : std::bit_cast<Bits>(static_cast<_Float16>(value));
  }
};
struct Brain {
  using Number = float;
  using Bits = uint16_t;
  static float number(Bits bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
  // Of the two neighbours the nearer one, of two equally near the even one. The infinities' places on the scale are
  // where the next number would be.
  static Bits bits(float value) {
    if (std::isnan(value)) return 0x7FFF;
    const auto toward_zero = static_cast<Bits>(std::bit_cast<uint32_t>(value) >> 16);
    if (std::isinf(value)) return toward_zero;
    const auto away = static_cast<Bits>(toward_zero + 1);
    const auto place = [](Bits bits) {
      return std::isinf(number(bits)) ? std::copysign(0x1p128, double{number(bits)}) : double{number(bits)};
    };
    const double low = std::fabs(double{value} - place(toward_zero));
    const double high = std::fabs(place(away) - double{value});
    if (low != high) return low < high ? toward_zero : away;
    return toward_zero % 2 == 0 ? toward_zero : away;
  }
};
using Single = Plain<float, uint32_t, 0x7FFFFFFF>;
using Double = Plain<double, uint64_t, 0x7FF8000000000000>;

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_NUMBERS_H
