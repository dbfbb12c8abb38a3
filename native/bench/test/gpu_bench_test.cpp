// That the measurement on GPUs tells a wrong result from a right one, in a graph and call by call, on the stub driver,
// which runs copies at once and again in a graph; and how it launches the study's kernels.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvrar.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device.h"
#include "gpu/images.h"
#include "gpu/stream_measure.h"
#include "gpu/yardstick.h"
#include "options.h"
#include "team.h"

extern "C" int (*stub_cuda_kernel)(const void* config, void** arguments);

namespace nvrar::bench {

// The stub loads anything.
const void* yardstick_image() { return ""; }

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
  void enqueue(const Problem& problem, uint64_t send, uint64_t recv, CudaStream stream) override {
    ++calls;
    if (damage_ == Damage::kNothingWritten) return;
    ASSERT_EQ(stub<Copy>("cuMemcpyDtoDAsync_v2")(recv, send, problem.bytes(), stream), 0);
    // No half of a bfloat16 of the benchmark's numbers.
    if (damage_ == Damage::kOneByte) {
      ASSERT_EQ(stub<Set>("cuMemsetD8Async")(recv + 5, 0x11, 1, stream), 0);
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
              int computed = 0;
              std::vector<Row> rows;
              const uint64_t wrong = measure_on_gpu(
                  team, options, {&right, &damaged, &idle}, [&](uint64_t, CudaStream) { ++computed; },
                  [&](const Row& row) { rows.push_back(row); });
              // Two sizes that they take, four modes each.
              ASSERT_EQ(rows.size(), 3u * 2 * 4);
              for (const Row& row : rows) {
                const uint64_t elements = row.problem.count;
                EXPECT_EQ(row.out_of_place.wrong, row.implementation == "right"     ? 0
                                                  : row.implementation == "damaged" ? 1
                                                                                    : elements)
                    << row.implementation << " " << row.mode;
                EXPECT_FALSE(row.in_place.has_value());
              }
              EXPECT_EQ(wrong, 4u * (2 + 512 + 1024));
              EXPECT_GT(right.checks, 0);
              // A size: two calls first; a graph of three calls is recorded once; eagerly, in three turns, one batch of
              // warm-up each and four that count, and one that is checked.
              EXPECT_EQ(right.calls, 2 * (2 + 2 * 3 + 2 * 3 * (3 + 4 + 1)));
              EXPECT_GT(computed, 0);
            }),
            0);
}

struct Launched {
  unsigned blocks;
  unsigned threads;
  bool programmatic;
};
std::vector<Launched> launched;

int note_launch(const void* given, void**) {
  const auto& config = *static_cast<const CudaLaunchConfig*>(given);
  bool programmatic = false;
  for (unsigned i = 0; i < config.attribute_count; ++i) {
    const CudaLaunchAttribute& attribute = config.attributes[i];
    if (attribute.id == kCudaProgrammaticStreamSerialization) programmatic = attribute.value == 1;
  }
  launched.push_back({config.grid[0], config.block[0], programmatic});
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
                         study.enqueue(problem, buffer.address(), buffer.address(), stream.handle());
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
  EXPECT_EQ(options.iterations_of(1 << 10), 40);
  EXPECT_EQ(options.repeats, 30);
  EXPECT_EQ(options.modes.size(), 4u);
}

}  // namespace
}  // namespace nvrar::bench
