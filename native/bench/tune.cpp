#include "tune.h"

#include <nvrar.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "output.h"

namespace nvrar::bench {
namespace {

constexpr int32_t kMostRepeats = 1000;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

// What rank 0 tells the others.
struct Turn {
  Point point;
  bool ended;
};

Turn next_turn(const Options& options) {
  std::string line;
  if (!std::getline(std::cin, line)) return {{}, true};
  return {parse_point(line, options), false};
}

}  // namespace

Point parse_point(const std::string& line, const Options& options) {
  std::istringstream words(line);
  std::string algorithm;
  Point point{};
  std::string rest;
  const bool has_all =
      static_cast<bool>(words >> point.bytes >> algorithm >> point.blocks >> point.tiles >> point.repeats);
  if (!has_all || words >> rest || point.bytes == 0 || point.bytes > kMostBytes ||
      point.blocks > NVRAR_MAX_RULE_BLOCKS || point.tiles > NVRAR_MAX_RULE_TILES || point.repeats < 1 ||
      point.repeats > kMostRepeats) {
    throw UsageError("a line of --tune is '" + line + "', must be BYTES ALGORITHM BLOCKS TILES REPEATS, up to 1 GiB, " +
                     std::to_string(NVRAR_MAX_RULE_BLOCKS) + " blocks, " + std::to_string(NVRAR_MAX_RULE_TILES) +
                     " tiles and " + std::to_string(kMostRepeats) + " repeats");
  }
  point.algorithm = algorithm_of("the algorithm of a line of --tune", algorithm);
  const bool all_reduce = options.collectives.front() == Collective::kAllReduce;
  if (all_reduce != (point.algorithm != NVRAR_ALGORITHM_AUTO)) {
    throw UsageError(std::string("a line of --tune has the algorithm ") + algorithm + ", and " +
                     (all_reduce ? "an all-reduce needs one" : "only all-reduces have a choice, so it must be auto"));
  }
  if (point.algorithm == NVRAR_ALGORITHM_HIERARCHICAL &&
      (options.ranks_per_node == 0 || options.ranks_per_node >= options.processes)) {
    throw UsageError("a line of --tune has the algorithm hierarchical, which needs --ranks-per-node below --processes");
  }
  return point;
}

void answer_points(Team* team, const Options& options, const Measured& measured, const MeasurePoint& measure_point) {
  if (team->rank() == 0) {
    std::printf("{\"architecture\": %d, \"device\": %s, \"library\": %s, \"processes\": %d}\n", measured.architecture,
                quoted(measured.device).c_str(), quoted(measured.library).c_str(), team->size());
    std::fflush(stdout);
  }
  while (true) {
    const Turn turn = team->exchange(team->rank() == 0 ? next_turn(options) : Turn{})[0];
    if (turn.ended) return;
    Options of_point = options;
    of_point.repeats = turn.point.repeats;
    of_point.algorithm = turn.point.algorithm;
    const Problem problem = Problem::of_size(options, options.collectives.front(), turn.point.bytes);
    const Row row = measure_point(of_point, problem, turn.point);
    if (team->rank() != 0) continue;
    write_cell(stdout, of_point, "c++", row, "out", row.out_of_place);
    std::fflush(stdout);
  }
}

}  // namespace nvrar::bench
