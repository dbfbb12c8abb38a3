// What the yardstick's kernels and their host code share.
#ifndef NVRAR_BENCH_GPU_KERNELS_YARDSTICK_ARGS_H
#define NVRAR_BENCH_GPU_KERNELS_YARDSTICK_ARGS_H

#include <cstdint>

namespace nvrar::bench::yardstick {

constexpr uint32_t kMaxRanks = 8;
constexpr uint32_t kMaxBlocks = 2112;  // epoch words; the largest grid
constexpr uint32_t kVectorBytes = 16;
constexpr uint32_t kGroupVectors = 32;
// Bytes of an area. Small calls have a set of four of their own, which fits one page of a GPU's memory; then come four
// big ones. Of a set, areas 0 and 1 belong to even epochs, 2 and 3 to odd ones; one-shot uses the first of the two,
// two-shot scatters into the first and gathers into the second.
constexpr uint64_t kSmallArea = 512u << 10;
constexpr uint64_t kBigArea = 16u << 20;
constexpr uint64_t kRingBytes = 4 * (kSmallArea + kBigArea);
constexpr uint32_t kControlBytes = 256;

// What a rank has of the group.
struct Peers {
  uint64_t rings[kMaxRanks];  // rings[k]: of rank (rank + k) % ranks; rings[0] is this rank's own
  uint64_t epoch;             // kMaxBlocks words
  uint64_t control;           // word 0: not 0 once a wait has come to its end
  uint32_t rank;
};

struct Arguments {
  uint64_t in;
  uint64_t out;
  Peers peers;
  uint32_t vectors;
  uint64_t base;  // of the set of areas, in vectors
};

// Of an all-reduce of whole rows that adds a residual and normalises.
struct NormArguments {
  uint64_t in;
  uint64_t residual;
  uint64_t weight;
  uint64_t out;
  uint64_t residual_out;
  Peers peers;
  uint64_t base;
  float eps;
};

}  // namespace nvrar::bench::yardstick

#endif  // NVRAR_BENCH_GPU_KERNELS_YARDSTICK_ARGS_H
