#include "fused_problem.h"

#include <nvrar.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nvrar::bench {
namespace {

constexpr uint64_t kResidualSeed = 0x5265736964756121;
constexpr uint64_t kWeightSeed = 0x5765696768747321;
constexpr uint64_t kPartBytes = 128;
constexpr double kWeightUnit = 0.125;

// The numbers of a 16- or 32-bit type.
struct Format {
  int mantissa_bits;  // with the one that is not stored
  int least_exponent;
  double ulps;  // that an RMS norm may be off
};

Format format_of(int32_t data_type) {
  switch (data_type) {
    case NVRAR_BFLOAT16:
      return {8, -126, 1};
    case NVRAR_FLOAT16:
      return {11, -14, 1};
    default:
      return {24, -126, 16};
  }
}

double decode(int32_t data_type, const uint8_t* at) {
  uint16_t half = 0;
  float value = 0;
  if (data_type == NVRAR_FLOAT32) {
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::memcpy(&half, at, sizeof half);
  if (data_type == NVRAR_BFLOAT16) {
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const int exponent = half >> 10 & 0x1F;
  const int mantissa = half & 0x3FF;
  const double sign = half >> 15 != 0 ? -1 : 1;
  if (exponent == 0x1F) return mantissa != 0 ? NAN : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 0x400, exponent - 25));
}

// Of numbers that the type holds exactly.
void encode(int32_t data_type, double number, uint8_t* at) {
  const auto value = static_cast<float>(number);
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  uint16_t half = static_cast<uint16_t>(bits >> 16);
  if (data_type == NVRAR_FLOAT32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  if (data_type == NVRAR_FLOAT16 && number != 0) {
    const uint32_t exponent = (bits >> 23 & 0xFF) - 127 + 15;
    half = static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3FF));
  }
  std::memcpy(at, &half, sizeof half);
}

double ulp_of(const Format& format, double number) {
  const int exponent = number == 0 ? format.least_exponent : std::max(std::ilogb(number), format.least_exponent);
  return std::ldexp(1, exponent - format.mantissa_bits + 1);
}

class Reference {
 public:
  Reference(const Problem& problem, uint64_t seed)
      : problem_(problem),
        format_(format_of(problem.data_type)),
        element_bytes_(type_bytes(problem.data_type)),
        given_(problem),
        sums_(problem.sums(seed)) {
    given_.fill(problem, seed);
  }

  uint64_t wrong(const uint8_t* output, const FusedData& written) const {
    uint64_t wrong = 0;
    std::vector<double> row(problem_.hidden);
    for (uint32_t r = 0; r < problem_.rows(); ++r) {
      const uint64_t begin = uint64_t{r} * problem_.hidden;
      for (uint32_t i = 0; i < problem_.hidden; ++i) row[i] = stored(begin + i, i);
      const double scale = scale_of(row);
      for (uint32_t i = 0; i < problem_.hidden; ++i) {
        const uint64_t at = (begin + i) * element_bytes_;
        if (!written.residual_out.empty()) wrong += !is(row[i], 0, &written.residual_out[at]);
        wrong += !is(row[i] * scale * factor(i), tolerance(), output + at);
      }
      wrong += wrong_squares(r, row, written);
    }
    return wrong;
  }

 private:
  bool normalises() const { return problem_.form == NVRAR_FUSION_RMS_NORM || problem_.form == NVRAR_FUSION_RMS_FOLD; }

  double number(const std::vector<uint8_t>& of, uint64_t i) const {
    return decode(problem_.data_type, &of[i * element_bytes_]);
  }

  // The sum with what is added to it.
  double stored(uint64_t i, uint32_t column) const {
    return static_cast<double>(sums_[i]) +
           (problem_.form == NVRAR_FUSION_BIAS ? number(given_.weight, column) : number(given_.residual, i));
  }

  double scale_of(const std::vector<double>& row) const {
    if (problem_.form != NVRAR_FUSION_RMS_NORM) return 1;
    double squares = 0;
    for (double value : row) squares += value * value;
    return 1 / std::sqrt(squares / problem_.hidden + static_cast<double>(problem_.eps()));
  }

  double factor(uint32_t column) const { return normalises() ? number(given_.weight, column) : 1; }

  // In units in the last place; a product that is rounded once is off by half of one.
  double tolerance() const {
    return problem_.form == NVRAR_FUSION_RMS_NORM ? format_.ulps : problem_.form == NVRAR_FUSION_RMS_FOLD ? 0.5 : 0;
  }

  bool is(double expected, double ulps, const uint8_t* at) const {
    return std::fabs(decode(problem_.data_type, at) - expected) <= ulps * ulp_of(format_, expected);
  }

  // Whole numbers that float32 holds exactly, in whatever order they are added.
  uint64_t wrong_squares(uint32_t r, const std::vector<double>& row, const FusedData& written) const {
    if (written.squares.empty()) return 0;
    const uint64_t in_part = kPartBytes / element_bytes_;
    const uint64_t parts = (row.size() + in_part - 1) / in_part;
    uint64_t wrong = 0;
    for (uint64_t part = 0; part < parts; ++part) {
      double sum = 0;
      for (uint64_t i = part * in_part; i < std::min<uint64_t>((part + 1) * in_part, row.size()); ++i) {
        sum += row[i] * row[i];
      }
      wrong += decode(NVRAR_FLOAT32, &written.squares[(r * parts + part) * sizeof(float)]) != sum;
    }
    return wrong;
  }

  const Problem& problem_;
  const Format format_;
  const uint64_t element_bytes_;
  FusedData given_;
  const std::vector<int64_t> sums_;
};

}  // namespace

FusedData::FusedData(const Problem& problem) {
  const uint64_t row_bytes = uint64_t{problem.hidden} * type_bytes(problem.data_type);
  const uint64_t bytes = problem.rows() * row_bytes;
  const bool normalises = problem.form == NVRAR_FUSION_RMS_NORM || problem.form == NVRAR_FUSION_RMS_FOLD;
  if (problem.form != NVRAR_FUSION_BIAS) residual.resize(bytes);
  if (problem.form != NVRAR_FUSION_RESIDUAL) weight.resize(row_bytes);
  if (normalises) residual_out.resize(bytes);
  if (problem.form == NVRAR_FUSION_RMS_FOLD) {
    squares.resize(problem.rows() * ((row_bytes + kPartBytes - 1) / kPartBytes) * sizeof(float));
  }
}

void FusedData::fill(const Problem& problem, uint64_t seed) {
  const uint64_t element_bytes = type_bytes(problem.data_type);
  for (uint64_t i = 0; i < residual.size() / element_bytes; ++i) {
    encode(problem.data_type, small_number(seed ^ kResidualSeed, i), &residual[i * element_bytes]);
  }
  for (uint64_t i = 0; i < weight.size() / element_bytes; ++i) {
    const int number = small_number(seed ^ kWeightSeed, i);
    // A factor is never 0, so that each element of h shows in y.
    const double value = problem.form == NVRAR_FUSION_BIAS ? number : (number + 16) * kWeightUnit;
    encode(problem.data_type, value, &weight[i * element_bytes]);
  }
}

uint64_t wrong_of_fused(const Problem& problem, uint64_t seed, const uint8_t* output, const FusedData& written) {
  return Reference(problem, seed).wrong(output, written);
}

}  // namespace nvrar::bench
