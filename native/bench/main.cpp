// nvrar_bench: times the collectives between processes of this machine; mpi_main.cpp is the same for MPI.
#include <nvrar.h>

#include <cstdio>
#include <exception>

#include "gpu/group.h"
#include "group.h"
#include "output.h"

namespace nvrar::bench {
namespace {

int run(const Options& options) {
  return run_group(options, [&](Member* member) {
    if (member->rank() != 0) {
      return measure(member, options, [](const Row&) {}) == 0 ? 0 : kWrongResults;
    }
    Output output(options, "c++", nvrar_build_id());
    const uint64_t wrong = measure(member, options, [&](const Row& row) { output.show(row); });
    output.end(wrong);
    return wrong == 0 ? 0 : kWrongResults;
  });
}

int run_main(int argc, char** argv) {
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(usage(), stdout);
      return 0;
    }
    if (options.on_gpu()) return run_on_gpus(options);
    return options.tune ? tune_on_cpu(options) : run(options);
  } catch (const UsageError& e) {
    std::fprintf(stderr, "nvrar_bench: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvrar_bench: %s\n", e.what());
    return 1;
  }
}

}  // namespace
}  // namespace nvrar::bench

int main(int argc, char** argv) { return nvrar::bench::run_main(argc, argv); }
