// The input and the expected output of every rank of a collective. The values are small whole numbers whose results are
// exact in every type, so the expectation is integer arithmetic that shares nothing with the library.
#ifndef NVRAR_BENCH_PROBLEM_H
#define NVRAR_BENCH_PROBLEM_H

#include <cstdint>

#include "options.h"

namespace nvrar::bench {

struct Problem {
  Collective collective;
  int32_t data_type;
  int32_t op;
  int root;
  int world;
  uint64_t count;  // the count that is passed to the call

  // For about `bytes` of the larger side, as nccl-tests counts size; at least one element.
  static Problem of_size(const Options& options, Collective collective, uint64_t bytes);

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
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_PROBLEM_H
