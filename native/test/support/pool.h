// Inputs and expected results of reductions, computed once and read through windows, so that thousands of calls with
// different data cost one reference computation.
#ifndef NVRAR_TEST_SUPPORT_POOL_H
#define NVRAR_TEST_SUPPORT_POOL_H

#include <nvrar.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace nvrar::test {

constexpr int32_t kTypes[] = {NVRAR_FLOAT32, NVRAR_FLOAT16, NVRAR_BFLOAT16, NVRAR_FLOAT64,
                              NVRAR_INT8,    NVRAR_UINT8,   NVRAR_INT32,    NVRAR_INT64};
constexpr int32_t kOps[] = {NVRAR_SUM, NVRAR_PRODUCT, NVRAR_MAX, NVRAR_MIN, NVRAR_AVG};

struct Reduction {
  int32_t data_type;
  int32_t op;
};
// Every pair of a type and an operator that is defined for it.
const std::vector<Reduction>& reductions();

uint64_t mix(uint64_t value);  // splitmix64: a random sequence by its index, the same on every rank

// Under a sanitizer tests are shortened instead of left out. The thread sanitizer makes calls the most expensive, and
// what it looks for (two accesses without an order) shows in the first calls of a kind: with these factors its whole
// run takes half a minute on two cores, and about a minute where they are shared.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kFewerRepetitions = 20;
constexpr uint64_t kFewerCases = 6;
#elif defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kFewerRepetitions = 10;
constexpr uint64_t kFewerCases = 2;
#else
constexpr uint64_t kFewerRepetitions = 1;
constexpr uint64_t kFewerCases = 1;
#endif
constexpr uint64_t repetitions(uint64_t full) { return full < kFewerRepetitions ? 1 : full / kFewerRepetitions; }
// Selects cases from a list that is run in several settings, so that each case runs in some of them.
constexpr bool runs_case(uint64_t number, uint64_t setting) { return (number + setting) % kFewerCases == 0; }

// The reference is independent of the library's sources: it uses the compiler's own types, in the one order of sums
// (protocol.md 10).
class Pool {
 public:
  // ranks_per_node: as in nvrar_config, 0 is one node.
  Pool(int32_t data_type, int32_t op, int world, uint64_t elements, uint64_t seed, int ranks_per_node = 0);
  // A pool of chosen bits, as a function of the rank and the element's index.
  using Bits = std::function<uint64_t(uint64_t rank, uint64_t place)>;
  Pool(int32_t data_type, int32_t op, int world, uint64_t elements, int ranks_per_node, const Bits& bits);
  const uint8_t* input(int rank, uint64_t first) const {
    return inputs_[static_cast<size_t>(rank)].data() + first * size_;
  }
  const uint8_t* expected(uint64_t first) const { return expected_.data() + first * size_; }

 private:
  void reduce(int32_t data_type, int32_t op, size_t ranks_per_node, const uint64_t* seed);

  uint64_t elements_;
  uint64_t size_;
  std::vector<std::vector<uint8_t>> inputs_;
  std::vector<uint8_t> expected_;
};

// Memory at a chosen distance from an alignment boundary, between guard bands.
class GuardedBuffer {
 public:
  GuardedBuffer(uint64_t bytes, uint64_t offset_bytes);
  uint8_t* data() { return storage_.data() + begin_; }
  uint64_t address() { return reinterpret_cast<uint64_t>(data()); }
  bool guards_intact() const;
  // The whole memory, including the guard bands.
  std::span<uint8_t> storage() { return storage_; }

 private:
  uint64_t bytes_;
  uint64_t begin_ = 0;
  std::vector<uint8_t> storage_;
};

// "" if equal, else a description of the first difference.
std::string difference(const uint8_t* got, const uint8_t* expected, uint64_t bytes);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_POOL_H
