// A measurement whose points a caller asks for one by one, so that many of them share the start of one group: each is a
// line of standard input, and its result a line of standard output (README.md).
#ifndef NVRAR_BENCH_TUNE_H
#define NVRAR_BENCH_TUNE_H

#include <cstdint>
#include <functional>
#include <string>

#include "measure.h"
#include "options.h"
#include "team.h"

namespace nvrar::bench {

// A point as the caller asks for it: "BYTES ALGORITHM BLOCKS TILES REPEATS", of which BLOCKS and TILES may be 0.
struct Point {
  uint64_t bytes;
  int32_t algorithm;  // NVRAR_ALGORITHM_*; AUTO if the collective has no choice
  uint32_t blocks;
  uint32_t tiles;
  int32_t repeats;
};

// Throws UsageError, which says what a line must be.
Point parse_point(const std::string& line, const Options& options);

// Measures one point on all ranks, with options that have its repeats: collective.
using MeasurePoint = std::function<Row(const Options& options, const Problem& problem, const Point& point)>;

// What the first line of output says that the rest is of.
struct Measured {
  int32_t architecture;  // NVRAR_ARCHITECTURE_*, or that of a GPU
  std::string device;    // its name
  std::string library;   // its build
};

// Collective. Answers the lines of rank 0's standard input to its end. A point's results are in the next line, also if
// some are wrong: the caller leaves such a point out. A line that is no point ends the measurement.
void answer_points(Team* team, const Options& options, const Measured& measured, const MeasurePoint& measure_point);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_TUNE_H
