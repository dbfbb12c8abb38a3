#include "options.h"

#include <nvrar.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

namespace nvrar::bench {
namespace {

constexpr Name kCollectives[] = {
    {"all-reduce", static_cast<int32_t>(Collective::kAllReduce)},
    {"reduce", static_cast<int32_t>(Collective::kReduce)},
    {"broadcast", static_cast<int32_t>(Collective::kBroadcast)},
    {"all-gather", static_cast<int32_t>(Collective::kAllGather)},
    {"reduce-scatter", static_cast<int32_t>(Collective::kReduceScatter)},
    {"all-to-all", static_cast<int32_t>(Collective::kAllToAll)},
    {"send-receive", static_cast<int32_t>(Collective::kSendReceive)},
    {"barrier", static_cast<int32_t>(Collective::kBarrier)},
};
constexpr Name kTypes[] = {
    {"float32", NVRAR_FLOAT32}, {"float16", NVRAR_FLOAT16}, {"bfloat16", NVRAR_BFLOAT16}, {"float64", NVRAR_FLOAT64},
    {"int8", NVRAR_INT8},       {"uint8", NVRAR_UINT8},     {"int32", NVRAR_INT32},       {"int64", NVRAR_INT64},
};
constexpr Name kOps[] = {
    {"sum", NVRAR_SUM}, {"product", NVRAR_PRODUCT}, {"max", NVRAR_MAX}, {"min", NVRAR_MIN}, {"avg", NVRAR_AVG},
};
constexpr Name kAlgorithms[] = {
    {"auto", NVRAR_ALGORITHM_AUTO},
    {"one-shot", NVRAR_ALGORITHM_ONE_SHOT},
    {"two-shot", NVRAR_ALGORITHM_TWO_SHOT},
    {"hierarchical", NVRAR_ALGORITHM_HIERARCHICAL},
};

constexpr Name kBackends[] = {{"cpu", NVRAR_BACKEND_CPU}, {"cuda", NVRAR_BACKEND_CUDA}};
constexpr Name kMemories[] = {
    {"auto", NVRAR_MEMORY_AUTO}, {"nvshmem", NVRAR_MEMORY_NVSHMEM}, {"ipc", NVRAR_MEMORY_IPC}};
constexpr Name kForms[] = {{"residual", NVRAR_FUSION_RESIDUAL},
                           {"bias", NVRAR_FUSION_BIAS},
                           {"rms-norm", NVRAR_FUSION_RMS_NORM},
                           {"rms-fold", NVRAR_FUSION_RMS_FOLD}};
constexpr Name kModes[] = {
    {"graph", static_cast<int32_t>(Mode::kGraph)},
    {"eager", static_cast<int32_t>(Mode::kEager)},
    {"graph-compute", static_cast<int32_t>(Mode::kGraphCompute)},
    {"eager-compute", static_cast<int32_t>(Mode::kEagerCompute)},
    {"graph-cold", static_cast<int32_t>(Mode::kGraphCold)},
};

constexpr int kGpuIterations = 40;
constexpr int kGpuIterationsLeast = 5;
constexpr uint64_t kGpuBatchBytes = kGpuIterations * (uint64_t{8} << 20);
constexpr int kGpuGroupsMost = 2;
constexpr int kGpuWarmup = 3;
constexpr uint64_t kBatchBytes = 4 << 20;
constexpr int kIterationsLeast = 20;
constexpr int kIterationsMost = 1000;
constexpr uint64_t kBytesMost = uint64_t{1} << 30;
constexpr uint32_t kHiddenStep = 8;
constexpr uint32_t kHidden = 8192;
constexpr uint32_t kRows[] = {1, 2, 4, 8, 16, 32};
constexpr uint32_t kRowsMost = 4096;
constexpr uint32_t kApartBlocksMost = 8;

template <size_t N>
const char* text_of(const Name (&names)[N], int32_t code) {
  for (const Name& name : names) {
    if (name.code == code) return name.text;
  }
  return "?";
}

template <size_t N>
int32_t code_of(const Name (&names)[N], const std::string& option, const std::string& text) {
  std::string all;
  for (const Name& name : names) {
    if (text == name.text) return name.code;
    all += (all.empty() ? "" : ", ") + std::string(name.text);
  }
  throw UsageError(option + " is '" + text + "', must be one of " + all);
}

uint64_t number(const std::string& option, const std::string& text, uint64_t least, uint64_t most) {
  const bool digits = !text.empty() && text.size() < 19 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const uint64_t value = digits ? std::stoull(text) : 0;
  if (!digits || value < least || value > most) {
    throw UsageError(option + " is '" + text + "', must be a number from " + std::to_string(least) + " to " +
                     std::to_string(most));
  }
  return value;
}

int small_number(const std::string& option, const std::string& text, int least, int most) {
  return static_cast<int>(number(option, text, static_cast<uint64_t>(least), static_cast<uint64_t>(most)));
}

uint64_t bytes(const std::string& option, const std::string& text) {
  const std::string units = "KMG";
  const size_t unit = text.empty() ? std::string::npos : units.find(text.back());
  const std::string digits = unit == std::string::npos ? text : text.substr(0, text.size() - 1);
  const uint64_t scale = unit == std::string::npos ? 1 : uint64_t{1} << (10 * (unit + 1));
  const bool is_number = !digits.empty() && digits.size() < 11 &&
                         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  const uint64_t value = is_number ? std::stoull(digits) : 0;
  if (!is_number || value == 0 || value > kBytesMost / scale) {
    throw UsageError(option + " is '" + text + "', must be a number of bytes from 1 to 1G, such as 64, 8K or 4M");
  }
  return value * scale;
}

std::vector<std::string> split(const std::string& text, char separator = ',') {
  std::vector<std::string> parts;
  for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
    end = text.find(separator, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
  }
  return parts;
}

RuleOption rule_of(const std::string& option, const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 4) {
    throw UsageError(option + " has the rule '" + text + "', must be BYTES:ALGORITHM:BLOCKS:TILES");
  }
  return {bytes(option, parts[0]), code_of(kAlgorithms, option, parts[1]),
          static_cast<uint32_t>(number(option, parts[2], 0, NVRAR_MAX_RULE_BLOCKS)),
          static_cast<uint32_t>(number(option, parts[3], 0, NVRAR_MAX_RULE_TILES))};
}

using Setter = std::function<void(Options*, const std::string& option, const std::string& text)>;

const std::map<std::string, Setter>& setters() {
  using Text = const std::string&;
  static const std::map<std::string, Setter> kSetters = {
      {"--backend", [](Options* o, Text option, Text text) { o->backend = code_of(kBackends, option, text); }},
      {"--gpus",
       [](Options* o, Text option, Text text) { o->gpus = small_number(option, text, 1, NVRAR_MAX_RANKS_PER_NODE); }},
      {"--groups",
       [](Options* o, Text option, Text text) { o->groups = small_number(option, text, 1, kGpuGroupsMost); }},
      {"--memory", [](Options* o, Text option, Text text) { o->memory = code_of(kMemories, option, text); }},
      {"--mode",
       [](Options* o, Text option, Text text) {
         o->modes.clear();
         for (const std::string& one : split(text)) o->modes.push_back(static_cast<Mode>(code_of(kModes, option, one)));
       }},
      {"--exclusive", [](Options* o, Text option, Text text) { o->exclusive = small_number(option, text, 0, 1) == 1; }},
      {"--programmatic-launch",
       [](Options* o, Text option, Text text) { o->programmatic_launch = small_number(option, text, 0, 1) == 1; }},
      {"--yardstick", [](Options* o, Text option, Text text) { o->yardstick = small_number(option, text, 0, 1) == 1; }},
      {"--fused", [](Options* o, Text option, Text text) { o->fused = small_number(option, text, 0, 1) == 1; }},
      {"--form", [](Options* o, Text option, Text text) { o->form = code_of(kForms, option, text); }},
      {"--hidden",
       [](Options* o, Text option, Text text) {
         o->hidden = static_cast<uint32_t>(number(option, text, kHiddenStep, NVRAR_MAX_HIDDEN));
       }},
      {"--rows",
       [](Options* o, Text option, Text text) {
         o->rows.clear();
         for (const std::string& one : split(text)) {
           o->rows.push_back(static_cast<uint32_t>(number(option, one, 1, kRowsMost)));
         }
       }},
      {"--apart-blocks",
       [](Options* o, Text option, Text text) {
         o->apart_blocks = static_cast<uint32_t>(number(option, text, 0, kApartBlocksMost));
       }},
      {"--collective",
       [](Options* o, Text option, Text text) {
         o->collectives.clear();
         if (text == "all") {
           for (const Name& name : kCollectives) o->collectives.push_back(static_cast<Collective>(name.code));
         } else {
           o->collectives.push_back(static_cast<Collective>(code_of(kCollectives, option, text)));
         }
       }},
      {"--processes", [](Options* o, Text option,
                         Text text) { o->processes = small_number(option, text, 1, NVRAR_MAX_RANKS_PER_NODE); }},
      {"--ranks-per-node",
       [](Options* o, Text option, Text text) {
         o->ranks_per_node = small_number(option, text, 0, NVRAR_MAX_RANKS_PER_NODE);
       }},
      {"--type", [](Options* o, Text option, Text text) { o->data_type = code_of(kTypes, option, text); }},
      {"--op", [](Options* o, Text option, Text text) { o->op = code_of(kOps, option, text); }},
      {"--algorithm", [](Options* o, Text option, Text text) { o->algorithm = code_of(kAlgorithms, option, text); }},
      {"--root", [](Options* o, Text option, Text text) { o->root = small_number(option, text, 0, 7); }},
      {"--min", [](Options* o, Text option, Text text) { o->min_bytes = bytes(option, text); }},
      {"--max", [](Options* o, Text option, Text text) { o->max_bytes = bytes(option, text); }},
      {"--factor", [](Options* o, Text option, Text text) { o->factor = number(option, text, 2, 1024); }},
      {"--iters", [](Options* o, Text option, Text text) { o->iterations = small_number(option, text, 1, 1000000); }},
      {"--warmup", [](Options* o, Text option, Text text) { o->warmup = small_number(option, text, 0, 1000000); }},
      {"--repeats", [](Options* o, Text option, Text text) { o->repeats = small_number(option, text, 1, 1000); }},
      {"--links", [](Options* o, Text option, Text text) { o->links = small_number(option, text, 0, 4); }},
      {"--board", [](Options* o, Text, Text text) { o->board = text; }},
      {"--rank",
       [](Options* o, Text option, Text text) { o->rank = small_number(option, text, 0, NVRAR_MAX_RANKS_PER_NODE); }},
      {"--address", [](Options* o, Text, Text text) { o->address = text; }},
      {"--ring-bytes", [](Options* o, Text option, Text text) { o->ring_bytes = bytes(option, text); }},
      {"--rules",
       [](Options* o, Text option, Text text) {
         o->rules.clear();
         for (const std::string& one : split(text)) o->rules.push_back(rule_of(option, one));
       }},
      {"--tune", [](Options* o, Text option, Text text) { o->tune = small_number(option, text, 0, 1) == 1; }},
      {"--json", [](Options* o, Text, Text text) { o->json = text; }},
  };
  return kSetters;
}

// Of a run whose sizes come on standard input.
void check_tune(const Options& options) {
  if (!options.tune) return;
  if (options.fused || options.yardstick || options.groups > 1 || !options.board.empty() || !options.json.empty() ||
      options.min_bytes != 0 || options.max_bytes != 0) {
    throw UsageError("--tune 1 is not for --fused, --yardstick, --groups, --board, --json, --min and --max");
  }
  if (options.collectives.size() != 1 || options.collectives.front() == Collective::kBarrier ||
      options.collectives.front() == Collective::kSendReceive) {
    throw UsageError("--tune 1 is for one collective that has rules");
  }
}

bool is_power_of_two(uint32_t number) { return (number & (number - 1)) == 0; }

// Of fused all-reduces, as they were given.
void check_fused(const Options& options) {
  const bool has_any = options.form != 0 || options.hidden != 0 || !options.rows.empty() || options.apart_blocks != 0;
  if (!options.fused && has_any) {
    throw UsageError("--form, --hidden, --rows and --apart-blocks are for --fused 1");
  }
  if (!options.fused) return;
  if (!options.on_gpu()) throw UsageError("--fused is for --backend cuda");
  if (options.min_bytes != 0 || options.max_bytes != 0) {
    throw UsageError("--min and --max are not for --fused 1; --rows and --hidden say the sizes");
  }
  if (options.collectives != std::vector{Collective::kAllReduce} || options.op != NVRAR_SUM) {
    throw UsageError("--fused is for --collective all-reduce and --op sum");
  }
  if (options.data_type >= 0 && (!is_float(options.data_type) || options.data_type == NVRAR_FLOAT64)) {
    throw UsageError(std::string("--fused is for bfloat16, float16 and float32, --type is ") +
                     type_name(options.data_type));
  }
  if (options.hidden % kHiddenStep != 0) {
    throw UsageError("--hidden is " + std::to_string(options.hidden) + ", must be a multiple of " +
                     std::to_string(kHiddenStep));
  }
  if (!is_power_of_two(options.apart_blocks)) {
    throw UsageError("--apart-blocks is " + std::to_string(options.apart_blocks) + ", must be 0, 1, 2, 4 or 8");
  }
}

void complete_fused(Options* options) {
  if (options->form == 0) options->form = NVRAR_FUSION_RMS_NORM;
  if (options->hidden == 0) options->hidden = kHidden;
  if (options->rows.empty()) options->rows.assign(std::begin(kRows), std::end(kRows));
}

// Fills in the options that were not given.
void complete(Options* options) {
  const bool gpu = options->on_gpu();
  if (options->min_bytes == 0) options->min_bytes = gpu ? 1 << 10 : 8;
  if (options->max_bytes == 0) options->max_bytes = std::max<uint64_t>(gpu ? 8 << 20 : 4 << 20, options->min_bytes);
  if (options->repeats == 0) options->repeats = gpu ? 30 : 11;
  if (options->data_type < 0) options->data_type = gpu ? NVRAR_BFLOAT16 : NVRAR_FLOAT32;
  if (options->modes.empty()) {
    for (const Name& name : kModes) options->modes.push_back(static_cast<Mode>(name.code));
  }
  if (options->processes == 0 && !gpu) options->processes = 2;
  if (options->fused) complete_fused(options);
}

void check(const Options& options) {
  if (options.min_bytes > options.max_bytes) {
    throw UsageError("--min is " + std::to_string(options.min_bytes) + " bytes, more than --max, " +
                     std::to_string(options.max_bytes));
  }
  if (options.processes > 0 && options.root >= options.processes) {
    throw UsageError("--root is " + std::to_string(options.root) + ", not a rank of " +
                     std::to_string(options.processes) + " processes");
  }
  if (!options.on_gpu() && (options.gpus > 0 || options.groups > 1 || options.memory != NVRAR_MEMORY_AUTO ||
                            options.exclusive || options.programmatic_launch || options.yardstick)) {
    throw UsageError(
        "--gpus, --groups, --memory, --exclusive, --programmatic-launch and --yardstick are for --backend cuda");
  }
  if (options.groups > 1 && options.exclusive) {
    throw UsageError("--groups is " + std::to_string(options.groups) +
                     ", but with --exclusive 1 a group is the only one on its GPUs");
  }
  // Its grids may fill a GPU, so that two of them could each wait on one GPU for blocks that have no room on another.
  if (options.groups > 1 && options.yardstick) {
    throw UsageError("--groups is " + std::to_string(options.groups) +
                     ", but the kernels of --yardstick 1 are for one group at a time");
  }
  if (options.board.empty() != options.address.empty() || (options.board.empty() && options.rank != 0) ||
      (!options.board.empty() && (options.on_gpu() || options.rank >= options.processes))) {
    throw UsageError("--board, --rank and --address are for a rank below --processes of a group on several hosts");
  }
  if (options.address.size() >= NVRAR_LINK_ADDRESS_BYTES) throw UsageError("--address is not an address");
  if (options.op == NVRAR_AVG && !is_float(options.data_type)) {
    throw UsageError(std::string("--op avg is for floating types, --type is ") + type_name(options.data_type));
  }
}

}  // namespace

const char* name_of(Collective collective) { return text_of(kCollectives, static_cast<int32_t>(collective)); }
const char* type_name(int32_t data_type) { return text_of(kTypes, data_type); }
const char* op_name(int32_t op) { return text_of(kOps, op); }
const char* algorithm_name(int32_t algorithm) { return text_of(kAlgorithms, algorithm); }
const char* backend_name(int32_t backend) { return text_of(kBackends, backend); }
int32_t algorithm_of(const std::string& what, const std::string& name) { return code_of(kAlgorithms, what, name); }
const char* form_name(int32_t form) { return text_of(kForms, form); }

uint32_t type_bytes(int32_t data_type) {
  switch (data_type) {
    case NVRAR_INT8:
    case NVRAR_UINT8:
      return 1;
    case NVRAR_FLOAT16:
    case NVRAR_BFLOAT16:
      return 2;
    case NVRAR_INT64:
    case NVRAR_FLOAT64:
      return 8;
    default:
      return 4;
  }
}

bool is_float(int32_t data_type) {
  return data_type == NVRAR_FLOAT16 || data_type == NVRAR_BFLOAT16 || data_type == NVRAR_FLOAT32 ||
         data_type == NVRAR_FLOAT64;
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

bool has_root(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast;
}

const char* mode_name(Mode mode) { return text_of(kModes, static_cast<int32_t>(mode)); }

bool in_graph(Mode mode) { return mode != Mode::kEager && mode != Mode::kEagerCompute; }

Between between(Mode mode) {
  switch (mode) {
    case Mode::kGraphCompute:
    case Mode::kEagerCompute:
      return Between::kCompute;
    case Mode::kGraphCold:
      return Between::kSweep;
    default:
      return Between::kNothing;
  }
}

Options::Options() : backend(NVRAR_BACKEND_CPU), data_type(-1), op(NVRAR_SUM) {}

bool Options::on_gpu() const { return backend == NVRAR_BACKEND_CUDA; }

int Options::iterations_of(uint64_t bytes) const {
  if (iterations > 0) return iterations;
  if (on_gpu()) {
    const uint64_t fitting = kGpuBatchBytes / std::max<uint64_t>(bytes, 1);
    return static_cast<int>(std::clamp<uint64_t>(fitting, kGpuIterationsLeast, kGpuIterations));
  }
  const auto wanted = static_cast<int>(std::min<uint64_t>(kBatchBytes / std::max<uint64_t>(bytes, 1), kIterationsMost));
  return std::max(wanted, kIterationsLeast);
}

int Options::warmup_of(uint64_t bytes) const {
  if (warmup >= 0) return warmup;
  return on_gpu() ? kGpuWarmup : std::max(2, iterations_of(bytes) / 10);
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 0; i < argc; ++i) options.command += (i == 0 ? "" : " ") + std::string(argv[i]);
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "-h" || name == "--help") {
      options.help = true;
      return options;
    }
    std::string text;
    const size_t equals = name.find('=');
    const bool joined = equals != std::string::npos;
    if (joined) {
      text = name.substr(equals + 1);
      name.resize(equals);
    }
    const auto setter = setters().find(name);
    if (setter == setters().end()) throw UsageError("there is no option '" + name + "'; --help lists them");
    if (!joined) {
      if (i + 1 == argc) throw UsageError(name + " needs a value");
      text = argv[++i];
    }
    setter->second(&options, name, text);
  }
  check_fused(options);
  check_tune(options);
  complete(&options);
  check(options);
  return options;
}

const char* usage() {
  return R"(Times the collectives of libnvrar between processes of this machine.

  --backend NAME        cpu (default) or cuda
  --processes N         1 to 8 processes (2; on GPUs one for each GPU that is visible)
  --collective NAME     all-reduce (default), reduce, broadcast, all-gather, reduce-scatter, all-to-all,
                        send-receive, barrier, or all
  --min, --max BYTES    smallest and largest size, such as 8, 64K, 4M (8 and 4M; on GPUs 1K and 8M)
  --factor N            from one size to the next (2)
  --type NAME           float32 (default), bfloat16 (default on GPUs), float16, float64, int8, uint8, int32, int64
  --op NAME             sum (default), product, max, min, avg
  --root N              of reduce and broadcast (0)
  --algorithm NAME      of all-reduce: auto (default), one-shot, two-shot, hierarchical
  --ranks-per-node N    simulated nodes of so many ranks (0: all in one)
  --links N             nodes are linked by TCP over loopback, as hosts are; on GPUs by N threads of a rank: 1, 2 or 4
  --board FILE          be one rank of several hosts: a file that all of them map, on one machine, ...
  --rank R              ... this process's rank ...
  --address ADDRESS     ... and the address at which the other hosts reach it
  --ring-bytes BYTES    the group's ringBytes (the library's default)
  --iters N             calls in one timed batch (by size: 20 to 1000; on GPUs 40, beyond 8M fewer, to 5)
  --warmup N            untimed calls before each batch (a tenth of --iters); on GPUs untimed batches (3)
  --repeats N           batches, of which the median is shown (11; on GPUs 30)
  --rules RULE,...      the group's tuning table for all-reduces, in order: BYTES:ALGORITHM:BLOCKS:TILES (none)
  --tune 1              measure the points that standard input asks for, a line each: BYTES ALGORITHM BLOCKS TILES REPEATS;
                        BLOCKS and TILES of a rule, 0: the library's choice. The results are lines of JSON.
  --json FILE           also as lines of JSON, which native/bench/report reads; - is standard output, without the table

On GPUs:
  --mode NAMES          graph, eager, graph-compute, eager-compute, graph-cold: a batch in a CUDA graph or call by call,
                        bare, with a kernel of about 1 us after each call, or with one before each call that takes
                        everything else out of the L2 cache; that kernel's own time is subtracted (all, in turn)
  --gpus N              rank r is on GPU r mod N (each has its own)
  --groups N            1 (default) or 2 groups side by side, each with its own stream; the time is for a call of each
  --memory NAME         how the ranks reach each other: auto (default), nvshmem, ipc
  --exclusive 0|1       1: the group has its GPUs for itself
  --programmatic-launch 0|1
                        1: calls, the study's kernels, and the kernel of the compute modes are enqueued with
                        programmatic dependent launch
  --yardstick 1         also time the kernels of the study that ours are compared with, in turn with ours
  --fused 1             fused all-reduces of rows, beside an all-reduce and a kernel of its own for the rest
                        (c++-apart); --min, --max and --factor are not for them
  --form NAME           what they do with the sums: rms-norm (default), rms-fold, residual, bias
  --hidden N            elements of a row (8192)
  --rows N,...          rows, each number a size (1,2,4,8,16,32)
  --apart-blocks N      blocks of a row in the kernel of c++-apart: 1, 2, 4, 8 (0: by the number of rows)

Time: the mean of one batch of calls made back to back; of the ranks the slowest, of the batches the median.
After each batch (on GPUs: after those of one mode) one more is checked: every element on every rank against values
computed without the library.
)";
}

}  // namespace nvrar::bench
