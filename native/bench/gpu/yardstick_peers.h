// The memory by which the ranks' kernels of the study reach each other.
#ifndef NVRAR_BENCH_GPU_YARDSTICK_PEERS_H
#define NVRAR_BENCH_GPU_YARDSTICK_PEERS_H

#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "gpu/kernels/yardstick_args.h"
#include "team.h"

namespace nvrar::bench {

class YardstickPeers {
 public:
  // Collective, like the destructor.
  explicit YardstickPeers(Team* team);
  YardstickPeers(const YardstickPeers&) = delete;
  YardstickPeers& operator=(const YardstickPeers&) = delete;
  ~YardstickPeers();

  int ranks() const { return team_->size(); }
  const yardstick::Peers& arguments() const { return arguments_; }
  // Throws if a kernel has waited in vain.
  void check() const;

 private:
  Team* const team_;
  DeviceMemory ring_;
  DeviceMemory epochs_;
  DeviceMemory control_;
  std::vector<uint64_t> mapped_;  // rings of the other ranks
  yardstick::Peers arguments_{};
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_YARDSTICK_PEERS_H
