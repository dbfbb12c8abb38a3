// What a fused all-reduce reads and writes besides the input and the output of its problem, and whether all that it has
// written is right. The sums and what is added to them are whole numbers, so that only the RMS norm is not exact; the
// expectation is computed in float64 and shares nothing with the library.
#ifndef NVRAR_BENCH_FUSED_PROBLEM_H
#define NVRAR_BENCH_FUSED_PROBLEM_H

#include <cstdint>
#include <vector>

#include "problem.h"

namespace nvrar::bench {

// The contents of the buffers, empty where the form has none. All ranks have the same residual and weight.
struct FusedData {
  explicit FusedData(const Problem& problem);
  // Residual and weight.
  void fill(const Problem& problem, uint64_t seed);

  std::vector<uint8_t> residual;
  std::vector<uint8_t> weight;
  std::vector<uint8_t> residual_out;
  std::vector<uint8_t> squares;
};

// How many elements of the output, residual_out and squares are not what that seed gives. Of the RMS norm the output
// may be off by so many units in the last place: 1 of 16-bit types, which is one rounding and what float32 adds to it,
// 16 of float32, where a row's sum has as many roundings as the longest chain of its additions.
uint64_t wrong_of_fused(const Problem& problem, uint64_t seed, const uint8_t* output, const FusedData& written);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_FUSED_PROBLEM_H
