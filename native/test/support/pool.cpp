#include "support/pool.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "call/call.h"
#include "support/numbers.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kGuardBytes = 64;
constexpr uint8_t kGuardByte = 0xA5;

// NaNs of both signs and payloads, the empty slot's pattern, infinities, both zeros, subnormals, the largest numbers.
constexpr uint32_t kSpecial32[] = {0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x7FC00000, 0x7F800001, 0xFF800001, 0x7F800000,
                                   0xFF800000, 0x80000000, 0x00000000, 0x00000001, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF};
constexpr uint16_t kSpecial16[] = {0xFFFF, 0x7FFF, 0x7E00, 0x7FC0, 0x7C01, 0x7F81, 0x7C00, 0x7F80,
                                   0xFC00, 0xFF80, 0x8000, 0x0000, 0x0001, 0x83FF, 0x7BFF, 0x7F7F};

constexpr uint64_t kSpecial64[] = {~0ULL,
                                   0x7FF8000000000000,
                                   0xFFF8000000000001,
                                   0x7FF0000000000001,
                                   0x7FF0000000000000,
                                   0xFFF0000000000000,
                                   0x8000000000000000,
                                   0,
                                   1,
                                   0x800FFFFFFFFFFFFF,
                                   0x7FEFFFFFFFFFFFFF,
                                   0xFFEFFFFFFFFFFFFF};

template <class Type>
typename Type::Bits make_value(uint64_t random) {
  using Bits = typename Type::Bits;
  if constexpr (!std::is_floating_point_v<typename Type::Number>) {
    return random % 16 == 0 ? static_cast<Bits>(~Bits{0}) : static_cast<Bits>(random >> 8);
  } else {
    if (random % 16 != 0) {
      const auto number = static_cast<double>(static_cast<int64_t>(random >> 11) - (int64_t{1} << 52)) * 0x1p-49;
      return Type::bits(static_cast<typename Type::Number>(number));
    }
    const uint64_t pick = random >> 8;
    if constexpr (sizeof(Bits) == 2) return kSpecial16[pick % std::size(kSpecial16)];
    if constexpr (sizeof(Bits) == 4) return kSpecial32[pick % std::size(kSpecial32)];
    if constexpr (sizeof(Bits) == 8) return kSpecial64[pick % std::size(kSpecial64)];
  }
}

template <class Number>
Number extreme(bool greatest, Number a, Number b) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) == greatest ? b : a;  // the zeros: -0 is below +0
  }
  return greatest ? std::max(a, b) : std::min(a, b);
}

template <class Number>
Number combine(int32_t op, Number a, Number b) {
  if (op == NVRAR_MAX || op == NVRAR_MIN) return extreme(op == NVRAR_MAX, a, b);
  if constexpr (std::is_floating_point_v<Number>) {
    return op == NVRAR_PRODUCT ? a * b : a + b;
  } else {
    Number wrapped;
    if (op == NVRAR_PRODUCT) {
      (void)__builtin_mul_overflow(a, b, &wrapped);
    } else {
      (void)__builtin_add_overflow(a, b, &wrapped);
    }
    return wrapped;
  }
}

template <class Number>
Number reduce(int32_t op, const std::vector<Number>& values, size_t ranks_per_node) {
  std::vector<Number> partials;  // within each node in rank order
  for (size_t rank = 0; rank < values.size(); ++rank) {
    if (rank % ranks_per_node == 0) {
      partials.push_back(values[rank]);
    } else {
      partials.back() = combine(op, partials.back(), values[rank]);
    }
  }
  while (partials.size() > 1) {  // then neighbours, level by level
    std::vector<Number> level;
    for (size_t i = 0; i < partials.size(); i += 2) {
      level.push_back(i + 1 < partials.size() ? combine(op, partials[i], partials[i + 1]) : partials[i]);
    }
    partials = level;
  }
  if constexpr (std::is_floating_point_v<Number>) {
    if (op == NVRAR_AVG) return partials[0] / static_cast<Number>(values.size());
  }
  return partials[0];
}

// seed: of random inputs; null: they are there.
template <class Type>
void make(int32_t op, const uint64_t* seed, size_t ranks_per_node, std::vector<std::vector<uint8_t>>* inputs,
          std::vector<uint8_t>* expected) {
  using Bits = typename Type::Bits;
  std::vector<typename Type::Number> values(inputs->size());
  for (size_t at = 0; at < expected->size(); at += sizeof(Bits)) {
    Bits bits{};
    for (size_t rank = 0; rank < inputs->size(); ++rank) {
      uint8_t* const place = (*inputs)[rank].data() + at;
      if (seed != nullptr) {
        bits = make_value<Type>(mix(*seed * 1000003 + rank * 0x9E3779B97F4A7C15ULL + at));
        std::memcpy(place, &bits, sizeof bits);
      }
      std::memcpy(&bits, place, sizeof bits);
      values[rank] = Type::number(bits);
    }
    if (values.size() > 1) bits = Type::bits(reduce(op, values, ranks_per_node));  // a group of one copies
    std::memcpy(expected->data() + at, &bits, sizeof bits);
  }
}

}  // namespace

uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ value >> 27) * 0x94D049BB133111EBULL;
  return value ^ value >> 31;
}

const std::vector<Reduction>& reductions() {
  static const std::vector<Reduction> all = [] {
    std::vector<Reduction> pairs;
    for (int32_t type : kTypes) {
      const bool is_float = type >= NVRAR_FLOAT16;
      for (int32_t op : kOps) {
        if (op != NVRAR_AVG || is_float) pairs.push_back({type, op});
      }
    }
    return pairs;
  }();
  return all;
}

Pool::Pool(int32_t data_type, int32_t op, int world, uint64_t elements, uint64_t seed, int ranks_per_node)
    : elements_(elements), size_(element_bytes(data_type)) {
  expected_.resize(elements * size_);
  inputs_.assign(static_cast<size_t>(world), expected_);
  reduce(data_type, op, static_cast<size_t>(ranks_per_node == 0 ? world : ranks_per_node), &seed);
}

Pool::Pool(int32_t data_type, int32_t op, int world, uint64_t elements, int ranks_per_node, const Bits& bits)
    : elements_(elements), size_(element_bytes(data_type)) {
  expected_.resize(elements * size_);
  inputs_.assign(static_cast<size_t>(world), expected_);
  for (uint64_t rank = 0; rank < inputs_.size(); ++rank) {
    for (uint64_t place = 0; place < elements; ++place) {
      const uint64_t value = bits(rank, place);
      std::memcpy(inputs_[rank].data() + place * size_, &value, size_);
    }
  }
  reduce(data_type, op, static_cast<size_t>(ranks_per_node == 0 ? world : ranks_per_node), nullptr);
}

void Pool::reduce(int32_t data_type, int32_t op, size_t node, const uint64_t* seed) {
  switch (data_type) {
    case NVRAR_INT8:
      make<Plain<int8_t, uint8_t, 0>>(op, seed, node, &inputs_, &expected_);
      break;
    case NVRAR_UINT8:
      make<Plain<uint8_t, uint8_t, 0>>(op, seed, node, &inputs_, &expected_);
      break;
    case NVRAR_INT32:
      make<Plain<int32_t, uint32_t, 0>>(op, seed, node, &inputs_, &expected_);
      break;
    case NVRAR_INT64:
      make<Plain<int64_t, uint64_t, 0>>(op, seed, node, &inputs_, &expected_);
      break;
    case NVRAR_FLOAT16:
      make<Half>(op, seed, node, &inputs_, &expected_);
      break;
    case NVRAR_BFLOAT16:
      make<Brain>(op, seed, node, &inputs_, &expected_);
      break;
    case NVRAR_FLOAT32:
      make<Single>(op, seed, node, &inputs_, &expected_);
      break;
    default:
      make<Double>(op, seed, node, &inputs_, &expected_);
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
