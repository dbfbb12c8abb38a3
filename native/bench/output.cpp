#include "output.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace nvrar::bench {
namespace {

constexpr double kUsPerGb = 1e-3;  // bytes per microsecond to GB/s

double algorithm_bandwidth(const Row& row, const Cell& cell) {
  // A time may be 0 after the time of the computation was subtracted.
  if (row.problem.count == 0 || cell.us == 0) return 0;
  return static_cast<double>(row.problem.bytes()) / cell.us * kUsPerGb;
}

double bus_bandwidth(const Row& row, const Cell& cell) {
  return algorithm_bandwidth(row, cell) * row.problem.bus_factor();
}

const char* op_text(const Problem& problem) { return reduces(problem.collective) ? op_name(problem.op) : "none"; }

const char* type_text(const Problem& problem) {
  return problem.collective == Collective::kBarrier ? "none" : type_name(problem.data_type);
}

int root_of(const Problem& problem) { return has_root(problem.collective) ? problem.root : -1; }

}  // namespace

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

Output::Output(const Options& options, std::string implementation, std::string library)
    : options_(options),
      implementation_(std::move(implementation)),
      csv_(open(options.csv)),
      json_(open(options.json)),
      table_(options.csv != "-" && options.json != "-") {
  if (table_) {
    const std::string groups =
        options.groups == 1 ? "" : ", " + std::to_string(options.groups) + " groups side by side, a call of each";
    std::printf("# %s, %d processes%s, library %s\n", implementation_.c_str(), options.processes, groups.c_str(),
                library.c_str());
    std::printf("# time: median of %d batches of the slowest rank's mean; #wrong: elements, over ranks and batches\n",
                options.repeats);
    std::printf("#%-21s %10s %10s %9s %8s %4s %-10s %-13s | %9s %7s %7s %6s | %9s %7s %7s %6s\n", "", "size", "count",
                "type", "redop", "root", "from", "mode", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
                "#wrong");
    std::printf("#%-21s %10s %10s %9s %8s %4s %-10s %-13s | %9s %7s %7s %6s | %9s %7s %7s %6s\n", "collective", "(B)",
                "(elements)", "", "", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "in place", "(GB/s)", "(GB/s)", "");
  }
  if (csv_) {
    std::fprintf(csv_.get(),
                 "implementation,collective,processes,bytes,count,type,op,root,algorithm,placement,time_us,algbw_gbps,"
                 "busbw_gbps,wrong,time_min_us,time_max_us,iterations,repeats,backend,mode\n");
  }
  if (json_) {
    std::fprintf(json_.get(), "{\n\"implementation\": \"%s\",\n\"library\": \"%s\",\n\"results\": [",
                 implementation_.c_str(), library.c_str());
  }
}

void Output::show(const Row& row) {
  const Problem& problem = row.problem;
  if (table_) {
    const auto cell = [&](const Cell& measured) {
      std::printf(" | %9.2f %7.3f %7.3f %6" PRIu64, measured.us, algorithm_bandwidth(row, measured),
                  bus_bandwidth(row, measured), measured.wrong);
    };
    std::printf(" %-21s %10" PRIu64 " %10" PRIu64 " %9s %8s %4d %-10s %-13s", problem.name().c_str(), problem.bytes(),
                problem.count, type_text(problem), op_text(problem), root_of(problem),
                (row.implementation.empty() ? implementation_ : row.implementation).c_str(), row.mode.c_str());
    cell(row.out_of_place);
    if (row.in_place) {
      cell(*row.in_place);
    } else {
      std::printf(" | %9s %7s %7s %6s", "-", "-", "-", "-");
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  if (row.core_seconds != 0) {
    std::fprintf(
        stderr, "nvrar_bench: c++ %s %" PRIu64 " bytes: all other threads took %.2f core-seconds a GB of the message\n",
        row.mode.c_str(), row.problem.bytes(), row.core_seconds * 1e9 / static_cast<double>(row.problem.bytes()));
  }
  write_cell(row, "out", row.out_of_place);
  if (row.in_place) write_cell(row, "in", *row.in_place);
}

void Output::show(const GroupCost& cost) {
  if (table_) {
    std::printf("# group: made in %.3f s, takes %.1f MiB of a GPU's memory\n", cost.us * 1e-6,
                static_cast<double>(cost.device_bytes) / (1 << 20));
  }
  const Cell cell{cost.us, cost.us, cost.us, 0};
  write({implementation_, "group", options_.processes, cost.device_bytes, 0, "none", "none", -1, "none", "out", cell, 0,
         0, 1, 1, "create"});
}

void Output::write_cell(const Row& row, const char* placement, const Cell& cell) {
  const Problem& problem = row.problem;
  const bool chooses = problem.collective == Collective::kAllReduce;
  write({row.implementation.empty() ? implementation_ : row.implementation, problem.name(), problem.world,
         problem.bytes(), problem.count, type_text(problem), op_text(problem), root_of(problem),
         chooses ? algorithm_name(options_.algorithm) : "none", placement, cell, algorithm_bandwidth(row, cell),
         bus_bandwidth(row, cell), row.iterations, options_.repeats, row.mode});
}

void Output::write(const Line& line) {
  const char* backend = backend_name(options_.backend);
  if (csv_) {
    std::fprintf(csv_.get(),
                 "%s,%s,%d,%" PRIu64 ",%" PRIu64 ",%s,%s,%d,%s,%s,%.4f,%.4f,%.4f,%" PRIu64 ",%.4f,%.4f,%d,%d,%s,%s\n",
                 line.implementation.c_str(), line.collective.c_str(), line.processes, line.bytes, line.count,
                 line.type, line.op, line.root, line.algorithm, line.placement, line.cell.us, line.algorithm_bandwidth,
                 line.bus_bandwidth, line.cell.wrong, line.cell.min_us, line.cell.max_us, line.iterations, line.repeats,
                 backend, line.mode.c_str());
  }
  if (json_) {
    std::fprintf(json_.get(),
                 "%s\n{\"implementation\": \"%s\", \"collective\": \"%s\", \"processes\": %d, \"bytes\": %" PRIu64
                 ", \"count\": %" PRIu64
                 ", \"type\": \"%s\", \"op\": \"%s\", \"root\": %d, \"algorithm\": \"%s\", \"placement\": \"%s\", "
                 "\"time_us\": %.4f, \"algbw_gbps\": %.4f, \"busbw_gbps\": %.4f, \"wrong\": %" PRIu64
                 ", \"time_min_us\": %.4f, \"time_max_us\": %.4f, \"iterations\": %d, \"repeats\": %d, "
                 "\"backend\": \"%s\", \"mode\": \"%s\"}",
                 first_ ? "" : ",", line.implementation.c_str(), line.collective.c_str(), line.processes, line.bytes,
                 line.count, line.type, line.op, line.root, line.algorithm, line.placement, line.cell.us,
                 line.algorithm_bandwidth, line.bus_bandwidth, line.cell.wrong, line.cell.min_us, line.cell.max_us,
                 line.iterations, line.repeats, backend, line.mode.c_str());
    first_ = false;
  }
}

void Output::end(uint64_t wrong) {
  if (json_) std::fprintf(json_.get(), "\n]\n}\n");
  for (std::FILE* file : {csv_.get(), json_.get()}) {
    if (file != nullptr && std::fflush(file) != 0) throw std::runtime_error("the results could not be written");
  }
  if (table_) std::printf("# %" PRIu64 " wrong elements\n", wrong);
}

}  // namespace nvrar::bench
