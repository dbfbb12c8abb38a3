#include "gpu/group.h"

#include <nvrar.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>

#include "gpu/add_norm.h"
#include "gpu/between.h"
#include "gpu/device.h"
#include "gpu/images.h"
#include "gpu/stream_measure.h"
#include "gpu/yardstick.h"
#include "gpu/yardstick_norm.h"
#include "measure.h"
#include "nvrar_calls.h"
#include "output.h"
#include "team.h"
#include "tune.h"

namespace nvrar::bench {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Ours final : public Contestant {
 public:
  explicit Ours(Communicator* comm) : comm_(comm) {}
  std::string name() const override { return "c++"; }
  bool takes(const Problem&) const override { return true; }
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override {
    comm_->call(problem, at, reinterpret_cast<uint64_t>(stream));
  }
  void check(CudaStream stream) override { comm_->check(reinterpret_cast<uint64_t>(stream)); }

 private:
  Communicator* const comm_;
};

// An all-reduce, and behind it a kernel for what a fused one does with the sums.
class Apart final : public Contestant {
 public:
  Apart(Communicator* comm, AddNorm* add_norm) : comm_(comm), add_norm_(add_norm) {}
  std::string name() const override { return "c++-apart"; }
  bool takes(const Problem& problem) const override { return add_norm_->takes(problem); }
  void enqueue(const Problem& problem, const Buffers& at, CudaStream stream) override {
    Problem sums = problem;
    sums.form = 0;
    comm_->call(sums, at, reinterpret_cast<uint64_t>(stream));
    add_norm_->enqueue(problem, at, stream);
  }
  void check(CudaStream stream) override { comm_->check(reinterpret_cast<uint64_t>(stream)); }

 private:
  Communicator* const comm_;
  AddNorm* const add_norm_;
};

using Contestants = std::vector<std::unique_ptr<Contestant>>;

SideBySide side_by_side(const Contestants& of_groups) {
  SideBySide all;
  for (const auto& one : of_groups) all.push_back(one.get());
  return all;
}

std::unique_ptr<Contestant> study(Team* team, const Gpu& gpu, const Options& options) {
  if (!options.fused) return std::make_unique<Yardstick>(team, options.programmatic_launch);
  return std::make_unique<YardstickNorm>(team, gpu.has_clusters(), options.programmatic_launch);
}

int tune_rank(const Options& options, Team* team) {
  const int gpus = options.gpus > 0 ? options.gpus : options.processes;
  const Gpu gpu(team->rank() % gpus);
  gpu.settle();
  team->meet();
  Communicator comm(options, NVRAR_BACKEND_CUDA, gpu.ordinal(), team);
  Ours ours(&comm);
  answer_points(team, options, {gpu.architecture(), gpu.name(), nvrar_build_id()},
                [&](const Options& of_point, const Problem& problem, const Point& point) {
                  comm.use(problem.collective, point);
                  return measure_problem_on_gpu(team, of_point, problem, &ours);
                });
  team->meet();
  return 0;
}

int run_rank(const Options& options, Team* team) {
  const int gpus = options.gpus > 0 ? options.gpus : options.processes;
  const Gpu gpu(team->rank() % gpus);
  BetweenKernels between(gpu, options);
  gpu.settle();
  team->meet();

  const uint64_t free_before = gpu.free_bytes();
  team->meet();
  const double begin = seconds_now();
  const auto make_group = [&] {
    return std::make_unique<Communicator>(options, NVRAR_BACKEND_CUDA, gpu.ordinal(), team);
  };
  std::vector<std::unique_ptr<Communicator>> comms;
  comms.push_back(make_group());
  GroupCost cost{(seconds_now() - begin) * 1e6, 0};
  team->meet();
  const uint64_t free_after = gpu.free_bytes();
  cost.device_bytes = free_before > free_after ? free_before - free_after : 0;
  for (const GroupCost& one : team->exchange(cost)) {
    cost.us = std::max(cost.us, one.us);
    cost.device_bytes = std::max(cost.device_bytes, one.device_bytes);
  }

  while (comms.size() < static_cast<size_t>(options.groups)) comms.push_back(make_group());

  AddNorm add_norm(gpu.has_clusters(), options);
  Contestants ours;
  Contestants apart;
  for (const auto& comm : comms) {
    ours.push_back(std::make_unique<Ours>(comm.get()));
    apart.push_back(std::make_unique<Apart>(comm.get(), &add_norm));
  }
  std::vector<SideBySide> contestants{side_by_side(ours)};
  if (options.fused) contestants.push_back(side_by_side(apart));
  std::unique_ptr<Contestant> yardstick;
  if (options.yardstick) {
    yardstick = study(team, gpu, options);
    contestants.push_back({yardstick.get()});
  }
  std::optional<Output> output;
  if (team->rank() == 0) {
    output.emplace(options, "c++", std::string(nvrar_build_id()) + ", " + gpu.name());
    output->show(cost);
  }
  const uint64_t wrong = measure_on_gpu(
      team, options, contestants,
      [&](Between which, uint64_t result, CudaStream stream) { between.enqueue(which, result, stream); },
      [&](const Row& row) {
        if (output) output->show(row);
      });
  if (output) output->end(wrong);
  team->meet();
  return wrong == 0 ? 0 : kWrongResults;
}

}  // namespace

int run_on_gpus(Options options) {
  if (options.yardstick && yardstick_image() == nullptr) {
    throw std::runtime_error("--yardstick needs kernels, and this program was built without nvcc");
  }
  if (options.fused && add_norm_image() == nullptr) {
    throw std::runtime_error("--fused needs kernels to compare with, and this program was built without nvcc");
  }
  // In a separate process, because a process that has initialised CUDA cannot fork ranks.
  const int gpus = run_apart([] { return visible_gpus(); });
  if (gpus == kApartFailed) return 1;
  if (options.processes == 0) options.processes = std::min(gpus, NVRAR_MAX_RANKS_PER_NODE);
  if ((options.gpus > 0 ? options.gpus : options.processes) > gpus) {
    throw UsageError("this process may see " + std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                     ", too few for " +
                     (options.gpus > 0 ? "--gpus " + std::to_string(options.gpus)
                                       : std::to_string(options.processes) + " processes; --gpus lets them share"));
  }
  if (options.root >= options.processes) {
    throw UsageError("--root is " + std::to_string(options.root) + ", not a rank of " +
                     std::to_string(options.processes) + " processes");
  }
  return run_team(options.processes, kWrongResults,
                  [&](Team* team) { return options.tune ? tune_rank(options, team) : run_rank(options, team); });
}

}  // namespace nvrar::bench
