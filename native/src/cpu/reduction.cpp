#include "cpu/reduction.h"

#include "cpu/vector_elements.h"
#include "cpu/visit_reduction.h"

namespace nvrar::cpu {
namespace {

using protocol::kMaxRanks;
using protocol::kPacketBytes;
using protocol::Packet;

// The number of vectors that are summed in parallel: their additions do not depend on each other, and all of them fit
// into registers.
constexpr uint32_t kTile = 4;

template <uint32_t kVectors, class Accumulator, class Store>
NVRAR_HD void sum_tile(const uint8_t* const* runs, uint32_t count, uint32_t first, Store store) {
  const auto at = [&](uint32_t source, uint32_t i) { return load_vector(runs[source] + (first + i) * kPacketBytes); };
  if constexpr (kVectors == 1) {
    Accumulator sum(at(0, 0));
    for (uint32_t s = 1; s < count; ++s) sum.combine(at(s, 0));
    store(first, sum);
  } else {
    static_assert(kVectors == 4);
    Accumulator a(at(0, 0));
    Accumulator b(at(0, 1));
    Accumulator c(at(0, 2));
    Accumulator d(at(0, 3));
    for (uint32_t s = 1; s < count; ++s) {
      a.combine(at(s, 0));
      b.combine(at(s, 1));
      c.combine(at(s, 2));
      d.combine(at(s, 3));
    }
    store(first, a);
    store(first + 1, b);
    store(first + 2, c);
    store(first + 3, d);
  }
}

template <class Accumulator, class Store>
NVRAR_HD void sum_vectors(const uint8_t* const* runs, uint32_t count, uint32_t vectors, Store store) {
  uint32_t first = 0;
  for (; first + kTile <= vectors; first += kTile) sum_tile<kTile, Accumulator>(runs, count, first, store);
  for (; first < vectors; ++first) sum_tile<1, Accumulator>(runs, count, first, store);
}

template <class Element, class Op>
void sum(const uint8_t* const* runs, uint32_t count, uint32_t world, uint8_t* to, uint32_t vectors) {
  using Accumulator = VectorAccumulator<Element, Op>;
  sum_vectors<Accumulator>(
      runs, count, vectors, [&](uint32_t v, const Accumulator& done) __attribute__((always_inline)) {
        store_vector(to + v * kPacketBytes, done.finish(world));
      });
}

template <class Element, class Op>
void partial_sum(const uint8_t* const* runs, uint32_t count, Partial* to, uint32_t vectors) {
  using Accumulator = VectorAccumulator<Element, Op>;
  constexpr uint32_t kParts = Accumulator::kPartialPackets;
  sum_vectors<Accumulator>(
      runs, count, vectors, [&](uint32_t v, const Accumulator& done) __attribute__((always_inline)) {
        for (uint32_t i = 0; i < kParts; ++i) to->packets[v * kParts + i] = done.partial(static_cast<int>(i));
      });
}

template <class Element, class Op>
void combine(Partial* lower, const Partial& upper, uint32_t vectors) {
  using Accumulator = VectorAccumulator<Element, Op>;
  constexpr uint32_t kParts = Accumulator::kPartialPackets;
  for (uint32_t v = 0; v < vectors; ++v) {
    Accumulator both = Accumulator::of_partials(lower->packets + v * kParts);
    both.combine(Accumulator::of_partials(upper.packets + v * kParts));
    for (uint32_t i = 0; i < kParts; ++i) lower->packets[v * kParts + i] = both.partial(static_cast<int>(i));
  }
}

// Level by level: sums 2i and 2i + 1 are combined, an odd last one passes up unchanged (protocol.md 10).
template <class Element, class Op>
void finish(const Partial* of_nodes, uint32_t nodes, uint32_t world, uint8_t* to, uint32_t vectors) {
  using Accumulator = VectorAccumulator<Element, Op>;
  constexpr uint32_t kParts = Accumulator::kPartialPackets;
  static_assert(kParts <= kMaxPartialParts && kParts == protocol::kPartialParts<Element>);
  Packet level[kMaxRanks][kParts];
  for (uint32_t v = 0; v < vectors; ++v) {
    for (uint32_t node = 0; node < nodes; ++node) {
      for (uint32_t i = 0; i < kParts; ++i) level[node][i] = of_nodes[node].packets[v * kParts + i];
    }
    for (uint32_t left = nodes; left > 1; left = (left + 1) / 2) {
      for (uint32_t pair = 0; pair < (left + 1) / 2; ++pair) {
        Accumulator both = Accumulator::of_partials(level[2 * pair]);
        if (2 * pair + 1 < left) both.combine(Accumulator::of_partials(level[2 * pair + 1]));
        for (uint32_t i = 0; i < kParts; ++i) level[pair][i] = both.partial(static_cast<int>(i));
      }
    }
    store_vector(to + v * kPacketBytes, Accumulator::of_partials(level[0]).finish(world));
  }
}

template <class Element, class Op>
constexpr Reduction kReduction = {VectorAccumulator<Element, Op>::kPartialPackets, sum<Element, Op>,
                                  partial_sum<Element, Op>, combine<Element, Op>, finish<Element, Op>};

}  // namespace

const Reduction& reduction_of(int32_t data_type, int32_t op) noexcept {
  return *visit_reduction(data_type, op, []<class Element, class Op>() { return &kReduction<Element, Op>; });
}

}  // namespace nvrar::cpu
