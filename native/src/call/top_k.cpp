#include "call/top_k.h"

#include <limits>

namespace nvrar {
namespace {

[[noreturn]] void invalid(const std::string& sentence) { throw Error(NVRAR_INVALID_ARGUMENT, sentence); }

void check_apart(Range a, const char* name_of_a, Range b, const char* name_of_b) {
  if (overlap(a, b)) invalid(std::string(name_of_a) + " and " + name_of_b + " overlap");
}

}  // namespace

TopK checked_top_k(const nvrar_selection& given) {
  const int32_t type = given.data_type;
  if (type != NVRAR_FLOAT32 && type != NVRAR_FLOAT16 && type != NVRAR_BFLOAT16) {
    invalid("a top-k is of bfloat16, float16 or float32, and the elements are " +
            (element_bytes(type) == 0 ? "type " + std::to_string(type) : std::string(element_type(type).name)));
  }
  if (given.k < 1 || given.k > NVRAR_MAX_TOP_K) {
    invalid("k is " + std::to_string(given.k) + ", must be 1 to " + std::to_string(NVRAR_MAX_TOP_K));
  }
  constexpr uint64_t kMostIndices = uint64_t{std::numeric_limits<int32_t>::max()} + 1;
  if (given.columns > kMostIndices || given.first_index > kMostIndices - given.columns) {
    invalid("the indices of " + std::to_string(given.columns) + " columns from " + std::to_string(given.first_index) +
            " on reach past those of an int32");
  }
  const TopK top_k{type,
                   given.rows,
                   given.k,
                   static_cast<uint32_t>(given.columns),
                   static_cast<uint32_t>(given.first_index),
                   given.input,
                   given.values,
                   given.indices};
  if (top_k.rows == 0) return top_k;
  const uint32_t size = element_bytes(type);
  if (given.columns != 0 && top_k.rows > std::numeric_limits<uint64_t>::max() / size / given.columns) {
    invalid(std::to_string(top_k.rows) + " rows of " + std::to_string(given.columns) +
            " columns do not fit into the address space");
  }
  const uint64_t places = uint64_t{top_k.rows} * top_k.k;
  const auto name = [](const char* of) { return [of] { return std::string(of); }; };
  const Range indices = check_range(name("indices"), top_k.indices, places * sizeof(int32_t), sizeof(int32_t));
  Range values{};
  if (top_k.values != 0) values = check_range(name("values"), top_k.values, places * size, size);
  Range input{};
  if (top_k.columns != 0) {
    input = check_range(name("input"), top_k.input, uint64_t{top_k.rows} * top_k.columns * size, size);
  }
  check_apart(values, "values", indices, "indices");
  check_apart(input, "input", indices, "indices");
  check_apart(input, "input", values, "values");
  return top_k;
}

Call gather_of_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, const KeyRoom& room) noexcept {
  Call call{NVRAR_ALL_GATHER, room.own, room.all, uint64_t{rows} * top_k.k, NVRAR_INT64};
  call.top_k = &top_k;
  call.first_row = first_row;
  return call;
}

}  // namespace nvrar
