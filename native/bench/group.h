// Runs a group of processes of this machine, each a rank of a communicator of libnvrar.
#ifndef NVRAR_BENCH_GROUP_H
#define NVRAR_BENCH_GROUP_H

#include <functional>

#include "measure.h"
#include "options.h"

namespace nvrar::bench {

// Forks options.processes processes (or is one of those that options.board names), connects them, runs the body in
// each, and waits for all. The body's result is the process's exit code. Returns 0 if all are 0; else the first other
// code, after the other processes were ended.
int run_group(const Options& options, const std::function<int(Member*)>& body);

// The same for the points of standard input (tune.h).
int tune_on_cpu(const Options& options);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GROUP_H
