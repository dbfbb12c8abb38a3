#include "cpu/fused_rows.h"

#include <xmmintrin.h>

#include "cpu/vector_elements.h"
#include "protocol/fusion.h"

namespace nvrar::cpu {
namespace {

using protocol::kPacketBytes;
using protocol::Packet;

constexpr uint32_t kWords = kPacketBytes / sizeof(float);
constexpr uint32_t kPartPackets = protocol::kPartBytes / kPacketBytes;
constexpr uint32_t kLaneVectors = protocol::kRowLanes / kWords;
constexpr uint32_t kMostParts = NVRAR_MAX_HIDDEN * sizeof(float) / protocol::kPartBytes;
// So many parts make a vector of runs.
constexpr uint32_t kPartsTogether = protocol::kRunParts * kWords;
static_assert(kMostParts % kPartsTogether == 0 && protocol::kRunParts == 4 && protocol::kPartWords == 32);

// The elements of a packet, in float32.
template <class Element>
struct Floats {
  using Type = Wide<Element>;

  explicit NVRAR_HD Floats(Packet packet) { Type::widen(packet, parts); }
  static NVRAR_HD Floats at(const uint8_t* from) { return Floats(load_vector(from)); }
  NVRAR_HD Packet rounded() const { return Type::narrow(parts); }

  NVRAR_HD Floats operator+(const Floats& other) const {
    Floats sum = *this;
    for (int i = 0; i < Type::kParts; ++i) sum.parts[i] += other.parts[i];
    return sum;
  }
  NVRAR_HD Floats operator*(const Floats& other) const {
    Floats product = *this;
    for (int i = 0; i < Type::kParts; ++i) product.parts[i] *= other.parts[i];
    return product;
  }
  NVRAR_HD Floats operator*(float factor) const {
    Floats product = *this;
    for (int i = 0; i < Type::kParts; ++i) product.parts[i] *= factor;
    return product;
  }
  // Of the packet's words.
  NVRAR_HD FloatVector squares() const {
    if constexpr (Type::kParts == 1) {
      return parts[0] * parts[0];
    } else {
      return parts[0] * parts[0] + parts[1] * parts[1];
    }
  }

  FloatVector parts[Type::kParts];
};

NVRAR_HD FloatVector add_adjacent(FloatVector a, FloatVector b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

// The balanced binary tree of adjacent ones among 32 words of a part or 32 lanes.
NVRAR_HD float tree_sum(FloatVector* sums) {
  static_assert(kPartPackets == 8 && kLaneVectors == 8);
  for (uint32_t count = 4; count != 0; count /= 2) {
    for (uint32_t i = 0; i < count; ++i) {
      sums[i] = protocol::planted(protocol::Defect::kDistantSums) ? sums[i] + sums[i + count]
                                                                  : add_adjacent(sums[2 * i], sums[2 * i + 1]);
    }
  }
  const FloatVector pairs = add_adjacent(sums[0], sums[0]);
  return pairs[0] + pairs[1];
}

// y = x + addend.
template <class Element>
void add(const uint8_t* x, const uint8_t* addend, uint8_t* y, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPacketBytes) {
    store_vector(y + at, (Floats<Element>::at(x + at) + Floats<Element>::at(addend + at)).rounded());
  }
}

// Stores h = x + residual, and the sums of the squares of its parts as float32.
template <class Element>
void add_residual(const uint8_t* x, const uint8_t* residual, uint8_t* h, uint32_t bytes, uint8_t* squares) {
  const uint32_t parts = protocol::parts_of(bytes);
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t first = part * protocol::kPartBytes;
    const uint32_t left = (bytes - first) / kPacketBytes;
    const uint32_t packets = left < kPartPackets ? left : kPartPackets;
    FloatVector words[kPartPackets] = {};
    for (uint32_t i = 0; i < packets; ++i) {
      const uint32_t at = first + i * kPacketBytes;
      const Packet stored = (Floats<Element>::at(x + at) + Floats<Element>::at(residual + at)).rounded();
      store_vector(h + at, stored);
      words[i] = Floats<Element>(stored).squares();
    }
    const uint32_t sum = protocol::Float32::narrow(tree_sum(words));
    __builtin_memcpy(squares + part * sizeof sum, &sum, sizeof sum);
  }
}

// y = (h * scale) * weight.
template <class Element>
void multiply(const uint8_t* h, float scale, const uint8_t* weight, uint8_t* y, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += kPacketBytes) {
    store_vector(y + at, (Floats<Element>::at(h + at) * scale * Floats<Element>::at(weight + at)).rounded());
  }
}

// squares: of the row's parts, and zeros up to a multiple of kPartsTogether.
float sum_of_row(const FloatVector* squares, uint32_t parts) noexcept {
  FloatVector lanes[kLaneVectors] = {};
  for (uint32_t first = 0, turn = 0; first < parts; first += kPartsTogether, ++turn) {
    const FloatVector* const of_runs = squares + first / kWords;
    lanes[turn % kLaneVectors] +=
        add_adjacent(add_adjacent(of_runs[0], of_runs[1]), add_adjacent(of_runs[2], of_runs[3]));
  }
  return tree_sum(lanes);
}

float scale_of(float sum, uint32_t hidden, float eps) noexcept {
  const float mean = sum / static_cast<float>(hidden);
  const float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps)));  // std::sqrt may call libm
  return 1.0f / root;
}

// x and output are those of this row. The other addresses are added as integers, because one that the form does not use
// is null.
template <class Element>
void fuse_row(const Fusion& fusion, const uint8_t* x, uint64_t row, uint32_t bytes, uint8_t* output) noexcept {
  const auto* const residual = reinterpret_cast<const uint8_t*>(fusion.residual + row * bytes);
  const auto* const weight = reinterpret_cast<const uint8_t*>(fusion.weight);
  auto* const residual_out = reinterpret_cast<uint8_t*>(fusion.residual_out + row * bytes);
  const uint32_t parts = protocol::parts_of(bytes);
  switch (fusion.form) {
    case NVRAR_FUSION_RESIDUAL:
      return add<Element>(x, residual, output, bytes);
    case NVRAR_FUSION_BIAS:
      return add<Element>(x, weight, output, bytes);
    case NVRAR_FUSION_RMS_NORM: {
      FloatVector squares[kMostParts / kWords];
      const uint32_t filled = (parts + kPartsTogether - 1) / kPartsTogether * kPartsTogether / kWords;
      for (uint32_t i = 0; i < filled; ++i) squares[i] = FloatVector{};
      add_residual<Element>(x, residual, residual_out, bytes, reinterpret_cast<uint8_t*>(squares));
      const float scale = scale_of(sum_of_row(squares, parts), fusion.hidden, fusion.eps);
      return multiply<Element>(residual_out, scale, weight, output, bytes);
    }
    default: {  // NVRAR_FUSION_RMS_FOLD
      auto* const squares = reinterpret_cast<uint8_t*>(fusion.squares + row * parts * sizeof(float));
      add_residual<Element>(x, residual, residual_out, bytes, squares);
      return multiply<Element>(residual_out, 1.0f, weight, output, bytes);  // h * 1 is h
    }
  }
}

template <class Element>
void fuse(const Fusion& fusion, const uint8_t* sums, uint8_t* output) noexcept {
  const uint32_t bytes = fusion.hidden * Element::kBytes;
  for (uint64_t row = 0; row < fusion.rows; ++row) {
    fuse_row<Element>(fusion, sums + row * bytes, row, bytes, output + row * bytes);
  }
}

}  // namespace

void fuse_rows(const Fusion& fusion, int32_t data_type, const uint8_t* sums, uint8_t* output) noexcept {
  switch (data_type) {
    case NVRAR_BFLOAT16:
      return fuse<protocol::Bfloat16>(fusion, sums, output);
    case NVRAR_FLOAT16:
      return fuse<protocol::Float16>(fusion, sums, output);
    default:  // no other type passes check_fusion
      return fuse<protocol::Float32>(fusion, sums, output);
  }
}

}  // namespace nvrar::cpu
