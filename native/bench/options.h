// What a benchmark run is asked for: the names a user may write, and the checks of what they wrote.
#ifndef NVRAR_BENCH_OPTIONS_H
#define NVRAR_BENCH_OPTIONS_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvrar::bench {

enum class Collective {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSendReceive,
  kBarrier,
};

// A name on the command line and in the files, and the code of nvrar.h.
struct Name {
  const char* text;
  int32_t code;
};

const char* name_of(Collective collective);
const char* type_name(int32_t data_type);
const char* op_name(int32_t op);
const char* algorithm_name(int32_t algorithm);
uint32_t type_bytes(int32_t data_type);
bool is_float(int32_t data_type);
bool reduces(Collective collective);
bool has_root(Collective collective);

struct Options {
  std::vector<Collective> collectives{Collective::kAllReduce};
  int processes = 2;
  int ranks_per_node = 0;
  int32_t data_type;
  int32_t op;
  int32_t algorithm = 0;
  int root = 0;
  uint64_t min_bytes = 8;
  uint64_t max_bytes = 4 << 20;
  uint64_t factor = 2;
  int iterations = 0;  // 0: by size, see iterations_of
  int warmup = -1;     // -1: a tenth of the iterations
  int repeats = 11;
  uint64_t ring_bytes = 0;
  std::string csv;
  std::string json;
  bool help = false;

  Options();
  // About 4 MiB a batch: long enough for the clock, short enough for many sizes.
  int iterations_of(uint64_t bytes) const;
  int warmup_of(uint64_t bytes) const;
};

// The user's mistake; the sentence names what was given and what is possible.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Options parse_options(int argc, char** argv);
const char* usage();

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_OPTIONS_H
