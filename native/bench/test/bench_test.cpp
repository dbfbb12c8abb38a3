// That the benchmark tells a wrong result from a right one, and reads its options as it says.
#include <gtest/gtest.h>
#include <nvrar.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "measure.h"
#include "options.h"
#include "team.h"

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

}  // namespace
}  // namespace nvrar::bench
