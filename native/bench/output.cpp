#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace nvrar::bench {
namespace {

constexpr double kUsPerGb = 1e-3;  // bytes per microsecond to GB/s
constexpr const char* kTimes = " | %9s %7s %7s %6s";
constexpr const char* kColumns = "#%-21s %10s %10s %9s %8s %4s %-10s %-13s";

double algorithm_bandwidth(const Row& row, const Cell& cell) {
  // A time may be 0 after the time of the computation was subtracted.
  if (row.problem.count == 0 || cell.us == 0) return 0;
  return static_cast<double>(row.problem.bytes()) / cell.us * kUsPerGb;
}

const char* op_text(const Problem& problem) { return reduces(problem.collective) ? op_name(problem.op) : "none"; }

const char* type_text(const Problem& problem) {
  return problem.collective == Collective::kBarrier ? "none" : type_name(problem.data_type);
}

int root_of(const Problem& problem) { return has_root(problem.collective) ? problem.root : -1; }

void print_times(const Row& row, const Cell& cell) {
  const double bandwidth = algorithm_bandwidth(row, cell);
  std::printf(" | %9.2f %7.3f %7.3f %6" PRIu64, cell.us, bandwidth, bandwidth * row.problem.bus_factor(), cell.wrong);
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// The fields of a line whose shape is open.
void write_times(std::FILE* file, const Cell& cell, int iterations, int repeats) {
  std::fprintf(file,
               "}, \"unit\": \"us\", \"median\": %.4f, \"least\": %.4f, \"most\": %.4f, \"iterations\": %d, "
               "\"repeats\": %d, \"wrong\": %" PRIu64,
               cell.us, cell.min_us, cell.max_us, iterations, repeats, cell.wrong);
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return result + "\"";
}

void write_run(std::FILE* file, const Options& options, const std::string& library, const std::string& version) {
  std::fprintf(file, "{\"kind\": \"run\", \"machine\": %s, \"command\": %s, \"versions\": {%s: %s}}\n",
               quoted(host_name()).c_str(), quoted(options.command).c_str(), quoted(library).c_str(),
               quoted(version).c_str());
}

void write_cell(std::FILE* file, const Options& options, const std::string& library, const Row& row,
                const char* placement, const Cell& cell) {
  const Problem& problem = row.problem;
  std::fprintf(file, "{\"kind\": \"%s\", \"library\": %s, \"shape\": {\"name\": \"%s\", \"processes\": %d",
               problem.form != 0 ? "fused" : "collective", quoted(library).c_str(), problem.name().c_str(),
               problem.world);
  if (options.ranks_per_node != 0) std::fprintf(file, ", \"ranks_per_node\": %d", options.ranks_per_node);
  if (options.links != 0) std::fprintf(file, ", \"links\": %d", options.links);
  std::fprintf(file,
               ", \"backend\": \"%s\", \"mode\": \"%s\", \"placement\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", "
               "\"root\": %d, \"algorithm\": \"%s\", \"bytes\": %" PRIu64 ", \"count\": %" PRIu64,
               backend_name(options.backend), row.mode.c_str(), placement, type_text(problem), op_text(problem),
               root_of(problem),
               problem.collective == Collective::kAllReduce ? algorithm_name(options.algorithm) : "none",
               problem.bytes(), problem.count);
  write_times(file, cell, row.iterations, options.repeats);
  std::fprintf(file, "}\n");
}

void Output::Close::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

Output::File Output::open(const std::string& path) {
  if (path.empty()) return nullptr;
  if (path == "-") return File(stdout);
  File file(std::fopen(path.c_str(), "w"));
  if (!file) throw std::runtime_error("the file " + path + " cannot be written: " + std::strerror(errno));
  return file;
}

Output::Output(const Options& options, std::string library, const std::string& version)
    : options_(options), library_(std::move(library)), json_(open(options.json)), table_(options.json != "-") {
  if (json_) write_run(json_.get(), options_, library_, version);
  if (!table_) return;
  const std::string groups =
      options.groups == 1 ? "" : ", " + std::to_string(options.groups) + " groups side by side, a call of each";
  std::printf("# %s, %d processes%s, library %s\n", library_.c_str(), options.processes, groups.c_str(),
              version.c_str());
  std::printf("# time: median of %d batches of the slowest rank's mean; #wrong: elements, over ranks and batches\n",
              options.repeats);
  std::printf(kColumns, "", "size", "count", "type", "redop", "root", "from", "mode");
  for (int place = 0; place < 2; ++place) std::printf(kTimes, "time", "algbw", "busbw", "#wrong");
  std::printf("\n");
  std::printf(kColumns, "collective", "(B)", "(elements)", "", "", "", "", "");
  std::printf(kTimes, "(us)", "(GB/s)", "(GB/s)", "");
  std::printf(kTimes, "in place", "(GB/s)", "(GB/s)", "");
  std::printf("\n");
}

const std::string& Output::library_of(const Row& row) const {
  return row.implementation.empty() ? library_ : row.implementation;
}

void Output::show(const Row& row) {
  const Problem& problem = row.problem;
  if (table_) {
    std::printf(" %-21s %10" PRIu64 " %10" PRIu64 " %9s %8s %4d %-10s %-13s", problem.name().c_str(), problem.bytes(),
                problem.count, type_text(problem), op_text(problem), root_of(problem), library_of(row).c_str(),
                row.mode.c_str());
    print_times(row, row.out_of_place);
    if (row.in_place) {
      print_times(row, *row.in_place);
    } else {
      std::printf(kTimes, "-", "-", "-", "-");
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  if (row.core_seconds != 0) {
    std::fprintf(
        stderr, "nvrar_bench: c++ %s %" PRIu64 " bytes: all other threads took %.2f core-seconds a GB of the message\n",
        row.mode.c_str(), row.problem.bytes(), row.core_seconds * 1e9 / static_cast<double>(row.problem.bytes()));
  }
  if (!json_) return;
  write_cell(json_.get(), options_, library_of(row), row, "out", row.out_of_place);
  if (row.in_place) write_cell(json_.get(), options_, library_of(row), row, "in", *row.in_place);
}

void Output::show(const GroupCost& cost) {
  if (table_) {
    std::printf("# group: made in %.3f s, takes %.1f MiB of a GPU's memory\n", cost.us * 1e-6,
                static_cast<double>(cost.device_bytes) / (1 << 20));
  }
  if (!json_) return;
  std::fprintf(json_.get(),
               "{\"kind\": \"group\", \"library\": %s, \"shape\": {\"name\": \"group\", \"processes\": %d, "
               "\"backend\": \"%s\"",
               quoted(library_).c_str(), options_.processes, backend_name(options_.backend));
  write_times(json_.get(), {cost.us, cost.us, cost.us, 0}, 1, 1);
  std::fprintf(json_.get(), ", \"device_bytes\": %" PRIu64 "}\n", cost.device_bytes);
}

void Output::end(uint64_t wrong) {
  if (json_ && std::fflush(json_.get()) != 0) throw std::runtime_error("the results could not be written");
  if (table_) std::printf("# %" PRIu64 " wrong elements\n", wrong);
}

}  // namespace nvrar::bench
