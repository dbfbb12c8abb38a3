// The measurement on the CPU, the same for every library that implements the calls.
#ifndef NVRAR_BENCH_MEASURE_H
#define NVRAR_BENCH_MEASURE_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "problem.h"

namespace nvrar::bench {

constexpr int kWrongResults = 3;  // exit code

// One rank, in its own process. All functions throw on errors.
class Member {
 public:
  virtual ~Member() = default;
  virtual int rank() const = 0;
  virtual void call(const Problem& problem, const uint8_t* send, uint8_t* recv) = 0;
  virtual void barrier() = 0;
  // Collective; returns the same result on all ranks.
  virtual double max_of_ranks(double value) = 0;
  virtual uint64_t sum_of_ranks(uint64_t value) = 0;
};

struct Cell {
  double us = 0;  // median over the batches of the slowest rank's mean
  double min_us = 0;
  double max_us = 0;
  uint64_t wrong = 0;  // elements, over all ranks and batches
};

// The cell of the measured times, which this function sorts.
Cell cell_of(std::vector<double>* us, uint64_t wrong);

struct Row {
  Problem problem{};
  int iterations = 0;
  Cell out_of_place;
  std::optional<Cell> in_place;
  std::string mode = "calls";  // on GPUs mode_name
  std::string implementation;  // empty: the output's own
  double core_seconds = 0;     // of the threads of all ranks but the calling ones, for a call; 0: not measured
};

// The cost of a group on GPUs.
struct GroupCost {
  double us = 0;              // time of its creation on the slowest rank
  uint64_t device_bytes = 0;  // on the rank where it uses the most
};

// The problems to measure, in order; sizes of less than one element per rank are rounded up.
std::vector<Problem> problems_of(const Options& options);

// Collective. Measures one problem out of place.
Row measure_problem(Member* member, const Options& options, const Problem& problem);

// Collective. Calls `show` on every rank after each size; returns the number of wrong elements.
uint64_t measure(Member* member, const Options& options, const std::function<void(const Row&)>& show);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_MEASURE_H
