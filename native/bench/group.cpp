#include "group.h"

#include <nvrar.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "nvrar_calls.h"
#include "team.h"
#include "tune.h"

namespace nvrar::bench {
namespace {

constexpr uint64_t kNoStream = 0;

// A rank on the CPU.
class NvrarMember final : public Member {
 public:
  NvrarMember(const Options& options, Team* team)
      : options_(options), team_(team), comm_(options, NVRAR_BACKEND_CPU, 0, team) {}

  int rank() const override { return team_->rank(); }

  void call(const Problem& problem, const uint8_t* send, uint8_t* recv) override {
    comm_.call(problem, {reinterpret_cast<uint64_t>(send), reinterpret_cast<uint64_t>(recv)}, kNoStream);
  }

  void barrier() override { comm_.barrier(kNoStream); }

  void use(Collective collective, const Point& point) { comm_.use(collective, point); }

  double max_of_ranks(double value) override {
    const std::vector<double> all = of_ranks(value);
    return *std::max_element(all.begin(), all.end());
  }

  uint64_t sum_of_ranks(uint64_t value) override {
    const std::vector<uint64_t> all = of_ranks(value);
    return std::accumulate(all.begin(), all.end(), uint64_t{0});
  }

 private:
  // Does not use the team's spinning exchange, because here ranks may share a core.
  template <class T>
  std::vector<T> of_ranks(T value) {
    std::memcpy(team_->mine(), &value, sizeof value);
    barrier();
    std::vector<T> all(static_cast<size_t>(team_->size()));
    for (int r = 0; r < team_->size(); ++r) std::memcpy(&all[static_cast<size_t>(r)], team_->of(r), sizeof value);
    barrier();
    return all;
  }

  const Options options_;
  Team* const team_;
  Communicator comm_;
};

}  // namespace

int run_group(const Options& options, const std::function<int(Member*)>& body) {
  const auto run = [&](Team* team) {
    NvrarMember member(options, team);
    return body(&member);
  };
  return options.board.empty() ? run_team(options.processes, kWrongResults, run)
                               : join_team(options.board, options.rank, options.processes, run);
}

int tune_on_cpu(const Options& options) {
  return run_team(options.processes, kWrongResults, [&](Team* team) {
    NvrarMember member(options, team);
    answer_points(team, options, {NVRAR_ARCHITECTURE_X86_64, "CPU", nvrar_build_id()},
                  [&](const Options& of_point, const Problem& problem, const Point& point) {
                    member.use(problem.collective, point);
                    return measure_problem(&member, of_point, problem);
                  });
    return 0;
  });
}

}  // namespace nvrar::bench
