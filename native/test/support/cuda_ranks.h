// Groups of the CUDA backend whose ranks are in one process, on the C ABI alone: over a stub of the driver or a real
// one.
#ifndef NVRAR_TEST_SUPPORT_CUDA_RANKS_H
#define NVRAR_TEST_SUPPORT_CUDA_RANKS_H

#include <gtest/gtest.h>
#include <nvrar.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/group.h"

namespace nvrar::test {

// "" or "<status> <sentence>".
inline std::string last(nvrar_status status) {
  return status == NVRAR_OK ? "" : std::to_string(status) + " " + nvrar_last_error();
}

// Rank r on GPU r, with the smallest rings.
inline nvrar_config config_of(int rank, int world, int32_t memory) {
  nvrar_config config{};
  config.size = sizeof config;
  config.backend = NVRAR_BACKEND_CUDA;
  config.rank = rank;
  config.world_size = world;
  config.device = rank;
  config.ring_bytes = kSmallRingBytes;
  config.timeout_ns = 20'000 * kMs;
  config.memory = memory;
  return config;
}

// All ranks of a group in this process; error() returns the first failure.
class Ranks {
 public:
  using Change = std::function<void(nvrar_config&)>;
  explicit Ranks(
      int world, int32_t memory = NVRAR_MEMORY_LOCAL, const Change& change = [](nvrar_config&) {})
      : comms_(static_cast<size_t>(world)) {
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    error_ = last(nvrar_unique_id(NVRAR_BACKEND_CUDA, id));
    std::vector<uint8_t> descriptors(static_cast<size_t>(world) * NVRAR_DESCRIPTOR_BYTES);
    for (int rank = 0; rank < world && error_.empty(); ++rank) {
      nvrar_config config = config_of(rank, world, memory);
      change(config);
      error_ = last(nvrar_prepare(&config, nullptr, 0, id, descriptors.data() + rank * NVRAR_DESCRIPTOR_BYTES,
                                  &comms_[static_cast<size_t>(rank)]));
    }
    if (!error_.empty()) return;
    // Linked ranks wait for each other here.
    std::vector<std::string> errors(comms_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < comms_.size(); ++rank) {
      threads.emplace_back([&, rank] { errors[rank] = last(nvrar_connect(comms_[rank], descriptors.data())); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) {
      if (error_.empty()) error_ = error;
    }
  }
  ~Ranks() {
    for (nvrar_comm* comm : comms_) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK) << nvrar_last_error();
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  const std::string& error() const { return error_; }
  nvrar_comm* comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }

 private:
  std::vector<nvrar_comm*> comms_;
  std::string error_;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_CUDA_RANKS_H
