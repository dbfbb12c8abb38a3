#include "gpu/stream_measure.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <numeric>
#include <optional>

#include "fused_problem.h"

namespace nvrar::bench {
namespace {

constexpr uint8_t kPoison = 0xA5;  // overwrites the output, so that a call that writes nothing is detected
constexpr int kTurns =
    3;  // each contestant makes its share of the batches in each turn, so that other load affects all alike
constexpr int kCallsBefore = 2;  // because the driver loads kernels at their first call

// The buffers of a fused all-reduce besides those of its problem.
struct FusedBuffers {
  explicit FusedBuffers(const Problem& problem)
      : data(problem),
        residual(data.residual.size()),
        weight(data.weight.size()),
        residual_out(data.residual_out.size()),
        squares(data.squares.size()) {}

  void refresh(const Problem& problem, uint64_t seed) {
    data.fill(problem, seed);
    residual.write(data.residual);
    weight.write(data.weight);
    residual_out.fill(kPoison);
    squares.fill(kPoison);
  }

  void read() {
    residual_out.read(&data.residual_out);
    squares.read(&data.squares);
  }

  void add_to(Buffers* at) const {
    const auto address = [](const std::vector<uint8_t>& contents, const DeviceMemory& memory) {
      return contents.empty() ? 0 : memory.address();
    };
    at->residual = address(data.residual, residual);
    at->weight = address(data.weight, weight);
    at->residual_out = address(data.residual_out, residual_out);
    at->squares = address(data.squares, squares);
  }

  FusedData data;
  DeviceMemory residual;
  DeviceMemory weight;
  DeviceMemory residual_out;
  DeviceMemory squares;
};

// The stream and the buffers of one of the groups that run side by side.
struct Lane {
  explicit Lane(const Problem& problem)
      : input(problem.send_elements() * type_bytes(problem.data_type)),
        output(problem.recv_elements() * type_bytes(problem.data_type)),
        send(input.size()),
        recv(output.size()) {
    if (problem.form != 0) fused.emplace(problem);
  }

  Buffers buffers() const {
    Buffers at{send.address(), recv.address()};
    if (fused) fused->add_to(&at);
    return at;
  }

  // New data, and outputs in which nothing is right.
  void refresh(const Problem& problem, int rank, uint64_t new_seed) {
    seed = new_seed;
    problem.fill(seed, rank, input.data());
    send.write(input);
    recv.fill(kPoison);
    if (fused) fused->refresh(problem, seed);
  }

  uint64_t wrong(const Problem& problem, int rank) {
    recv.read(&output);
    if (!fused) return problem.wrong(seed, rank, output.data());
    fused->read();
    return wrong_of_fused(problem, seed, output.data(), fused->data);
  }

  uint64_t seed = 0;
  std::vector<uint8_t> input;
  std::vector<uint8_t> output;
  DeviceMemory send;
  DeviceMemory recv;
  std::optional<FusedBuffers> fused;
  const Stream stream;
};
using Lanes = std::vector<std::unique_ptr<Lane>>;

// What the threads of this process but the calling one have taken of the processor.
double other_threads_seconds() {
  const auto seconds = [](clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

// Back-to-back calls on the stream of each lane, and the time of each batch on this rank.
class Chain {
 public:
  // `step` enqueues one call, with what the mode has around it.
  Chain(const Lanes& lanes, bool graph, int iterations, std::function<void(size_t lane)> step)
      : lanes_(lanes), iterations_(iterations), step_(std::move(step)), ends_(lanes.size()) {
    for (size_t lane = 0; graph && lane < lanes_.size(); ++lane) {
      graphs_.push_back(std::make_unique<Graph>(lanes_[lane]->stream, [&] {
        for (int i = 0; i < iterations_; ++i) step_(lane);
      }));
    }
  }

  void submit() const {
    for (size_t lane = 0; lane < graphs_.size(); ++lane) graphs_[lane]->launch(lanes_[lane]->stream);
    if (!graphs_.empty()) return;
    for (int i = 0; i < iterations_; ++i) {
      for (size_t lane = 0; lane < lanes_.size(); ++lane) step_(lane);
    }
  }

  // From the first lane's begin, behind which all are submitted, to the end of the lane that ends last.
  void time(Team* team, int warmup, int batches) {
    for (int i = 0; i < warmup + batches; ++i) {
      team->meet();
      const double before = other_threads_seconds();
      begin_.record(lanes_.front()->stream);
      submit();
      for (size_t lane = 0; lane < lanes_.size(); ++lane) ends_[lane].record(lanes_[lane]->stream);
      double us = 0;
      for (const Event& end : ends_) {
        end.synchronize();
        us = std::max(us, end.us_since(begin_));
      }
      if (i < warmup) continue;
      us_.push_back(us / iterations_);
      other_threads_seconds_ += other_threads_seconds() - before;
    }
  }

  // Collective: what the other threads of all ranks took of the processor in a call.
  double core_seconds_of_a_call(Team* team) const {
    const std::vector<double> of_ranks = team->exchange(other_threads_seconds_);
    const auto calls = static_cast<double>(us_.size() * lanes_.size()) * iterations_;
    return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) / calls;
  }

  // Collective: returns the time of the slowest rank for each batch.
  std::vector<double> slowest(Team* team) const {
    std::vector<double> slowest = us_;
    for (const std::vector<double>& of_rank : team->exchange(us_)) {
      std::transform(slowest.begin(), slowest.end(), of_rank.begin(), slowest.begin(),
                     [](double a, double b) { return std::max(a, b); });
    }
    return slowest;
  }

 private:
  const Lanes& lanes_;
  const int iterations_;
  const std::function<void(size_t lane)> step_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  Event begin_;
  std::vector<Event> ends_;
  std::vector<double> us_;
  double other_threads_seconds_ = 0;
};

// The measurement of one size, for all contestants in all modes.
class Size {
 public:
  Size(Team* team, const Options& options, const Problem& problem, const EnqueueBetween& enqueue_between)
      : team_(team),
        options_(options),
        problem_(problem),
        enqueue_between_(enqueue_between),
        iterations_(options.iterations_of(problem.bytes())) {
    for (int group = 0; group < options_.groups; ++group) lanes_.push_back(std::make_unique<Lane>(problem_));
    refresh();
    for (Mode mode : options_.modes) {
      const Between kernel = between(mode);
      if (kernel == Between::kNothing) continue;
      // In a graph whatever the mode: submitted one by one, so short a kernel would show the host's time for it, which
      // in the mode itself passes while the call runs.
      alone_.push_back({mode, chain(true, [this, kernel](size_t lane) { enqueue(kernel, lane); })});
    }
  }

  void add(const SideBySide& contestants) {
    for (int i = 0; i < kCallsBefore; ++i) {
      for (size_t lane = 0; lane < lanes_.size(); ++lane) call(contestants, lane);
    }
    synchronize();
    for (Mode mode : options_.modes) {
      const Between kernel = between(mode);
      const auto step = [this, contestants, kernel](size_t lane) {
        if (kernel == Between::kSweep) enqueue(kernel, lane);
        call(contestants, lane);
        if (kernel == Between::kCompute) enqueue(kernel, lane);
      };
      entries_.push_back({contestants, mode, chain(in_graph(mode), step)});
    }
  }

  uint64_t run(const std::function<void(const Row&)>& show) {
    time_all();
    uint64_t wrong = 0;
    for (const Entry& entry : entries_) {
      const uint64_t of_entry = wrong_of(entry);
      wrong += of_entry;
      show(row_of(entry, of_entry));
    }
    return wrong;
  }

 private:
  struct Alone {
    Mode mode;
    std::unique_ptr<Chain> chain;
  };
  struct Entry {
    SideBySide contestants;
    Mode mode;
    std::unique_ptr<Chain> chain;
  };

  std::unique_ptr<Chain> chain(bool graph, std::function<void(size_t lane)> step) const {
    return std::make_unique<Chain>(lanes_, graph, iterations_, std::move(step));
  }

  void call(const SideBySide& contestants, size_t lane) {
    const Lane& on = *lanes_[lane];
    contestants[lane]->enqueue(problem_, on.buffers(), on.stream.handle());
  }

  void enqueue(Between kernel, size_t lane) {
    enqueue_between_(kernel, lanes_[lane]->recv.address(), lanes_[lane]->stream.handle());
  }

  void synchronize() const {
    for (const auto& lane : lanes_) lane->stream.synchronize();
  }

  void check(const SideBySide& contestants) const {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) contestants[lane]->check(lanes_[lane]->stream.handle());
  }

  void time_all() {
    const int warmup = options_.warmup_of(problem_.bytes());
    for (int turn = 0; turn < kTurns; ++turn) {
      const int batches = options_.repeats * (turn + 1) / kTurns - options_.repeats * turn / kTurns;
      if (batches == 0) continue;
      for (const Alone& alone : alone_) alone.chain->time(team_, warmup, batches);
      for (const Entry& entry : entries_) {
        entry.chain->time(team_, warmup, batches);
        check(entry.contestants);
      }
    }
  }

  // Collective. Runs the timed calls once more with different data; returns the number of wrong elements of all groups.
  uint64_t wrong_of(const Entry& entry) {
    refresh();
    team_->meet();
    entry.chain->submit();
    synchronize();
    check(entry.contestants);
    uint64_t wrong = 0;
    for (const auto& lane : lanes_) wrong += lane->wrong(problem_, team_->rank());
    const std::vector<uint64_t> all = team_->exchange(wrong);
    return std::accumulate(all.begin(), all.end(), uint64_t{0});
  }

  Row row_of(const Entry& entry, uint64_t wrong) {
    std::vector<double> us = entry.chain->slowest(team_);
    Row row;
    row.problem = problem_;
    row.iterations = iterations_;
    row.out_of_place = cell_of(&us, wrong);
    row.mode = mode_name(entry.mode);
    if (options_.links > 0) row.core_seconds = entry.chain->core_seconds_of_a_call(team_);
    row.implementation = entry.contestants.front()->name();
    for (const Alone& alone : alone_) {
      if (alone.mode != entry.mode) continue;
      std::vector<double> own = alone.chain->slowest(team_);
      const double median = cell_of(&own, 0).us;
      row.out_of_place.us -= median;
      row.out_of_place.min_us -= median;
      row.out_of_place.max_us -= median;
    }
    return row;
  }

  // Each lane gets data of its own, so that what one group would write for the other is wrong there.
  void refresh() {
    for (const auto& lane : lanes_) lane->refresh(problem_, team_->rank(), ++seed_);
  }

  Team* const team_;
  const Options& options_;
  const Problem problem_;
  const EnqueueBetween& enqueue_between_;
  const int iterations_;
  uint64_t seed_ = 0;
  Lanes lanes_;
  std::vector<Alone> alone_;
  std::vector<Entry> entries_;
};

}  // namespace

Row measure_problem_on_gpu(Team* team, const Options& options, const Problem& problem, Contestant* contestant) {
  Options one_mode = options;
  one_mode.modes.resize(1);
  Size size(team, one_mode, problem, {});
  size.add({contestant});
  Row measured;
  size.run([&](const Row& row) { measured = row; });
  return measured;
}

uint64_t measure_on_gpu(Team* team, const Options& options, const std::vector<SideBySide>& contestants,
                        const EnqueueBetween& enqueue_between, const std::function<void(const Row&)>& show) {
  uint64_t wrong = 0;
  for (const Problem& problem : problems_of(options)) {
    Size size(team, options, problem, enqueue_between);
    for (const SideBySide& one : contestants) {
      if (one.front()->takes(problem)) size.add(one);
    }
    wrong += size.run(show);
  }
  return wrong;
}

}  // namespace nvrar::bench
