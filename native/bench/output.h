// Writes the results as nccl-tests' table, and as lines of JSON (README.md).
#ifndef NVRAR_BENCH_OUTPUT_H
#define NVRAR_BENCH_OUTPUT_H

#include <cstdio>
#include <memory>
#include <string>

#include "measure.h"
#include "options.h"

namespace nvrar::bench {

// A text as JSON's, without control characters.
std::string quoted(const std::string& text);

// Writes a line about the run. `library` is what made the calls, `version` the build of it.
void write_run(std::FILE* file, const Options& options, const std::string& library, const std::string& version);

// Writes a line of a result.
void write_cell(std::FILE* file, const Options& options, const std::string& library, const Row& row,
                const char* placement, const Cell& cell);

class Output {
 public:
  // `library` is what made the calls: c++ or open-mpi.
  Output(const Options& options, std::string library, const std::string& version);

  void show(const Row& row);
  void show(const GroupCost& cost);
  void end(uint64_t wrong);

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  using File = std::unique_ptr<std::FILE, Close>;
  static File open(const std::string& path);

  const std::string& library_of(const Row& row) const;

  const Options options_;
  const std::string library_;
  const File json_;
  const bool table_;
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_OUTPUT_H
