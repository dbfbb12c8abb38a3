// The order of values in a top-k, as integers. A key is the greater, the greater the value, and of equal values the one
// of the lower index is. -0 is below +0, as for MAX.
#ifndef NVRAR_PROTOCOL_TOP_KEY_H
#define NVRAR_PROTOCOL_TOP_KEY_H

#include "protocol/element.h"

namespace nvrar::protocol {

constexpr uint64_t kNoKey = 0;              // below that of every value
constexpr uint64_t kNanKey = ~uint64_t{0};  // of every NaN; above that of every value

// index: below 2^31.
NVRAR_HD uint64_t top_key(float value, uint32_t index) {
  if (is_nan(value)) return kNanKey;
  const uint32_t bits = float_bits(value);
  const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 1u << 31;
  return uint64_t{rising} << 32 | static_cast<uint32_t>(~index);
}
NVRAR_HD float value_of_key(uint64_t key) {
  const auto rising = static_cast<uint32_t>(key >> 32);
  return bits_float((rising >> 31) != 0 ? rising & ~(1u << 31) : ~rising);
}
NVRAR_HD uint32_t index_of_key(uint64_t key) { return ~static_cast<uint32_t>(key); }

// What a row's place of the result holds. best: the greatest key of the row.
template <class Element>
struct Chosen {
  typename Element::Bits value;
  int32_t index;
};
template <class Element>
NVRAR_HD Chosen<Element> chosen(uint64_t key, uint64_t best) {
  if (best == kNanKey) return {Element::kNan, -1};
  if (key == kNoKey) return {Element::narrow(-Element::widen(Element::kInfinity)), -1};
  return {Element::narrow(value_of_key(key)), static_cast<int32_t>(index_of_key(key))};
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TOP_KEY_H
