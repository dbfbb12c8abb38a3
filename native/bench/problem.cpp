#include "problem.h"

#include <nvrar.h>

#include <algorithm>
#include <cstring>

namespace nvrar::bench {
namespace {

uint64_t mix(uint64_t value) {  // splitmix64
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ value >> 27) * 0x94D049BB133111EBULL;
  return value ^ value >> 31;
}

uint32_t float_bits(int64_t number) {
  const auto value = static_cast<float>(number);
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The numbers have at most 8 significant bits, so both 16-bit types hold them exactly.
uint16_t bfloat16_bits(int64_t number) { return static_cast<uint16_t>(float_bits(number) >> 16); }

uint16_t float16_bits(int64_t number) {
  if (number == 0) return 0;
  const uint32_t bits = float_bits(number);
  const uint32_t exponent = (bits >> 23 & 0xFF) - 127 + 15;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3FF));
}

// Calls body(encode), where encode turns a number into an element's bits.
template <class Body>
void with_type(int32_t data_type, const Body& body) {
  switch (data_type) {
    case NVRAR_INT8:
    case NVRAR_UINT8:
      return body([](int64_t number) { return static_cast<uint8_t>(number); });
    case NVRAR_INT64:
      return body([](int64_t number) { return number; });
    case NVRAR_FLOAT16:
      return body(float16_bits);
    case NVRAR_BFLOAT16:
      return body(bfloat16_bits);
    case NVRAR_FLOAT32:
      return body([](int64_t number) { return static_cast<float>(number); });
    case NVRAR_FLOAT64:
      return body([](int64_t number) { return static_cast<double>(number); });
    default:
      return body([](int64_t number) { return static_cast<int32_t>(number); });
  }
}

class Values {
 public:
  Values(const Problem& problem, uint64_t seed) : problem_(problem), seed_(mix(seed)) {}

  // Element i of what the rank sends.
  int64_t input(int rank, uint64_t i) const {
    const uint64_t random = mix(seed_ ^ (static_cast<uint64_t>(rank) << 56) ^ i);
    if (!reduces(problem_.collective)) return static_cast<int64_t>(random % 127);
    switch (problem_.op) {
      case NVRAR_PRODUCT:  // powers of two: eight of them multiply to at most 256
        return (random & 1 ? 2 : 1) * (random & 2 ? -1 : 1);
      case NVRAR_AVG:  // divisible, so that the mean is whole
        return small(random) * problem_.world;
      case NVRAR_MAX:
      case NVRAR_MIN:
        return problem_.data_type == NVRAR_UINT8 ? small(random) + 15 : small(random);
      default:
        return small(random);
    }
  }

  int64_t reduced(uint64_t i) const {
    int64_t result = input(0, i);
    for (int rank = 1; rank < problem_.world; ++rank) {
      const int64_t next = input(rank, i);
      switch (problem_.op) {
        case NVRAR_PRODUCT:
          result *= next;
          break;
        case NVRAR_MAX:
          result = std::max(result, next);
          break;
        case NVRAR_MIN:
          result = std::min(result, next);
          break;
        default:
          result += next;
      }
    }
    return problem_.op == NVRAR_AVG ? result / problem_.world : result;
  }

  // Element i of what the rank receives.
  int64_t expected(int rank, uint64_t i) const {
    const uint64_t part = static_cast<uint64_t>(rank) * problem_.count;
    const auto source = static_cast<int>(i / problem_.count);
    switch (problem_.collective) {
      case Collective::kAllGather:
        return input(source, i % problem_.count);
      case Collective::kAllToAll:
        return input(source, part + i % problem_.count);
      case Collective::kReduceScatter:
        return reduced(part + i);
      case Collective::kBroadcast:
        return input(problem_.root, i);
      case Collective::kSendReceive:
        return input((rank + problem_.world - 1) % problem_.world, i);
      default:
        return reduced(i);
    }
  }

 private:
  static int64_t small(uint64_t random) { return static_cast<int64_t>(random % 31) - 15; }

  const Problem& problem_;
  const uint64_t seed_;
};

}  // namespace

Problem Problem::of_size(const Options& options, Collective collective, uint64_t bytes) {
  Problem problem{collective, options.data_type, options.op, options.root, options.processes, 0};
  if (collective == Collective::kBarrier) return problem;
  problem.count = 1;
  const uint64_t parts = std::max(problem.send_elements(), problem.recv_elements());
  problem.count = std::max<uint64_t>(1, bytes / type_bytes(options.data_type) / parts);
  return problem;
}

Problem Problem::of_rows(const Options& options, uint32_t rows) {
  return {Collective::kAllReduce,          options.data_type, options.op,    options.root, options.processes,
          uint64_t{rows} * options.hidden, options.form,      options.hidden};
}

std::string Problem::name() const {
  if (form == 0) return name_of(collective);
  return std::string("fused-") + form_name(form) + "-" + std::to_string(hidden);
}

uint32_t Problem::rows() const { return static_cast<uint32_t>(count / hidden); }

float Problem::eps() const { return form == NVRAR_FUSION_RMS_NORM ? 1e-5f : 0; }

uint64_t Problem::send_elements() const {
  const bool all_parts = collective == Collective::kReduceScatter || collective == Collective::kAllToAll;
  return all_parts ? count * static_cast<uint64_t>(world) : count;
}

uint64_t Problem::recv_elements() const {
  const bool all_parts = collective == Collective::kAllGather || collective == Collective::kAllToAll;
  return all_parts ? count * static_cast<uint64_t>(world) : count;
}

uint64_t Problem::bytes() const { return std::max(send_elements(), recv_elements()) * type_bytes(data_type); }

bool Problem::has_in_place() const {
  return collective != Collective::kSendReceive && collective != Collective::kBarrier;
}

uint64_t Problem::send_offset_in_place(int rank) const {
  return collective == Collective::kAllGather ? static_cast<uint64_t>(rank) * count : 0;
}

uint64_t Problem::recv_offset_in_place(int rank) const {
  return collective == Collective::kReduceScatter ? static_cast<uint64_t>(rank) * count : 0;
}

double Problem::bus_factor() const {
  const double ranks = world;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (ranks - 1) / ranks;
    default:
      return 1;
  }
}

void Problem::fill(uint64_t seed, int rank, uint8_t* send) const {
  const Values values(*this, seed);
  with_type(data_type, [&](const auto& encode) {
    for (uint64_t i = 0; i < send_elements(); ++i) {
      const auto bits = encode(values.input(rank, i));
      std::memcpy(send + i * sizeof bits, &bits, sizeof bits);
    }
  });
}

uint64_t Problem::wrong(uint64_t seed, int rank, const uint8_t* recv) const {
  if (collective == Collective::kReduce && rank != root) return 0;
  const Values values(*this, seed);
  uint64_t wrong = 0;
  with_type(data_type, [&](const auto& encode) {
    for (uint64_t i = 0; i < recv_elements(); ++i) {
      const auto bits = encode(values.expected(rank, i));
      wrong += std::memcmp(recv + i * sizeof bits, &bits, sizeof bits) != 0;
    }
  });
  return wrong;
}

int small_number(uint64_t seed, uint64_t i) { return static_cast<int>(mix(mix(seed) ^ i) % 31) - 15; }

std::vector<int64_t> Problem::sums(uint64_t seed) const {
  const Values values(*this, seed);
  std::vector<int64_t> sums(count);
  for (uint64_t i = 0; i < count; ++i) sums[i] = values.reduced(i);
  return sums;
}

}  // namespace nvrar::bench
