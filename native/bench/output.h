// Writes the results as nccl-tests' table, as CSV and as JSON.
#ifndef NVRAR_BENCH_OUTPUT_H
#define NVRAR_BENCH_OUTPUT_H

#include <cstdio>
#include <memory>
#include <string>

#include "measure.h"
#include "options.h"

namespace nvrar::bench {

class Output {
 public:
  // `implementation` is the first column of the files: c++ or open-mpi. `library` names the measured library.
  Output(const Options& options, std::string implementation, std::string library);

  void show(const Row& row);
  void show(const GroupCost& cost);
  void end(uint64_t wrong);

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  using File = std::unique_ptr<std::FILE, Close>;
  static File open(const std::string& path);

  // A line of the files.
  struct Line {
    std::string implementation;
    std::string collective;
    int processes;
    uint64_t bytes;
    uint64_t count;
    const char* type;
    const char* op;
    int root;
    const char* algorithm;
    const char* placement;
    Cell cell;
    double algorithm_bandwidth;
    double bus_bandwidth;
    int iterations;
    int repeats;
    std::string mode;
  };
  void write_cell(const Row& row, const char* placement, const Cell& cell);
  void write(const Line& line);

  const Options options_;
  const std::string implementation_;
  const File csv_;
  const File json_;
  const bool table_;
  bool first_ = true;
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_OUTPUT_H
