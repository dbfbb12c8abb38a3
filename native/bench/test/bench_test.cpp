// That the benchmark tells a wrong result from a right one, and reads its options as it says.
#include <gtest/gtest.h>
#include <nvrar.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "fused_problem.h"
#include "measure.h"
#include "options.h"
#include "team.h"
#include "tune.h"

namespace nvrar::bench {
namespace {

Options options_of(std::vector<std::string> words) {
  words.insert(words.begin(), "nvrar_bench");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

std::string refusal_of(std::vector<std::string> words) {
  try {
    options_of(std::move(words));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "accepted";
}

// A group of one whose all-reduce does what the test says after the right thing.
class LoneMember final : public Member {
 public:
  using Damage = std::function<void(const Problem&, uint8_t* recv)>;
  explicit LoneMember(Damage damage) : damage_(std::move(damage)) {}
  int rank() const override { return 0; }
  void call(const Problem& problem, const uint8_t* send, uint8_t* recv) override {
    if (send != recv) std::memcpy(recv, send, problem.bytes());
    damage_(problem, recv);
  }
  void barrier() override {}
  double max_of_ranks(double value) override { return value; }
  uint64_t sum_of_ranks(uint64_t value) override { return value; }

 private:
  Damage damage_;
};

std::vector<Row> rows_of(const LoneMember::Damage& damage, const Options& options, uint64_t* wrong) {
  LoneMember member(damage);
  std::vector<Row> rows;
  *wrong = measure(&member, options, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

const std::vector<std::string> kAlone = {"--processes", "1", "--min",   "64", "--max",     "4K",
                                         "--factor",    "8", "--iters", "2",  "--repeats", "3"};

TEST(WrongColumn, IsZeroForACopyInAGroupOfOne) {
  uint64_t wrong = 99;
  const std::vector<Row> rows = rows_of([](const Problem&, uint8_t*) {}, options_of(kAlone), &wrong);
  EXPECT_EQ(rows.size(), 3u);
  EXPECT_EQ(wrong, 0u);
}

TEST(WrongColumn, CountsOneFlippedBitInEveryCheckedCall) {
  for (uint64_t element : {0, 15}) {
    uint64_t wrong = 0;
    const auto rows =
        rows_of([&](const Problem&, uint8_t* recv) { recv[element * 4] ^= 1; }, options_of(kAlone), &wrong);
    for (const Row& row : rows) {
      EXPECT_EQ(row.out_of_place.wrong, 3u);
      EXPECT_EQ(row.in_place->wrong, 3u);
    }
    EXPECT_EQ(wrong, 3u * 3 * 2);
  }
}

TEST(WrongColumn, CountsEveryElementOfACallThatWritesNothing) {
  LoneMember::Damage undo = [](const Problem& problem, uint8_t* recv) { std::memset(recv, 0xA5, problem.bytes()); };
  uint64_t wrong = 0;
  const std::vector<Row> rows = rows_of(undo, options_of(kAlone), &wrong);
  for (const Row& row : rows) EXPECT_EQ(row.out_of_place.wrong, 3 * row.problem.count);
}

TEST(WrongColumn, SeesTwoElementsThatChangedPlaces) {
  uint64_t wrong = 0;
  rows_of([](const Problem& problem, uint8_t* recv) { std::swap_ranges(recv, recv + 32, recv + problem.bytes() - 32); },
          options_of(kAlone), &wrong);
  EXPECT_GT(wrong, 0u);
}

TEST(Expectation, DiffersBetweenRanksPlacesAndSeeds) {
  Options options = options_of({"--processes", "4"});
  const Problem problem = Problem::of_size(options, Collective::kAllReduce, 4096);
  std::vector<uint8_t> first(problem.bytes());
  std::vector<uint8_t> other_rank(problem.bytes());
  std::vector<uint8_t> other_seed(problem.bytes());
  problem.fill(1, 0, first.data());
  problem.fill(1, 1, other_rank.data());
  problem.fill(2, 0, other_seed.data());
  EXPECT_NE(first, other_rank);
  EXPECT_NE(first, other_seed);
  EXPECT_NE(std::memcmp(first.data(), first.data() + 2048, 2048), 0);
}

TEST(Expectation, OfASumIsTheSumOfWhatTheRanksSend) {
  const Options options = options_of({"--processes", "3", "--type", "int64"});
  const Problem problem = Problem::of_size(options, Collective::kAllReduce, 800);
  std::vector<int64_t> sum(problem.count);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<int64_t> send(problem.count);
    problem.fill(7, rank, reinterpret_cast<uint8_t*>(send.data()));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += send[i];
  }
  EXPECT_EQ(problem.wrong(7, 2, reinterpret_cast<const uint8_t*>(sum.data())), 0u);
  ++sum[99];
  EXPECT_EQ(problem.wrong(7, 2, reinterpret_cast<const uint8_t*>(sum.data())), 1u);
}

// A fused all-reduce of one rank, computed in float32.
struct Fused {
  Fused(const Problem& of, uint64_t seed) : problem(of), data(of), sums(of.bytes()), output(of.bytes()) {
    data.fill(problem, seed);
    problem.fill(seed, 0, sums.data());
    for (uint32_t row = 0; row < problem.rows(); ++row) make(row);
  }

  uint64_t wrong(uint64_t seed) const { return wrong_of_fused(problem, seed, output.data(), data); }

  // Adds to the bits of element i of an array of the problem's type.
  void move(std::vector<uint8_t>* array, uint64_t i, int by) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &(*array)[i * bytes()], bytes());
    bits += static_cast<uint32_t>(by);
    std::memcpy(&(*array)[i * bytes()], &bits, bytes());
  }

  Problem problem;
  FusedData data;
  std::vector<uint8_t> sums;
  std::vector<uint8_t> output;

 private:
  uint32_t bytes() const { return type_bytes(problem.data_type); }

  float get(const std::vector<uint8_t>& array, uint64_t i) const {
    if (problem.data_type == NVRAR_FLOAT16) {
      _Float16 value;
      std::memcpy(&value, &array[i * sizeof value], sizeof value);
      return static_cast<float>(value);
    }
    uint32_t bits = 0;
    std::memcpy(&bits, &array[i * bytes()], bytes());
    if (problem.data_type == NVRAR_BFLOAT16) bits <<= 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  void set(std::vector<uint8_t>* array, uint64_t i, float value) const {
    if (problem.data_type == NVRAR_FLOAT16) {
      const auto half = static_cast<_Float16>(value);
      std::memcpy(&(*array)[i * sizeof half], &half, sizeof half);
      return;
    }
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (problem.data_type == NVRAR_BFLOAT16) bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    std::memcpy(&(*array)[i * bytes()], &bits, bytes());
  }

  void make(uint32_t row) {
    const uint64_t begin = uint64_t{row} * problem.hidden;
    const bool bias = problem.form == NVRAR_FUSION_BIAS;
    const uint32_t in_part = 128 / bytes();
    const uint64_t parts = (problem.hidden + in_part - 1) / in_part;
    std::vector<float> h;
    std::vector<float> of_parts(parts);
    float all = 0;
    for (uint32_t i = 0; i < problem.hidden; ++i) {
      h.push_back(get(sums, begin + i) + (bias ? get(data.weight, i) : get(data.residual, begin + i)));
      all += h[i] * h[i];
      of_parts[i / in_part] += h[i] * h[i];
    }
    const float scale = problem.form == NVRAR_FUSION_RMS_NORM
                            ? 1 / std::sqrt(all / static_cast<float>(problem.hidden) + problem.eps())
                            : 1;
    const bool normalises = !data.residual_out.empty();
    for (uint32_t i = 0; i < problem.hidden; ++i) {
      if (normalises) set(&data.residual_out, begin + i, h[i]);
      set(&output, begin + i, normalises ? h[i] * scale * get(data.weight, i) : h[i]);
    }
    if (!data.squares.empty()) std::memcpy(&data.squares[row * parts * 4], of_parts.data(), parts * 4);
  }
};

Problem fused_problem(const std::string& form, const std::string& type, const std::string& hidden) {
  return Problem::of_rows(options_of({"--backend", "cuda", "--processes", "1", "--fused", "1", "--form", form, "--type",
                                      type, "--hidden", hidden}),
                          3);
}

TEST(WrongColumn, IsZeroForRightFusedAllReducesOfEveryFormAndType) {
  for (const std::string form : {"residual", "bias", "rms-norm", "rms-fold"}) {
    for (const std::string type : {"bfloat16", "float16", "float32"}) {
      for (const std::string hidden : {"8", "104", "4096"}) {
        EXPECT_EQ(Fused(fused_problem(form, type, hidden), 7).wrong(7), 0u) << form << " " << type << " " << hidden;
      }
    }
  }
}

TEST(WrongColumn, CountsEachElementThatAFusedAllReduceHasWronglyWritten) {
  for (const std::string type : {"bfloat16", "float16", "float32"}) {
    for (const std::string form : {"residual", "bias", "rms-norm", "rms-fold"}) {
      Fused fused(fused_problem(form, type, "104"), 7);
      // Of a norm one unit may be a matter of rounding, or some of float32.
      fused.move(&fused.output, 105, form == "rms-norm" && type == "float32" ? 40 : form == "rms-norm" ? 3 : 1);
      EXPECT_EQ(fused.wrong(7), 1u) << form << " " << type;
      if (fused.data.residual_out.empty()) continue;
      fused.move(&fused.data.residual_out, 311, -1);
      EXPECT_EQ(fused.wrong(7), 2u) << form << " " << type;
      if (fused.data.squares.empty()) continue;
      fused.data.squares[5] ^= 1;
      EXPECT_EQ(fused.wrong(7), 3u) << form << " " << type;
    }
  }
}

TEST(WrongColumn, CountsEveryElementOfAFusedAllReduceThatWritesNothing) {
  Fused fused(fused_problem("rms-fold", "float32", "104"), 7);
  for (std::vector<uint8_t>* array : {&fused.output, &fused.data.residual_out, &fused.data.squares}) {
    std::fill(array->begin(), array->end(), uint8_t{0xA5});
  }
  // Three rows of 104 elements, in 4 parts of 32 each.
  EXPECT_EQ(fused.wrong(7), 3u * (104 + 104 + 4));
}

TEST(WrongColumn, SeesANormOfAnotherRowAndOneThatIsNotANumber) {
  Fused fused(fused_problem("rms-norm", "bfloat16", "4096"), 7);
  std::vector<uint8_t> right = fused.output;
  std::swap_ranges(fused.output.begin(), fused.output.begin() + 8192, fused.output.begin() + 8192);
  EXPECT_GT(fused.wrong(7), 2u * 3000);
  fused.output = right;
  fused.output[100] = 0xC0;
  fused.output[101] = 0x7F;
  EXPECT_EQ(fused.wrong(7), 1u);
}

TEST(SizeColumn, OfAFusedAllReduceIsThatOfItsRows) {
  const Options options = options_of({"--backend", "cuda", "--fused", "1", "--rows", "1,32", "--hidden", "4096"});
  const std::vector<Problem> problems = problems_of(options);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].bytes(), 8192u);
  EXPECT_EQ(problems[1].bytes(), 32u * 8192);
  EXPECT_EQ(problems[1].rows(), 32u);
  EXPECT_EQ(problems[1].name(), "fused-rms-norm-4096");
}

TEST(SizeColumn, IsOfTheLargerSideAndHasOneElementPerRankAtLeast) {
  const Options options = options_of({"--processes", "4", "--type", "float16"});
  const Problem gather = Problem::of_size(options, Collective::kAllGather, 4096);
  EXPECT_EQ(gather.count, 512u);
  EXPECT_EQ(gather.bytes(), 4096u);
  EXPECT_EQ(Problem::of_size(options, Collective::kReduceScatter, 1).bytes(), 8u);
  EXPECT_EQ(Problem::of_size(options, Collective::kAllReduce, 1).bytes(), 2u);
}

TEST(BusBandwidth, HasTheFactorsOfNcclTests) {
  const Options options = options_of({"--processes", "4"});
  const auto factor = [&](Collective collective) { return Problem::of_size(options, collective, 64).bus_factor(); };
  EXPECT_DOUBLE_EQ(factor(Collective::kAllReduce), 1.5);
  EXPECT_DOUBLE_EQ(factor(Collective::kAllGather), 0.75);
  EXPECT_DOUBLE_EQ(factor(Collective::kBroadcast), 1);
}

// As in containers, where something else starts the ranks.
TEST(Ranks, OfSeveralProcessesMeetInAFile) {
  const std::string board = "/tmp/nvrar-bench-test." + std::to_string(::getpid());
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank) {
    pids.push_back(::fork());
    if (pids.back() != 0) continue;
    ::_exit(join_team(board, rank, 3, [](Team* team) {
      const std::vector<int> all = team->exchange(10 + team->rank());
      return all == std::vector<int>{10, 11, 12} ? 20 + team->rank() : 1;
    }));
  }
  for (int rank = 0; rank < 3; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(pids[static_cast<size_t>(rank)], &status, 0), pids[static_cast<size_t>(rank)]);
    EXPECT_EQ(WEXITSTATUS(status), 20 + rank);
  }
  ::unlink(board.c_str());
}

TEST(OptionsOf, AcceptSizesWithUnitsAndValuesBehindEqualSigns) {
  const Options options = options_of({"--min=8K", "--max", "1M", "--type=bfloat16", "--collective", "all"});
  EXPECT_EQ(options.min_bytes, 8192u);
  EXPECT_EQ(options.max_bytes, 1u << 20);
  EXPECT_EQ(options.data_type, NVRAR_BFLOAT16);
  EXPECT_EQ(options.collectives.size(), 8u);
}

TEST(OptionsOf, FusedAllReducesAreNormsOfRowsOf8192UnlessSaidOtherwise) {
  const Options plain = options_of({"--backend", "cuda", "--fused", "0"});
  EXPECT_FALSE(plain.fused);
  EXPECT_EQ(plain.form, 0);
  const Options fused = options_of({"--backend", "cuda", "--fused", "1"});
  EXPECT_EQ(fused.form, NVRAR_FUSION_RMS_NORM);
  EXPECT_EQ(fused.hidden, 8192u);
  EXPECT_EQ(fused.rows, (std::vector<uint32_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(fused.data_type, NVRAR_BFLOAT16);
}

TEST(OptionsOf, RefuseOfFusedAllReducesWhatTheyDoNotHave) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--backend", "cuda", "--fused", "1"});
    return refusal_of(std::move(words));
  };
  EXPECT_EQ(refusal_of({"--fused", "1"}), "--fused is for --backend cuda");
  for (const std::string option : {"--form", "--hidden", "--rows", "--apart-blocks"}) {
    EXPECT_EQ(refusal_of({"--backend", "cuda", option, option == "--form" ? "bias" : "8"}),
              "--form, --hidden, --rows and --apart-blocks are for --fused 1");
  }
  EXPECT_EQ(refusal({"--form", "norm"}), "--form is 'norm', must be one of residual, bias, rms-norm, rms-fold");
  EXPECT_EQ(refusal({"--hidden", "100"}), "--hidden is 100, must be a multiple of 8");
  EXPECT_EQ(refusal({"--hidden", "16392"}), "--hidden is '16392', must be a number from 8 to 16384");
  EXPECT_EQ(refusal({"--rows", "1,,2"}), "--rows is '', must be a number from 1 to 4096");
  EXPECT_EQ(refusal({"--apart-blocks", "3"}), "--apart-blocks is 3, must be 0, 1, 2, 4 or 8");
  EXPECT_EQ(refusal({"--max", "1M"}), "--min and --max are not for --fused 1; --rows and --hidden say the sizes");
  EXPECT_EQ(refusal({"--collective", "all"}), "--fused is for --collective all-reduce and --op sum");
  EXPECT_EQ(refusal({"--op", "avg"}), "--fused is for --collective all-reduce and --op sum");
  EXPECT_EQ(refusal({"--type", "float64"}), "--fused is for bfloat16, float16 and float32, --type is float64");
}

TEST(OptionsOf, RefuseInOneSentenceThatNamesWhatWasGivenAndWhatIsPossible) {
  EXPECT_EQ(refusal_of({"--processes", "9"}), "--processes is '9', must be a number from 1 to 8");
  EXPECT_EQ(refusal_of({"--min", "8Q"}), "--min is '8Q', must be a number of bytes from 1 to 1G, such as 64, 8K or 4M");
  EXPECT_EQ(refusal_of({"--max", "99999999999"}),
            "--max is '99999999999', must be a number of bytes from 1 to 1G, such as 64, 8K or 4M");
  EXPECT_EQ(refusal_of({"--min", "8K", "--max", "1K"}), "--min is 8192 bytes, more than --max, 1024");
  EXPECT_EQ(refusal_of({"--op", "xor"}), "--op is 'xor', must be one of sum, product, max, min, avg");
  EXPECT_EQ(refusal_of({"--op", "avg", "--type", "int8"}), "--op avg is for floating types, --type is int8");
  EXPECT_EQ(refusal_of({"--root", "2"}), "--root is 2, not a rank of 2 processes");
  EXPECT_EQ(refusal_of({"--gpus", "1"}),
            "--gpus, --groups, --memory, --exclusive, --programmatic-launch and --yardstick are for --backend cuda");
  EXPECT_EQ(refusal_of({"--groups", "2"}),
            "--gpus, --groups, --memory, --exclusive, --programmatic-launch and --yardstick are for --backend cuda");
  EXPECT_EQ(refusal_of({"--backend", "cuda", "--groups", "3"}), "--groups is '3', must be a number from 1 to 2");
  EXPECT_EQ(refusal_of({"--backend", "cuda", "--groups", "2", "--exclusive", "1"}),
            "--groups is 2, but with --exclusive 1 a group is the only one on its GPUs");
  EXPECT_EQ(refusal_of({"--backend", "cuda", "--groups", "2", "--yardstick", "1"}),
            "--groups is 2, but the kernels of --yardstick 1 are for one group at a time");
  EXPECT_EQ(refusal_of({"--backend", "cuda", "--mode", "graph,fast"}),
            "--mode is 'fast', must be one of graph, eager, graph-compute, eager-compute, graph-cold");
  for (const std::vector<std::string>& one : {std::vector<std::string>{"--rank", "1"},
                                              {"--board", "x", "--rank", "1"},
                                              {"--board", "x", "--address", "::1", "--rank", "2"}}) {
    EXPECT_EQ(refusal_of(one),
              "--board, --rank and --address are for a rank below --processes of a group on several hosts");
  }
  EXPECT_EQ(refusal_of({"--nonsense"}), "there is no option '--nonsense'; --help lists them");
  EXPECT_EQ(refusal_of({"--iters"}), "--iters needs a value");
}

TEST(OptionsOf, RulesAreATableInTheirOrder) {
  const Options options = options_of({"--rules", "4K:one-shot:0:0,8M:two-shot:32:2"});
  ASSERT_EQ(options.rules.size(), 2U);
  EXPECT_EQ(options.rules[0].bytes_max, 4096U);
  EXPECT_EQ(options.rules[1].algorithm, NVRAR_ALGORITHM_TWO_SHOT);
  EXPECT_EQ(options.rules[1].blocks, 32U);
  EXPECT_EQ(options.rules[1].tiles, 2U);
  EXPECT_EQ(refusal_of({"--rules", "4K:one-shot:0"}),
            "--rules has the rule '4K:one-shot:0', must be BYTES:ALGORITHM:BLOCKS:TILES");
  EXPECT_EQ(refusal_of({"--rules", "4K:one-shot:0:33"}), "--rules is '33', must be a number from 0 to 32");
}

TEST(PointsOf, ALineHasASizeAnAlgorithmAShapeAndRepeats) {
  const Point point = parse_point("65536 two-shot 24 2 9", options_of({"--tune", "1"}));
  EXPECT_EQ(point.bytes, 65536U);
  EXPECT_EQ(point.algorithm, NVRAR_ALGORITHM_TWO_SHOT);
  EXPECT_EQ(point.blocks, 24U);
  EXPECT_EQ(point.tiles, 2U);
  EXPECT_EQ(point.repeats, 9);
  EXPECT_EQ(parse_point("64 auto 0 0 1", options_of({"--tune", "1", "--collective", "reduce"})).algorithm,
            NVRAR_ALGORITHM_AUTO);
}

TEST(PointsOf, RefuseInOneSentenceWhatNoGroupCanMeasure) {
  const auto refusal = [](const std::string& line, std::vector<std::string> words = {}) -> std::string {
    words.insert(words.begin(), {"--tune", "1", "--processes", "4"});
    try {
      parse_point(line, options_of(words));
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  const std::string rest =
      "', must be BYTES ALGORITHM BLOCKS TILES REPEATS, up to 1 GiB, 1024 blocks, 32 tiles and 1000 repeats";
  for (const char* line : {"", "64 one-shot 0 0", "64 one-shot 0 0 1 1", "0 one-shot 0 0 1", "-64 one-shot 0 0 1",
                           "64 one-shot -1 0 1", "64 one-shot 1025 0 1", "64 one-shot 0 33 1", "64 one-shot 0 0 0",
                           "64 one-shot 0 0 1001", "2147483648 one-shot 0 0 1", "x one-shot 0 0 1"}) {
    EXPECT_EQ(refusal(line), "a line of --tune is '" + std::string(line) + rest);
  }
  EXPECT_EQ(refusal("64 best 0 0 1"),
            "the algorithm of a line of --tune is 'best', must be one of auto, one-shot, two-shot, hierarchical");
  EXPECT_EQ(refusal("64 auto 0 0 1"), "a line of --tune has the algorithm auto, and an all-reduce needs one");
  EXPECT_EQ(refusal("64 one-shot 0 0 1", {"--collective", "reduce"}),
            "a line of --tune has the algorithm one-shot, and only all-reduces have a choice, so it must be auto");
  EXPECT_EQ(refusal("64 hierarchical 0 0 1"),
            "a line of --tune has the algorithm hierarchical, which needs --ranks-per-node below --processes");
  EXPECT_EQ(refusal("64 hierarchical 0 0 1", {"--ranks-per-node", "2"}), "");
}

}  // namespace
}  // namespace nvrar::bench
