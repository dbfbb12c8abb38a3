// That the measurement on GPUs tells a wrong result from a right one, in a graph and call by call, on the stub driver,
// which runs copies at once and again in a graph; and how it launches the study's kernels.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvrar.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "gpu/add_norm.h"
#include "gpu/between.h"
#include "gpu/device.h"
#include "gpu/images.h"
#include "gpu/stream_measure.h"
#include "gpu/yardstick.h"
#include "gpu/yardstick_norm.h"
#include "options.h"
#include "team.h"

extern "C" int (*stub_cuda_kernel)(const void* config, void** arguments);
extern "C" void (*stub_cuda_before)(const char* function);

namespace nvrar::bench {

// The stub loads anything.
const void* compute_image() { return ""; }
const void* programmatic_compute_image() { return ""; }
const void* sweep_image() { return ""; }
const void* yardstick_image() { return ""; }
const void* yardstick_norm_image() { return ""; }
const void* add_norm_image() { return ""; }

namespace {

using Copy = int (*)(uint64_t to, uint64_t from, size_t bytes, CudaStream stream);
using Set = int (*)(uint64_t to, unsigned char value, size_t bytes, CudaStream stream);

template <class Function>
Function stub(const char* name) {
  return reinterpret_cast<Function>(::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), name));
}

// An all-reduce in a group of one, which the test may damage.
class Copying final : public Contestant {
 public:
  enum class Damage { kNone, kOneByte, kNothingWritten };
  Copying(std::string name, Damage damage) : name_(std::move(name)), damage_(damage) {}
  std::string name() const override { return name_; }
  bool takes(const Problem& problem) const override { return problem.bytes() <= 2048; }
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override {
    ++calls;
    if (damage_ == Damage::kNothingWritten) return;
    ASSERT_EQ(stub<Copy>("cuMemcpyDtoDAsync_v2")(at.recv, at.send, problem.bytes(), stream), 0);
    // No half of a bfloat16 of the benchmark's numbers.
    if (damage_ == Damage::kOneByte) {
      ASSERT_EQ(stub<Set>("cuMemsetD8Async")(at.recv + 5, 0x11, 1, stream), 0);
    }
  }
  void check(CudaStream) override { ++checks; }
  int calls = 0;
  int checks = 0;

 private:
  const std::string name_;
  const Damage damage_;
};

Options options_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"nvrar_bench", "--backend", "cuda", "--processes", "1"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

// In a process of its own, where a failed expectation becomes the exit code: ranks are processes.
int run(const std::function<void(Team*)>& body) {
  return run_team(1, 0, [&](Team* team) {
    body(team);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
}

TEST(GpuBench, WrongElementsAreCountedInEveryModeAndOfWhoMadeThem) {
  EXPECT_EQ(run([](Team* team) {
              const Gpu gpu(0);
              const Options options =
                  options_of({"--min", "1K", "--max", "4K", "--iters", "3", "--repeats", "4", "--warmup", "1"});
              Copying right("right", Copying::Damage::kNone);
              Copying damaged("damaged", Copying::Damage::kOneByte);
              Copying idle("idle", Copying::Damage::kNothingWritten);
              int between_calls = 0;
              std::vector<Row> rows;
              const uint64_t wrong = measure_on_gpu(
                  team, options, {{&right}, {&damaged}, {&idle}},
                  [&](Between, uint64_t, CudaStream) { ++between_calls; },
                  [&](const Row& row) { rows.push_back(row); });
              // Two sizes that they take, five modes each.
              ASSERT_EQ(rows.size(), 3u * 2 * 5);
              for (const Row& row : rows) {
                const uint64_t elements = row.problem.count;
                EXPECT_EQ(row.out_of_place.wrong, row.implementation == "right"     ? 0
                                                  : row.implementation == "damaged" ? 1
                                                                                    : elements)
                    << row.implementation << " " << row.mode;
                EXPECT_FALSE(row.in_place.has_value());
              }
              EXPECT_EQ(wrong, 5u * (2 + 512 + 1024));
              EXPECT_GT(right.checks, 0);
              // A size: two calls first; a graph of three calls is recorded once; eagerly, in three turns, one batch of
              // warm-up each and four that count, and one that is checked.
              EXPECT_EQ(right.calls, 2 * (2 + 3 * 3 + 2 * 3 * (3 + 4 + 1)));
              EXPECT_GT(between_calls, 0);
            }),
            0);
}

// Appends itself and its calls to a common record.
class Recording final : public Contestant {
 public:
  Recording(std::string name, std::vector<std::string>* record) : name_(std::move(name)), record_(record) {}
  std::string name() const override { return name_; }
  bool takes(const Problem&) const override { return true; }
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override {
    record_->push_back(name_);
    EXPECT_EQ(stub<Copy>("cuMemcpyDtoDAsync_v2")(at.recv, at.send, problem.bytes(), stream), 0);
  }
  void check(CudaStream) override {}

 private:
  const std::string name_;
  std::vector<std::string>* const record_;
};

std::string text_of(Between which) { return which == Between::kSweep ? "sweep" : "compute"; }

using Words = std::vector<std::string>;

TEST(GpuBench, TheSweepComesBeforeEachCallAndTheComputingBehindIt) {
  EXPECT_EQ(
      run([](Team* team) {
        const Gpu gpu(0);
        const auto recorded = [&](const std::string& mode) {
          Words record;
          Recording call("call", &record);
          measure_on_gpu(
              team,
              options_of(
                  {"--min", "1K", "--max", "1K", "--iters", "2", "--repeats", "1", "--warmup", "0", "--mode", mode}),
              {{&call}}, [&](Between which, uint64_t, CudaStream) { record.push_back(text_of(which)); },
              [](const Row&) {});
          return record;
        };
        // A graph of the kernel alone, the two calls that load kernels, and the graph of both.
        EXPECT_EQ(recorded("graph-cold"), (Words{"sweep", "sweep", "call", "call", "sweep", "call", "sweep", "call"}));
        EXPECT_EQ(recorded("graph-compute"),
                  (Words{"compute", "compute", "call", "call", "call", "compute", "call", "compute"}));
      }),
      0);
}

// Eagerly it would be the time of the host, which submits kernels more slowly than so short a kernel runs.
TEST(GpuBench, TheKernelAloneIsTimedInAGraphWhateverTheMode) {
  EXPECT_EQ(
      run([](Team* team) {
        const Gpu gpu(0);
        for (const auto& [mode, kernel] :
             {std::pair("graph-compute", "compute"), {"eager-compute", "compute"}, {"graph-cold", "sweep"}}) {
          Words record;
          Recording call("call", &record);
          const auto count = [&](std::string_view word) { return std::count(record.begin(), record.end(), word); };
          // Two calls of a batch and two batches of warm-up: alone the kernel is submitted for the graph and no more.
          measure_on_gpu(
              team,
              options_of(
                  {"--min", "1K", "--max", "1K", "--iters", "2", "--repeats", "1", "--warmup", "2", "--mode", mode}),
              {{&call}}, [&](Between which, uint64_t, CudaStream) { record.push_back(text_of(which)); },
              [](const Row&) {});
          EXPECT_EQ(count(kernel) - 2, count("call") - 2) << mode;
        }
      }),
      0);
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

int graph_launches = 0;

void delay_launches_of_graphs(const char* function) {
  if (std::string_view(function) != "cuGraphLaunch") return;
  ++graph_launches;
  sleep_ms(graph_launches == 1 ? 50 : graph_launches == 2 ? 200 : 0);
}

TEST(GpuBench, TheTimeOfTheSweepAloneIsSubtracted) {
  EXPECT_EQ(run([](Team* team) {
              const Gpu gpu(0);
              Copying right("right", Copying::Damage::kNone);
              std::vector<Row> rows;
              // One batch of the sweep alone takes 50 ms, one of sweeps and calls 200.
              stub_cuda_before = delay_launches_of_graphs;
              measure_on_gpu(
                  team,
                  options_of({"--min", "1K", "--max", "1K", "--iters", "10", "--repeats", "1", "--warmup", "0",
                              "--mode", "graph-cold"}),
                  {{&right}}, [](Between, uint64_t, CudaStream) {}, [&](const Row& row) { rows.push_back(row); });
              ASSERT_EQ(rows.size(), 1u);
              EXPECT_EQ(rows[0].mode, "graph-cold");
              EXPECT_EQ(rows[0].out_of_place.wrong, 0u);
              EXPECT_NEAR(rows[0].out_of_place.us, 15000, 4500);  // of 20000, which it would be without
              EXPECT_EQ(graph_launches, 3);
            }),
            0);
}

TEST(GpuBench, WrongElementsOfEachOfTwoGroupsAreCounted) {
  EXPECT_EQ(run([](Team* team) {
              const Gpu gpu(0);
              const Options options = options_of(
                  {"--groups", "2", "--min", "1K", "--max", "1K", "--iters", "3", "--repeats", "3", "--warmup", "0"});
              const auto wrong = [&](Copying::Damage first, Copying::Damage second) {
                Copying one("ours", first);
                Copying other("ours", second);
                std::vector<Row> rows;
                measure_on_gpu(
                    team, options, {{&one, &other}}, [](Between, uint64_t, CudaStream) {},
                    [&](const Row& row) { rows.push_back(row); });
                EXPECT_EQ(rows.size(), 5u);
                EXPECT_EQ(one.calls, other.calls);
                EXPECT_EQ(one.checks, other.checks);
                for (const Row& row : rows) EXPECT_EQ(row.out_of_place.wrong, rows[0].out_of_place.wrong) << row.mode;
                return rows[0].out_of_place.wrong;
              };
              using enum Copying::Damage;
              EXPECT_EQ(wrong(kNone, kNone), 0u);
              EXPECT_EQ(wrong(kOneByte, kNone), 1u);
              EXPECT_EQ(wrong(kNone, kOneByte), 1u);
              EXPECT_EQ(wrong(kNothingWritten, kOneByte), 512u + 1);
            }),
            0);
}

// Gives the result of the first group's data to both.
class Confusing final : public Contestant {
 public:
  explicit Confusing(uint64_t* first_send) : first_send_(first_send) {}
  std::string name() const override { return "confusing"; }
  bool takes(const Problem&) const override { return true; }
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override {
    if (*first_send_ == 0) *first_send_ = at.send;
    EXPECT_EQ(stub<Copy>("cuMemcpyDtoDAsync_v2")(at.recv, *first_send_, problem.bytes(), stream), 0);
  }
  void check(CudaStream) override {}

 private:
  uint64_t* const first_send_;
};

TEST(GpuBench, AGroupThatGetsTheOthersDataIsWrong) {
  EXPECT_EQ(run([](Team* team) {
              const Gpu gpu(0);
              uint64_t first_send = 0;
              Confusing first(&first_send);
              Confusing second(&first_send);
              const uint64_t wrong = measure_on_gpu(
                  team,
                  options_of({"--groups", "2", "--min", "1K", "--max", "1K", "--iters", "2", "--repeats", "1", "--mode",
                              "graph"}),
                  {{&first, &second}}, [](Between, uint64_t, CudaStream) {}, [](const Row&) {});
              EXPECT_GT(wrong, 256u);  // of 512; some numbers are the same in both
              EXPECT_LE(wrong, 512u);
            }),
            0);
}

int records = 0;

void delay_the_third_event(const char* function) {
  if (std::string_view(function) == "cuEventRecord" && ++records % 3 == 0) sleep_ms(60);
}

TEST(GpuBench, TheTimeOfTwoGroupsIsThatOfTheLaterEndForACallOfEach) {
  EXPECT_EQ(run([](Team* team) {
              const Gpu gpu(0);
              Words record;
              Recording first("first", &record);
              Recording second("second", &record);
              std::vector<Row> rows;
              // The events of a batch: the begin, the first group's end, and 60 ms later the second's.
              stub_cuda_before = delay_the_third_event;
              measure_on_gpu(
                  team,
                  options_of({"--groups", "2", "--min", "1K", "--max", "1K", "--iters", "2", "--repeats", "1",
                              "--warmup", "0", "--mode", "eager"}),
                  {{&first, &second}}, [](Between, uint64_t, CudaStream) {},
                  [&](const Row& row) { rows.push_back(row); });
              ASSERT_EQ(rows.size(), 1u);
              EXPECT_EQ(records, 3);
              EXPECT_EQ(rows[0].implementation, "first");
              EXPECT_GE(rows[0].out_of_place.us, 30000);
              EXPECT_LT(rows[0].out_of_place.us, 55000);
              // In eager mode the groups' calls alternate, so that one does not begin when the other is done.
              ASSERT_GE(record.size(), 8u);
              EXPECT_EQ(Words(record.begin() + 4, record.begin() + 8), (Words{"first", "second", "first", "second"}));
            }),
            0);
}

struct Launched {
  unsigned blocks;
  unsigned threads;
  bool programmatic;
  unsigned cluster;
  bool operator==(const Launched&) const = default;
};
std::vector<Launched> launched;

int note_launch(const void* given, void**) {
  const auto& config = *static_cast<const cuda::LaunchConfig*>(given);
  bool programmatic = false;
  unsigned cluster = 1;
  for (unsigned i = 0; i < config.attribute_count; ++i) {
    const cuda::LaunchAttribute& attribute = config.attributes[i];
    if (attribute.id == cuda::kProgrammaticStreamSerialization) programmatic = attribute.value == 1;
    if (attribute.id == cuda::kClusterDimension) cluster = attribute.cluster[0];
  }
  launched.push_back({config.grid[0], config.block[0], programmatic, cluster});
  return 0;
}

TEST(GpuBench, TheStudysKernelsAreLaunchedWithProgrammaticLaunchIfOursAre) {
  for (const std::string text : {"0", "1"}) {
    EXPECT_EQ(run_team(2, 0,
                       [&](Team* team) {
                         const Gpu gpu(0);
                         const Stream stream;
                         stub_cuda_kernel = note_launch;
                         const Options options = options_of({"--processes", "2", "--programmatic-launch", text});
                         const Problem problem = Problem::of_size(options, Collective::kAllReduce, 64 << 10);
                         const DeviceMemory buffer(problem.bytes());
                         Yardstick study(team, options.programmatic_launch);
                         EXPECT_TRUE(study.takes(problem));
                         study.enqueue(problem, {buffer.address(), buffer.address()}, stream.handle());
                         study.check(stream.handle());
                         EXPECT_EQ(launched.size(), 1u);
                         EXPECT_EQ(launched.at(0).blocks, 64u);  // 4096 vectors of 16 bytes, one for each thread
                         EXPECT_EQ(launched.at(0).threads, 64u);
                         EXPECT_EQ(launched.at(0).programmatic, text == "1");
                         return ::testing::Test::HasFailure() ? 1 : 0;
                       }),
              0);
  }
}

Options fused_options(std::vector<std::string> words) {
  words.insert(words.begin(), {"--fused", "1"});
  return options_of(std::move(words));
}

// How the kernel behind an all-reduce is launched.
Launched of_add_norm(const Options& options, uint32_t rows, bool has_clusters = true) {
  launched.clear();
  stub_cuda_kernel = note_launch;
  const Gpu gpu(0);
  const Stream stream;
  AddNorm add_norm(has_clusters, options);
  const Problem problem = Problem::of_rows(options, rows);
  EXPECT_TRUE(add_norm.takes(problem));
  add_norm.enqueue(problem, {}, stream.handle());
  return launched.at(0);
}

TEST(GpuBench, TheKernelBehindAnAllReduceHasAVectorForEachThread) {
  EXPECT_EQ(
      run([](Team*) {
        const auto with = [](const std::string& option, const std::string& value) {
          return fused_options({option, value});
        };
        const std::string blocks = "--apart-blocks";
        // A row of 8192 bfloat16 is 1024 vectors.
        EXPECT_EQ(of_add_norm(with(blocks, "1"), 8), (Launched{8, 1024, false, 1}));
        EXPECT_EQ(of_add_norm(with(blocks, "8"), 2), (Launched{16, 128, false, 8}));
        EXPECT_EQ(of_add_norm(fused_options({"--programmatic-launch", "1"}), 32), (Launched{32, 1024, true, 1}));
        EXPECT_GT(of_add_norm(fused_options({}), 1).cluster, 1u);
        // More vectors than a block has threads.
        EXPECT_EQ(of_add_norm(fused_options({blocks, "1", "--type", "float32"}), 8), (Launched{16, 1024, false, 2}));
        // 104 of them are 13 vectors, in one warp.
        EXPECT_EQ(of_add_norm(with("--hidden", "104"), 16), (Launched{16, 32, false, 1}));
        // No thread needs another's numbers.
        for (const std::string form : {"residual", "bias", "rms-fold"}) {
          EXPECT_EQ(of_add_norm(with("--form", form), 2), (Launched{16, 128, false, 1}));
        }
      }),
      0);
}

TEST(GpuBench, WithoutClustersTheNormOfARowIsMadeByOneBlockOrNotAtAll) {
  EXPECT_EQ(run([](Team*) {
              EXPECT_EQ(of_add_norm(fused_options({}), 1, false), (Launched{1, 1024, false, 1}));
              const Options longer = fused_options({"--type", "float32"});
              EXPECT_FALSE(AddNorm(false, longer).takes(Problem::of_rows(longer, 1)));
              EXPECT_TRUE(AddNorm(true, longer).takes(Problem::of_rows(longer, 1)));
            }),
            0);
}

TEST(GpuBench, TheStudysNormsAreLaunchedInItsShapes) {
  const auto shapes = [](int ranks, const std::string& hidden, const std::vector<Launched>& expected) {
    EXPECT_EQ(run_team(ranks, 0,
                       [&](Team* team) {
                         const Gpu gpu(0);
                         const Stream stream;
                         stub_cuda_kernel = note_launch;
                         const Options options = fused_options({"--hidden", hidden, "--programmatic-launch", "1"});
                         YardstickNorm study(team, true, true);
                         for (uint32_t rows : {1, 4, 32}) {
                           const Problem problem = Problem::of_rows(options, rows);
                           EXPECT_TRUE(study.takes(problem));
                           study.enqueue(problem, {}, stream.handle());
                         }
                         study.check(stream.handle());
                         EXPECT_EQ(launched, expected);
                         return ::testing::Test::HasFailure() ? 1 : 0;
                       }),
              0);
  };
  shapes(2, "8192", {{16, 128, true, 16}, {64, 128, true, 16}, {256, 256, true, 8}});
  shapes(4, "8192", {{16, 256, true, 16}, {64, 256, true, 16}, {128, 256, true, 4}});
  shapes(8, "4096", {{16, 256, true, 16}, {64, 256, true, 16}, {32, 512, true, 1}});
}

TEST(GpuBench, TheStudyHasNormsOfSomeRowsOnly) {
  EXPECT_EQ(run_team(2, 0,
                     [](Team* team) {
                       const Gpu gpu(0);
                       const YardstickNorm study(team, true, false);
                       const YardstickNorm without(team, false, false);
                       const auto problem = [](std::vector<std::string> words, uint32_t rows) {
                         return Problem::of_rows(fused_options(std::move(words)), rows);
                       };
                       EXPECT_TRUE(study.takes(problem({}, 32)));
                       EXPECT_FALSE(without.takes(problem({}, 32)));
                       EXPECT_FALSE(study.takes(problem({}, 33)));
                       EXPECT_FALSE(study.takes(problem({"--hidden", "2048"}, 1)));
                       EXPECT_FALSE(study.takes(problem({"--form", "rms-fold"}, 1)));
                       EXPECT_FALSE(study.takes(problem({"--type", "float16"}, 1)));
                       return ::testing::Test::HasFailure() ? 1 : 0;
                     }),
            0);
}

// Adds the residual on the host, which the stub's memory is in.
class Adding final : public Contestant {
 public:
  enum class Damage { kNone, kInput, kOneElement };
  explicit Adding(Damage damage) : damage_(damage) {}
  std::string name() const override { return "adding"; }
  bool takes(const Problem&) const override { return true; }
  void enqueue(const Problem& problem, const Buffers& at, CudaStream) override {
    EXPECT_EQ(at.weight, 0u);
    EXPECT_EQ(at.residual_out, 0u);
    EXPECT_EQ(at.squares, 0u);
    const auto* send = reinterpret_cast<const float*>(at.send);
    const auto* residual = reinterpret_cast<const float*>(at.residual);
    auto* recv = reinterpret_cast<float*>(at.recv);
    for (uint64_t i = 0; i < problem.count; ++i) recv[i] = send[i] + (damage_ == Damage::kInput ? 0 : residual[i]);
    if (damage_ == Damage::kOneElement) recv[5] += 1;
  }
  void check(CudaStream) override {}

 private:
  const Damage damage_;
};

TEST(GpuBench, WrongElementsOfFusedAllReducesAreCounted) {
  EXPECT_EQ(run([](Team* team) {
              const Gpu gpu(0);
              Adding right(Adding::Damage::kNone);
              Adding one(Adding::Damage::kOneElement);
              Adding unfused(Adding::Damage::kInput);
              std::vector<uint64_t> wrong;
              measure_on_gpu(
                  team,
                  fused_options({"--form", "residual", "--type", "float32", "--hidden", "512", "--rows", "2", "--iters",
                                 "2", "--repeats", "1", "--mode", "eager"}),
                  {{&right}, {&one}, {&unfused}}, [](Between, uint64_t, CudaStream) {},
                  [&](const Row& row) { wrong.push_back(row.out_of_place.wrong); });
              ASSERT_EQ(wrong.size(), 3u);
              EXPECT_EQ(wrong[0], 0u);
              EXPECT_EQ(wrong[1], 1u);
              EXPECT_GT(wrong[2], 900u);  // of 1024; some residuals are 0
            }),
            0);
}

// What the kernels between calls are launched with, in a process with that environment.
std::vector<Launched> between_launches(const std::string& programmatic) {
  launched.clear();
  stub_cuda_kernel = note_launch;
  const Gpu gpu(0);
  const Stream stream;
  BetweenKernels kernels(gpu, options_of({"--programmatic-launch", programmatic}));
  kernels.enqueue(Between::kNothing, 0, stream.handle());
  kernels.enqueue(Between::kCompute, 0, stream.handle());
  kernels.enqueue(Between::kSweep, 0, stream.handle());
  return launched;
}

TEST(GpuBench, OnlyTheComputingIsLaunchedProgrammaticallyAndOnlyWhereCallsAre) {
  for (const std::string text : {"0", "1"}) {
    EXPECT_EQ(run([&](Team*) {
                const std::vector<Launched> launches = between_launches(text);
                ASSERT_EQ(launches.size(), 2u);
                EXPECT_EQ(launches[0].threads, 1u);
                EXPECT_EQ(launches[0].programmatic, text == "1");
                EXPECT_EQ(launches[1].blocks, 2u * 132);
                EXPECT_EQ(launches[1].threads, 1024u);
                EXPECT_FALSE(launches[1].programmatic);
              }),
              0);
  }
  EXPECT_EQ(run([](Team*) {
              ::setenv("STUB_CUDA_COMPUTE_CAPABILITY", "80", 1);
              EXPECT_FALSE(between_launches("1").at(0).programmatic);
            }),
            0);
}

TEST(GpuBench, TheComputingHasAFormOfItsOwnForProgrammaticLaunch) {
  EXPECT_EQ(run([](Team*) {
              ::setenv("STUB_CUDA_OLD_PTX", "1", 1);  // no kernel of that form can be found
              EXPECT_NO_THROW(between_launches("0"));
              EXPECT_THROW(between_launches("1"), Error);
            }),
            0);
}

uint64_t swept_bytes = 0;

int note_swept_bytes(const void*, void** arguments) {
  swept_bytes = *static_cast<uint64_t*>(arguments[1]);
  return 0;
}

TEST(GpuBench, TheSweepReadsTwiceTheSizeOfTheL2Cache) {
  EXPECT_EQ(run([](Team*) {
              stub_cuda_kernel = note_swept_bytes;
              const Gpu gpu(0);
              const Stream stream;
              const uint64_t free_before = gpu.free_bytes();
              BetweenKernels kernels(gpu, options_of({"--mode", "graph-cold"}));
              EXPECT_GE(free_before - gpu.free_bytes(), 2 * gpu.l2_bytes());
              kernels.enqueue(Between::kSweep, 0, stream.handle());
              EXPECT_GT(gpu.l2_bytes(), 0u);
              EXPECT_EQ(swept_bytes, 2 * gpu.l2_bytes());
              const uint64_t free_without = gpu.free_bytes();
              BetweenKernels others(gpu, options_of({"--mode", "graph-compute"}));
              EXPECT_LT(free_without - gpu.free_bytes(), gpu.l2_bytes());
            }),
            0);
}

TEST(GpuBench, TheStudyLeavesOutWhatItHasNoKernelsFor) {
  EXPECT_EQ(run_team(2, 0,
                     [](Team* team) {
                       const Gpu gpu(0);
                       const Options options = options_of({"--processes", "2"});
                       const Yardstick study(team, false);
                       const auto takes = [&](Collective collective, uint64_t bytes) {
                         return study.takes(Problem::of_size(options, collective, bytes));
                       };
                       EXPECT_TRUE(takes(Collective::kAllReduce, 8 << 20));
                       EXPECT_FALSE(takes(Collective::kAllReduce, 16 << 20));
                       EXPECT_FALSE(takes(Collective::kAllGather, 8 << 20));
                       return ::testing::Test::HasFailure() ? 1 : 0;
                     }),
            0);
}

TEST(GpuBench, ARankThatFailsEndsTheOthers) {
  EXPECT_EQ(run_team(2, 0,
                     [](Team* team) -> int {
                       if (team->rank() == 1) throw std::runtime_error("on purpose");
                       team->meet();
                       return 0;
                     }),
            1);
}

TEST(GpuBench, WhatRanksShowEachOtherArrivesInTheirOrder) {
  EXPECT_EQ(run_team(3, 0,
                     [](Team* team) {
                       for (int turn = 0; turn < 10; ++turn) {
                         const std::vector<int> all = team->exchange(10 * turn + team->rank());
                         if (all != std::vector<int>{10 * turn, 10 * turn + 1, 10 * turn + 2}) return 5;
                       }
                       return 0;
                     }),
            0);
}

TEST(GpuBench, DefaultsAreThoseOfProtocolB) {
  const Options options = options_of({});
  EXPECT_EQ(options.data_type, NVRAR_BFLOAT16);
  EXPECT_EQ(options.min_bytes, 1u << 10);
  EXPECT_EQ(options.max_bytes, 8u << 20);
  EXPECT_EQ(options.repeats, 30);
  EXPECT_EQ(options.modes.size(), 5u);
  EXPECT_EQ(options.groups, 1);
}

TEST(GpuBench, LargeCallsAreFewerInABatchUnlessTheirNumberIsGiven) {
  const Options options = options_of({});
  const std::vector<std::pair<uint64_t, int>> expected{{1 << 10, 40},  {8 << 20, 40}, {16 << 20, 20},
                                                       {32 << 20, 10}, {64 << 20, 5}, {1 << 30, 5}};
  for (const auto& [bytes, calls] : expected) EXPECT_EQ(options.iterations_of(bytes), calls) << bytes;
  EXPECT_EQ(options_of({"--iters", "40"}).iterations_of(64 << 20), 40);
}

}  // namespace
}  // namespace nvrar::bench
