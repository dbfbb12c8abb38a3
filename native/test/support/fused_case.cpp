#include "support/fused_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "call/call.h"
#include "support/gpu.h"
#include "support/numbers.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint8_t kUntouched = 0x5B;
constexpr size_t kPartWords = 32;
constexpr size_t kLanes = 32;

template <class Visit>
auto visit_type(int32_t data_type, Visit visit) {
  if (data_type == NVRAR_BFLOAT16) return visit.template operator()<Brain>();
  if (data_type == NVRAR_FLOAT16) return visit.template operator()<Half>();
  return visit.template operator()<Single>();
}

template <class Type>
float number_at(const uint8_t* elements, uint64_t place) {
  typename Type::Bits bits;
  std::memcpy(&bits, elements + place * sizeof bits, sizeof bits);
  return Type::number(bits);
}
template <class Type>
float store_at(std::vector<uint8_t>* elements, uint64_t place, float number) {
  const typename Type::Bits bits = Type::bits(number);
  std::memcpy(elements->data() + place * sizeof bits, &bits, sizeof bits);
  return Type::number(bits);
}

// Adjacent numbers are combined as a balanced binary tree.
float tree(std::vector<float> level) {
  while (level.size() > 1) {
    for (size_t i = 0; i < level.size() / 2; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    level.resize(level.size() / 2);
  }
  return level[0];
}

// The sums of the squares of a row's parts.
template <class Type>
std::vector<float> sums_of_parts(const std::vector<float>& h, bool contracted) {
  std::vector<float> words;
  if constexpr (sizeof(typename Type::Bits) == 2) {
    for (size_t i = 0; i < h.size(); i += 2) words.push_back(h[i] * h[i] + h[i + 1] * h[i + 1]);
  } else if (contracted) {
    for (size_t i = 0; i < h.size(); i += 2) {  // the two words as one: a word more has no square of its own
      words.push_back(std::fma(h[i + 1], h[i + 1], h[i] * h[i]));
      words.push_back(0);
    }
  } else {
    for (const float number : h) words.push_back(number * number);
  }
  std::vector<float> parts;
  for (size_t first = 0; first < words.size(); first += kPartWords) {
    std::vector<float> part(kPartWords, 0.0f);
    std::copy_n(words.begin() + static_cast<int64_t>(first), std::min(kPartWords, words.size() - first), part.begin());
    parts.push_back(tree(part));
  }
  return parts;
}

float sum_of_row(std::vector<float> parts) {
  parts.resize((parts.size() + 3) / 4 * 4, 0.0f);
  std::vector<float> lanes(kLanes, 0.0f);
  for (size_t i = 0; i < parts.size() / 4; ++i) {
    lanes[i % kLanes] += (parts[4 * i] + parts[4 * i + 1]) + (parts[4 * i + 2] + parts[4 * i + 3]);
  }
  return tree(lanes);
}

template <class Type>
FusedResult reference(const FusedCase& c, const FusedData& data, bool contracted) {
  const uint8_t* const x = data.sums.expected(c.first);
  const uint8_t* const r = data.residual.data() + c.first * sizeof(typename Type::Bits);
  FusedResult result;
  result.output.resize(c.bytes());
  if (c.has_residual_out()) result.residual_out.resize(c.bytes());
  if (c.has_squares()) result.squares.resize(c.rows * c.parts() * sizeof(float));
  for (uint64_t row = 0; row < c.rows; ++row) {
    const uint64_t begin = row * c.hidden;
    if (!c.has_residual_out()) {
      for (uint64_t i = 0; i < c.hidden; ++i) {
        const float other = c.has_weight() ? number_at<Type>(data.weight.data(), i) : number_at<Type>(r, begin + i);
        store_at<Type>(&result.output, begin + i, number_at<Type>(x, begin + i) + other);
      }
      continue;
    }
    std::vector<float> h(c.hidden);
    for (uint64_t i = 0; i < c.hidden; ++i) {
      h[i] = store_at<Type>(&result.residual_out, begin + i,
                            number_at<Type>(x, begin + i) + number_at<Type>(r, begin + i));
    }
    const std::vector<float> parts = sums_of_parts<Type>(h, contracted);
    for (uint64_t i = 0; i < parts.size() && c.has_squares(); ++i) {
      store_at<Single>(&result.squares, row * parts.size() + i, parts[i]);
    }
    const float mean = sum_of_row(parts) / static_cast<float>(c.hidden);
    const float s = 1.0f / std::sqrt(mean + c.eps);
    for (uint64_t i = 0; i < c.hidden; ++i) {
      const float scaled = c.form == NVRAR_FUSION_RMS_NORM ? h[i] * s : h[i];
      store_at<Type>(&result.output, begin + i, scaled * number_at<Type>(data.weight.data(), i));
    }
  }
  return result;
}

// The distance of the type's numbers round this one.
template <class Type>
double ulp_at(double number) {
  const int mantissa = std::is_same_v<Type, Single> ? 23 : std::is_same_v<Type, Half> ? 10 : 7;
  const int lowest = std::is_same_v<Type, Half> ? -14 : -126;
  return std::ldexp(1.0, std::max(number == 0 ? lowest : std::ilogb(number), lowest) - mantissa);
}

template <class Type>
double error_of(const FusedCase& c, const FusedData& data, const FusedResult& result) {
  const uint8_t* const x = data.sums.expected(c.first);
  const uint8_t* const r = data.residual.data() + c.first * sizeof(typename Type::Bits);
  double largest = 0;
  for (uint64_t row = 0; row < c.rows; ++row) {
    const uint64_t begin = row * c.hidden;
    const auto h = [&](uint64_t i) { return double{number_at<Type>(result.residual_out.data(), begin + i)}; };
    double squares = 0;
    for (uint64_t i = 0; i < c.hidden && c.has_residual_out(); ++i) squares += h(i) * h(i);
    const double s = c.form == NVRAR_FUSION_RMS_NORM ? 1 / std::sqrt(squares / c.hidden + double{c.eps}) : 1;
    for (uint64_t i = 0; i < c.hidden; ++i) {
      const auto w = [&] { return double{number_at<Type>(data.weight.data(), i)}; };
      const double exact = c.has_residual_out() ? h(i) * s * w()
                                                : double{number_at<Type>(x, begin + i)} +
                                                      (c.has_weight() ? w() : double{number_at<Type>(r, begin + i)});
      const double got = number_at<Type>(result.output.data(), begin + i);
      largest = std::max(largest, std::fabs(got - exact) / ulp_at<Type>(exact));
    }
  }
  return largest;
}

std::vector<uint8_t> bytes_of(int32_t data_type, uint64_t elements, const Pool::Bits& bits) {
  const uint64_t size = element_bytes(data_type);
  std::vector<uint8_t> bytes(elements * size);
  for (uint64_t place = 0; place < elements; ++place) {
    const uint64_t value = bits(0, place);
    std::memcpy(bytes.data() + place * size, &value, size);
  }
  return bytes;
}

// Numbers of both signs between 2^-4 and 4, of many magnitudes.
Pool::Bits random_numbers(int32_t data_type, uint64_t seed) {
  return [=](uint64_t rank, uint64_t place) {
    const uint64_t random = mix(seed * 1000003 + rank * 0x9E3779B97F4A7C15ULL + place);
    const double fraction = static_cast<double>(random >> 12) * 0x1p-52 + 1;  // from 1 to 2
    return bits_of(data_type,
                   std::ldexp(random % 2 == 0 ? fraction : -fraction, static_cast<int>(random >> 1 & 7) - 6));
  };
}

const char* name_of(Place place) {
  return place == Place::kApart ? "apart" : place == Place::kInput ? "at the input" : "at the residual";
}

// A buffer of the call and its copy on a GPU, if there is one.
struct Buffer {
  Buffer(int rank, uint64_t* at, uint64_t bytes, uint64_t distance, const uint8_t* content)
      : memory(bytes, distance % 4 * 16), size(bytes) {
    if (content != nullptr) {
      std::memcpy(memory.data(), content, bytes);
    } else {
      std::memset(memory.data(), kUntouched, bytes);
    }
    image = std::make_unique<Image>(rank, *at, &memory);
    *at = image->end();
  }
  uint64_t address() { return size == 0 ? 0 : image->address(memory.data()); }

  GuardedBuffer memory;
  uint64_t size;
  std::unique_ptr<Image> image;
};

}  // namespace

uint64_t FusedCase::row_bytes() const { return uint64_t{hidden} * element_bytes(data_type); }

std::string describe_case(const FusedCase& c) {
  nvrar_call record{};
  record.collective = NVRAR_ALL_REDUCE;
  record.data_type = c.data_type;
  record.algorithm = c.algorithm;
  record.count = uint64_t{c.rows} * c.hidden;
  record.fusion = c.form;
  record.hidden = c.hidden;
  return describe(record) + " eps " + std::to_string(c.eps) + " window " + std::to_string(c.first) + ", output " +
         name_of(c.output) + ", residual_out " + name_of(c.residual_out) + ", distance " + std::to_string(c.distance);
}

std::vector<std::pair<Place, Place>> places(int32_t form) {
  std::vector<std::pair<Place, Place>> all;
  const FusedCase c{.form = form};
  for (const Place output : {Place::kApart, Place::kInput, Place::kResidual}) {
    if (output == Place::kResidual && !c.has_residual()) continue;
    for (const Place residual_out : {Place::kApart, Place::kInput, Place::kResidual}) {
      if (residual_out != Place::kApart && (!c.has_residual_out() || residual_out == output)) continue;
      all.emplace_back(output, residual_out);
    }
  }
  return all;
}

FusedData::FusedData(int32_t data_type, int world, int ranks_per_node, uint64_t elements, uint64_t seed)
    : FusedData(data_type, world, ranks_per_node, elements, random_numbers(data_type, 3 * seed),
                random_numbers(data_type, 3 * seed + 1), random_numbers(data_type, 3 * seed + 2)) {}

FusedData::FusedData(int32_t data_type, int world, int ranks_per_node, uint64_t elements, const Pool::Bits& inputs,
                     const Pool::Bits& residuals, const Pool::Bits& weights)
    : sums(data_type, NVRAR_SUM, world, elements, ranks_per_node, inputs),
      residual(bytes_of(data_type, elements, residuals)),
      weight(bytes_of(data_type, std::min<uint64_t>(elements, NVRAR_MAX_HIDDEN), weights)) {}

uint64_t bits_of(int32_t data_type, double number) {
  return visit_type(data_type,
                    [&]<class Type>() { return static_cast<uint64_t>(Type::bits(static_cast<float>(number))); });
}

FusedResult fused_reference(const FusedCase& c, const FusedData& data, bool contracted) {
  return visit_type(c.data_type, [&]<class Type>() { return reference<Type>(c, data, contracted); });
}

double largest_error(const FusedCase& c, const FusedData& data, const FusedResult& result) {
  return visit_type(c.data_type, [&]<class Type>() { return error_of<Type>(c, data, result); });
}

nvrar_fused_all_reduce fused_call_of(const FusedCase& c) {
  nvrar_fused_all_reduce call{};
  call.size = sizeof call;
  call.form = c.form;
  call.data_type = c.data_type;
  call.algorithm = c.algorithm;
  call.rows = c.rows;
  call.hidden = c.hidden;
  call.eps = c.form == NVRAR_FUSION_RMS_NORM ? c.eps : 0;
  return call;
}

void run_case(int rank, nvrar_comm* comm, const FusedCase& c, const FusedData& data, const FusedResult& expected) {
  const uint64_t size = element_bytes(c.data_type);
  const uint64_t bytes = c.bytes();
  const uint8_t* const given = data.sums.input(rank, c.first);
  const uint8_t* const other = data.residual.data() + c.first * size;
  uint64_t at = 0;
  Buffer input(rank, &at, bytes, c.distance, given);
  Buffer residual(rank, &at, c.has_residual() ? bytes : 0, c.distance + 1, other);
  Buffer weight(rank, &at, c.has_weight() ? c.row_bytes() : 0, c.distance + 2, data.weight.data());
  Buffer output_apart(rank, &at, c.output == Place::kApart ? bytes : 0, c.distance + 3, nullptr);
  const bool stores_apart = c.has_residual_out() && c.residual_out == Place::kApart;
  Buffer residual_out_apart(rank, &at, stores_apart ? bytes : 0, c.distance * 2 + 1, nullptr);
  Buffer squares(rank, &at, expected.squares.size(), c.distance * 3 + 2, nullptr);
  const auto at_place = [&](Place place, Buffer* apart) {
    return place == Place::kApart ? apart : place == Place::kInput ? &input : &residual;
  };
  Buffer* const output = at_place(c.output, &output_apart);
  Buffer* const residual_out = at_place(c.residual_out, &residual_out_apart);

  nvrar_fused_all_reduce call = fused_call_of(c);
  call.input = input.address();
  call.residual = residual.address();
  call.weight = weight.address();
  call.residual_out = c.has_residual_out() ? residual_out->address() : 0;
  call.output = output->address();
  call.squares = squares.address();
  ASSERT_EQ(settled(rank, comm, nvrar_all_reduce_fused(comm, &call, stream_of(rank))), NVRAR_OK)
      << nvrar_last_error() << "; " << describe_case(c);
  count_checked_call();

  const auto check = [&](const char* name, Buffer& buffer, const uint8_t* content) {
    ASSERT_EQ(difference(buffer.memory.data(), content, buffer.size), "")
        << name << " on rank " << rank << ": " << describe_case(c);
  };
  for (Buffer* buffer : {&input, &residual, &weight, &output_apart, &residual_out_apart, &squares}) {
    buffer->image->fetch();
    ASSERT_TRUE(buffer->memory.guards_intact()) << "rank " << rank << ": " << describe_case(c);
  }
  ASSERT_NO_FATAL_FAILURE(check("output", *output, expected.output.data()));
  if (c.has_residual_out()) {
    ASSERT_NO_FATAL_FAILURE(check("residual_out", *residual_out, expected.residual_out.data()));
  }
  ASSERT_NO_FATAL_FAILURE(check("squares", squares, expected.squares.data()));
  const auto is_written = [&](const Buffer& buffer) {
    return &buffer == output || (c.has_residual_out() && &buffer == residual_out);
  };
  if (!is_written(input)) {
    ASSERT_NO_FATAL_FAILURE(check("the input", input, given));
  }
  if (!is_written(residual)) {
    ASSERT_NO_FATAL_FAILURE(check("the residual", residual, other));
  }
  ASSERT_NO_FATAL_FAILURE(check("the weight", weight, data.weight.data()));
}

}  // namespace nvrar::test
