// Runs a group of processes of this machine, each a rank on a GPU.
#ifndef NVRAR_BENCH_GPU_GROUP_H
#define NVRAR_BENCH_GPU_GROUP_H

#include "options.h"

namespace nvrar::bench {

// Measures and prints; returns the program's exit code.
int run_on_gpus(Options options);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_GROUP_H
