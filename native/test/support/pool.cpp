#include "support/pool.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "call.h"
#include "protocol/element.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kGuardBytes = 64;
constexpr uint8_t kGuardByte = 0xA5;

// NaNs of both signs and payloads, the empty slot's pattern, infinities, both zeros, subnormals, the largest numbers.
constexpr uint32_t kSpecial32[] = {0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x7FC00000, 0x7F800001, 0xFF800001, 0x7F800000,
                                   0xFF800000, 0x80000000, 0x00000000, 0x00000001, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF};
constexpr uint16_t kSpecial16[] = {0xFFFF, 0x7FFF, 0x7E00, 0x7FC0, 0x7C01, 0x7F81, 0x7C00, 0x7F80,
                                   0xFC00, 0xFF80, 0x8000, 0x0000, 0x0001, 0x83FF, 0x7BFF, 0x7F7F};

template <class Element>
typename Element::Bits make_value(uint64_t random) {
  const bool is_float = std::is_same_v<typename Element::Accumulator, float>;
  if (is_float && random % 16 != 0) {
    const auto number = static_cast<float>(static_cast<int64_t>(random >> 40) - (1 << 23)) * 0x1p-20f;
    if constexpr (is_float) return Element::narrow(number);
  }
  if constexpr (Element::kBytes == 2) return kSpecial16[random >> 8 & 15];
  if (is_float) return static_cast<typename Element::Bits>(kSpecial32[(random >> 8) % std::size(kSpecial32)]);
  return random % 16 == 0 ? typename Element::Bits(0xFFFFFFFFu) : static_cast<typename Element::Bits>(random >> 32);
}

template <class Element, class Op>
void reduce(const std::vector<std::vector<uint8_t>>& inputs, std::vector<uint8_t>* out) {
  using Bits = typename Element::Bits;
  for (size_t at = 0; at < out->size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, inputs[0].data() + at, sizeof bits);
    if (inputs.size() > 1) {  // a group of one copies
      auto sum = Element::widen(bits);
      for (size_t rank = 1; rank < inputs.size(); ++rank) {
        std::memcpy(&bits, inputs[rank].data() + at, sizeof bits);
        sum = Op::apply(sum, Element::widen(bits));
      }
      bits = Element::narrow(sum);
    }
    std::memcpy(out->data() + at, &bits, sizeof bits);
  }
}

template <class Element>
void make(int32_t op, uint64_t seed, std::vector<std::vector<uint8_t>>* inputs, std::vector<uint8_t>* expected) {
  using Bits = typename Element::Bits;
  for (size_t rank = 0; rank < inputs->size(); ++rank) {
    for (size_t at = 0; at < expected->size(); at += sizeof(Bits)) {
      const Bits bits = make_value<Element>(mix(seed * 1000003 + rank * 0x9E3779B97F4A7C15ULL + at));
      std::memcpy((*inputs)[rank].data() + at, &bits, sizeof bits);
    }
  }
  if (op == NVRAR_SUM) {
    reduce<Element, protocol::Sum>(*inputs, expected);
  } else {
    reduce<Element, protocol::Max>(*inputs, expected);
  }
}

}  // namespace

uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ value >> 27) * 0x94D049BB133111EBULL;
  return value ^ value >> 31;
}

Pool::Pool(int32_t data_type, int32_t op, int world, uint64_t elements, uint64_t seed)
    : elements_(elements), size_(element_bytes(data_type)) {
  expected_.resize(elements * size_);
  inputs_.assign(static_cast<size_t>(world), expected_);
  switch (data_type) {
    case NVRAR_FLOAT32:
      make<protocol::Float32>(op, seed, &inputs_, &expected_);
      break;
    case NVRAR_FLOAT16:
      make<protocol::Float16>(op, seed, &inputs_, &expected_);
      break;
    case NVRAR_BFLOAT16:
      make<protocol::Bfloat16>(op, seed, &inputs_, &expected_);
      break;
    default:
      make<protocol::Int32>(op, seed, &inputs_, &expected_);
      break;
  }
}

GuardedBuffer::GuardedBuffer(uint64_t bytes, uint64_t offset_bytes)
    : bytes_(bytes), storage_(bytes + 3 * kGuardBytes + offset_bytes, kGuardByte) {
  const uint64_t address = reinterpret_cast<uint64_t>(storage_.data());
  const uint64_t aligned = (address + 2 * kGuardBytes - 1) / kGuardBytes * kGuardBytes;
  begin_ = aligned - address + offset_bytes;
}

bool GuardedBuffer::guards_intact() const {
  const auto guard = [](uint8_t byte) { return byte == kGuardByte; };
  const auto end = storage_.begin() + static_cast<int64_t>(begin_ + bytes_);
  return std::all_of(storage_.begin(), storage_.begin() + static_cast<int64_t>(begin_), guard) &&
         std::all_of(end, storage_.end(), guard);
}

std::string difference(const uint8_t* got, const uint8_t* expected, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) {
    if (got[i] == expected[i]) continue;
    char text[96];
    std::snprintf(text, sizeof text, "byte %llu is %02x instead of %02x", static_cast<unsigned long long>(i), got[i],
                  expected[i]);
    return text;
  }
  return "";
}

}  // namespace nvrar::test
