#include "gpu/stream_measure.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

namespace nvrar::bench {
namespace {

constexpr uint8_t kPoison = 0xA5;  // overwrites the output, so that a call that writes nothing is detected
constexpr int kTurns =
    3;  // each contestant makes its share of the batches in each turn, so that other load affects all alike
constexpr int kCallsBefore = 2;  // because the driver loads kernels at their first call

// Back-to-back calls on a stream, and the time of each batch on this rank.
class Chain {
 public:
  Chain(const Stream& stream, bool graph, std::function<void()> work) : stream_(stream), work_(std::move(work)) {
    if (graph) graph_.emplace(stream_, work_);
  }

  void submit() const {
    if (graph_) {
      graph_->launch(stream_);
    } else {
      work_();
    }
  }

  void time(Team* team, int warmup, int batches, int iterations) {
    for (int i = 0; i < warmup + batches; ++i) {
      team->meet();
      begin_.record(stream_);
      submit();
      end_.record(stream_);
      end_.synchronize();
      if (i >= warmup) us_.push_back(end_.us_since(begin_) / iterations);
    }
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
  const Stream& stream_;
  const std::function<void()> work_;
  std::optional<Graph> graph_;
  Event begin_;
  Event end_;
  std::vector<double> us_;
};

// The measurement of one size, for all contestants in all modes.
class Size {
 public:
  Size(Team* team, const Options& options, const Problem& problem, const Compute& compute)
      : team_(team),
        options_(options),
        problem_(problem),
        compute_(compute),
        iterations_(options.iterations_of(problem.bytes())),
        input_(problem.send_elements() * type_bytes(problem.data_type)),
        output_(problem.recv_elements() * type_bytes(problem.data_type)),
        send_(input_.size()),
        recv_(output_.size()) {
    refresh();
    for (Mode mode : options_.modes) {
      if (!with_compute(mode)) continue;
      alone_.push_back({mode, std::make_unique<Chain>(stream_, in_graph(mode), [this] {
                          for (int i = 0; i < iterations_; ++i) compute_(recv_.address(), stream_.handle());
                        })});
    }
  }

  void add(Contestant* contestant) {
    for (int i = 0; i < kCallsBefore; ++i) call(contestant);
    stream_.synchronize();
    for (Mode mode : options_.modes) {
      auto work = [this, contestant, mode] {
        for (int i = 0; i < iterations_; ++i) {
          call(contestant);
          if (with_compute(mode)) compute_(recv_.address(), stream_.handle());
        }
      };
      entries_.push_back({contestant, mode, std::make_unique<Chain>(stream_, in_graph(mode), std::move(work))});
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
    Contestant* contestant;
    Mode mode;
    std::unique_ptr<Chain> chain;
  };

  void call(Contestant* contestant) {
    contestant->enqueue(problem_, send_.address(), recv_.address(), stream_.handle());
  }

  void time_all() {
    const int warmup = options_.warmup_of(problem_.bytes());
    for (int turn = 0; turn < kTurns; ++turn) {
      const int batches = options_.repeats * (turn + 1) / kTurns - options_.repeats * turn / kTurns;
      if (batches == 0) continue;
      for (const Alone& alone : alone_) alone.chain->time(team_, warmup, batches, iterations_);
      for (const Entry& entry : entries_) {
        entry.chain->time(team_, warmup, batches, iterations_);
        entry.contestant->check(stream_.handle());
      }
    }
  }

  // Collective. Runs the timed calls once more with different data; returns the number of wrong elements.
  uint64_t wrong_of(const Entry& entry) {
    refresh();
    team_->meet();
    entry.chain->submit();
    stream_.synchronize();
    entry.contestant->check(stream_.handle());
    recv_.read(&output_);
    const std::vector<uint64_t> all = team_->exchange(problem_.wrong(seed_, team_->rank(), output_.data()));
    return std::accumulate(all.begin(), all.end(), uint64_t{0});
  }

  Row row_of(const Entry& entry, uint64_t wrong) {
    std::vector<double> us = entry.chain->slowest(team_);
    Row row;
    row.problem = problem_;
    row.iterations = iterations_;
    row.out_of_place = cell_of(&us, wrong);
    row.mode = mode_name(entry.mode);
    row.implementation = entry.contestant->name();
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

  void refresh() {
    ++seed_;
    problem_.fill(seed_, team_->rank(), input_.data());
    send_.write(input_);
    recv_.fill(kPoison);
  }

  Team* const team_;
  const Options& options_;
  const Problem problem_;
  const Compute& compute_;
  const int iterations_;
  uint64_t seed_ = 0;
  std::vector<uint8_t> input_;
  std::vector<uint8_t> output_;
  DeviceMemory send_;
  DeviceMemory recv_;
  const Stream stream_;
  std::vector<Alone> alone_;
  std::vector<Entry> entries_;
};

}  // namespace

uint64_t measure_on_gpu(Team* team, const Options& options, const std::vector<Contestant*>& contestants,
                        const Compute& compute, const std::function<void(const Row&)>& show) {
  uint64_t wrong = 0;
  for (const Problem& problem : problems_of(options)) {
    Size size(team, options, problem, compute);
    for (Contestant* contestant : contestants) {
      if (contestant->takes(problem)) size.add(contestant);
    }
    wrong += size.run(show);
  }
  return wrong;
}

}  // namespace nvrar::bench
