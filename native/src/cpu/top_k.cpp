#include "cpu/top_k.h"

#include <algorithm>
#include <functional>

#include "protocol/top_key.h"

namespace nvrar::cpu {
namespace {

template <class Visit>
void visit_type(int32_t data_type, Visit visit) {
  if (data_type == NVRAR_FLOAT32) return visit(protocol::Float32());
  if (data_type == NVRAR_FLOAT16) return visit(protocol::Float16());
  visit(protocol::Bfloat16());
}

// A heap whose front is the least of the greatest keys so far.
template <class Element>
void find_in_row(const typename Element::Bits* row, const TopK& top_k, uint64_t* keys) noexcept {
  uint64_t* const end = keys + top_k.k;
  std::fill(keys, end, protocol::kNoKey);
  for (uint32_t column = 0; column < top_k.columns; ++column) {
    const uint64_t key = protocol::top_key(Element::widen(row[column]), top_k.first + column);
    if (key <= *keys) continue;
    std::pop_heap(keys, end, std::greater<>());
    end[-1] = key;
    std::push_heap(keys, end, std::greater<>());
  }
}

template <class Element>
void store_row(const TopK& top_k, uint64_t row, const uint64_t* sorted) noexcept {
  auto* const indices = reinterpret_cast<int32_t*>(top_k.indices) + row * top_k.k;
  auto* const values = reinterpret_cast<typename Element::Bits*>(top_k.values);
  for (uint32_t i = 0; i < top_k.k; ++i) {
    const auto [value, index] = protocol::chosen<Element>(sorted[i], sorted[0]);
    indices[i] = index;
    if (values != nullptr) values[row * top_k.k + i] = value;
  }
}

}  // namespace

void find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t* keys) noexcept {
  visit_type(top_k.data_type, [&]<class Element>(Element) {
    const auto* const input = reinterpret_cast<const typename Element::Bits*>(top_k.input);
    for (uint64_t row = 0; row < rows; ++row) {
      find_in_row<Element>(input + (first_row + row) * top_k.columns, top_k, keys + row * top_k.k);
    }
  });
}

void choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint32_t world, const uint64_t* keys,
            uint64_t* room_of_a_row) noexcept {
  const uint64_t of_a_rank = uint64_t{rows} * top_k.k;
  uint64_t* const end = room_of_a_row + uint64_t{world} * top_k.k;
  for (uint64_t row = 0; row < rows; ++row) {
    uint64_t* to = room_of_a_row;
    for (uint32_t rank = 0; rank < world; ++rank) {
      to = std::copy_n(keys + rank * of_a_rank + row * top_k.k, top_k.k, to);
    }
    std::partial_sort(room_of_a_row, room_of_a_row + top_k.k, end, std::greater<>());
    visit_type(top_k.data_type,
               [&]<class Element>(Element) { store_row<Element>(top_k, first_row + row, room_of_a_row); });
  }
}

}  // namespace nvrar::cpu
