#include "gpu/group.h"

#include <nvrar.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>

#include "gpu/between.h"
#include "gpu/device.h"
#include "gpu/images.h"
#include "gpu/stream_measure.h"
#include "gpu/yardstick.h"
#include "measure.h"
#include "nvrar_calls.h"
#include "output.h"
#include "team.h"

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
  void enqueue(const Problem& problem, uint64_t send, uint64_t recv, CudaStream stream) override {
    comm_->call(problem, send, recv, reinterpret_cast<uint64_t>(stream));
  }
  void check(CudaStream stream) override { comm_->check(reinterpret_cast<uint64_t>(stream)); }

 private:
  Communicator* const comm_;
};

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

  std::vector<Ours> ours;
  for (const auto& comm : comms) ours.emplace_back(comm.get());
  SideBySide all_ours;
  for (Ours& one : ours) all_ours.push_back(&one);
  std::vector<SideBySide> contestants{all_ours};
  std::unique_ptr<Yardstick> yardstick;
  if (options.yardstick) {
    yardstick = std::make_unique<Yardstick>(team, options.programmatic_launch);
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
  // In a separate process, because a process that has initialised CUDA cannot fork ranks.
  const int gpus = run_apart([] { return visible_gpus(); });
  if (gpus == kApartFailed) return 1;
  if (gpus == 0) throw std::runtime_error("there is no GPU here that this process may see");
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
  return run_team(options.processes, kWrongResults, [&](Team* team) { return run_rank(options, team); });
}

}  // namespace nvrar::bench
