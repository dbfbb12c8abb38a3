// The input and the expected output of every rank of a collective. The values are small whole numbers whose results are
// exact in every type, so the expectation is integer arithmetic that shares nothing with the library.
#ifndef NVRAR_BENCH_PROBLEM_H
#define NVRAR_BENCH_PROBLEM_H

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace nvrar::bench {

// The addresses of what a call reads and writes; those behind recv are of a fused all-reduce, 0 if its form has none.
struct Buffers {
  uint64_t send = 0;
  uint64_t recv = 0;
  uint64_t residual = 0;
  uint64_t weight = 0;
  uint64_t residual_out = 0;
  uint64_t squares = 0;
};

struct Problem {
  Collective collective;
  int32_t data_type;
  int32_t op;
  int root;
  int world;
  uint64_t count;       // the count that is passed to the call
  int32_t form = 0;     // NVRAR_FUSION_* of a fused all-reduce; what it adds to the sums is in fused_problem.h
  uint32_t hidden = 0;  // elements of a row of it

  // For about `bytes` of the larger side, as nccl-tests counts size; at least one element.
  static Problem of_size(const Options& options, Collective collective, uint64_t bytes);

  // A fused all-reduce of so many rows.
  static Problem of_rows(const Options& options, uint32_t rows);

  std::string name() const;  // of the collective; a fused all-reduce's says its form and the length of a row
  uint32_t rows() const;
  float eps() const;  // 0 if the form has none
  uint64_t send_elements() const;
  uint64_t recv_elements() const;
  uint64_t bytes() const;  // of the larger side
  bool has_in_place() const;
  // The offsets of send and recv in the shared buffer of a call in place, in elements.
  uint64_t send_offset_in_place(int rank) const;
  uint64_t recv_offset_in_place(int rank) const;
  // nccl-tests' factor from algorithm bandwidth to bus bandwidth.
  double bus_factor() const;

  // Writes send_elements() elements.
  void fill(uint64_t seed, int rank, uint8_t* send) const;
  // How many of the recv_elements() elements differ from the expected result for that seed.
  uint64_t wrong(uint64_t seed, int rank, const uint8_t* recv) const;
  // What an all-reduce has as its result for that seed.
  std::vector<int64_t> sums(uint64_t seed) const;
};

// A random whole number from -15 to 15, the i-th for that seed.
int small_number(uint64_t seed, uint64_t i);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_PROBLEM_H
