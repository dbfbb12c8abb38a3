// The options of a benchmark run: their names and the checks of their values.
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

// A name on the command line and in the files, with its code in nvrar.h.
struct Name {
  const char* text;
  int32_t code;
};

const char* name_of(Collective collective);
const char* type_name(int32_t data_type);
const char* op_name(int32_t op);
const char* algorithm_name(int32_t algorithm);
const char* backend_name(int32_t backend);
// The code of a name; throws UsageError, whose message says what it is of.
int32_t algorithm_of(const std::string& what, const std::string& name);
const char* form_name(int32_t form);
uint32_t type_bytes(int32_t data_type);
bool is_float(int32_t data_type);
bool reduces(Collective collective);
bool has_root(Collective collective);

// How the calls of a batch on a GPU are submitted.
enum class Mode { kGraph, kEager, kGraphCompute, kEagerCompute, kGraphCold };
// The kernel that some modes have between two calls, whose own time is subtracted: about 1 us of computing after each
// call, or a sweep of the L2 cache before it.
enum class Between { kNothing, kCompute, kSweep };
const char* mode_name(Mode mode);
bool in_graph(Mode mode);
Between between(Mode mode);

// A rule of the group's tuning table, for all types.
struct RuleOption {
  uint64_t bytes_max;
  int32_t algorithm;
  uint32_t blocks;
  uint32_t tiles;
};

struct Options {
  int32_t backend;
  std::vector<Collective> collectives{Collective::kAllReduce};
  int processes = 0;  // 0: 2, on GPUs one for each that is visible
  int ranks_per_node = 0;
  int32_t data_type;
  int32_t op;
  int32_t algorithm = 0;
  int root = 0;
  uint64_t min_bytes = 0;  // 0: by backend, like max_bytes
  uint64_t max_bytes = 0;
  uint64_t factor = 2;
  int iterations = 0;  // 0: by size, see iterations_of
  int warmup = -1;     // -1: a tenth of the iterations
  int repeats = 0;     // 0: by backend
  uint64_t ring_bytes = 0;
  int links = 0;  // threads of a rank that look at them; 0: nodes are not linked
  // Where the ranks are processes of several hosts, which something else starts: the file by which they meet, and this
  // process's rank and address. "": this program forks the ranks.
  std::string board;
  int rank = 0;
  std::string address;
  // On GPUs only.
  int gpus = 0;        // rank r is on GPU r mod gpus; 0: each has its own
  int groups = 1;      // whose batches run side by side
  int32_t memory = 0;  // NVRAR_MEMORY_*
  bool exclusive = false;
  bool programmatic_launch = false;
  std::vector<Mode> modes;
  bool yardstick = false;  // measure the study's kernels beside ours
  bool fused = false;      // measure fused all-reduces, whose sizes are numbers of rows; the rest is 0 without
  int32_t form = 0;        // NVRAR_FUSION_*
  uint32_t hidden = 0;     // elements of a row
  std::vector<uint32_t> rows;
  uint32_t apart_blocks = 0;      // blocks of a row in the kernel behind an all-reduce; 0: by the number of rows
  std::vector<RuleOption> rules;  // of all-reduces
  bool tune = false;              // measure the points of standard input, tune.h
  std::string json;
  std::string command;  // as it was given
  bool help = false;

  Options();
  bool on_gpu() const;
  // On a GPU protocol B's 40 calls up to 8 MiB, then as many as move the same bytes; else about 4 MiB per batch: long
  // enough for the clock, short enough for many sizes.
  int iterations_of(uint64_t bytes) const;
  int warmup_of(uint64_t bytes) const;
};

// A usage error; the message names the given value and the possible ones.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Options parse_options(int argc, char** argv);
const char* usage();

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_OPTIONS_H
