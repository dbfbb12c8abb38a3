// Processes of a test that synchronize and exchange bytes, as members do before their group exists.
#ifndef NVRAR_TEST_SUPPORT_FORKED_H
#define NVRAR_TEST_SUPPORT_FORKED_H

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "cuda/memory/symmetric_memory.h"
#include "support/error_of.h"

namespace nvrar::test {

constexpr int kMaxForked = 8;

// Memory that all processes of a test share.
struct Shared {
  std::atomic<int> arrived[64];
  std::atomic<int> marks[kMaxForked];  // for the test's use
  cuda::MemoryAddress addresses[kMaxForked];
  cuda::NvshmemId id;
};

class Process {
 public:
  Process(int rank, int count, Shared& shared) : rank_(rank), count_(count), shared_(shared) {}
  int rank() const { return rank_; }
  int count() const { return count_; }
  Shared& shared() const { return shared_; }
  // A barrier of all processes of the test, with a time limit.
  void meet();
  // Exchanges the addresses; returns them by rank.
  std::vector<cuda::MemoryAddress> gather(const cuda::MemoryAddress& own);
  // Distributes the id of rank 0.
  cuda::NvshmemId spread(const cuda::NvshmemId& of_rank_0);

 private:
  int rank_;
  int count_;
  Shared& shared_;
  int meetings_ = 0;
};

// Runs the body once in each of `count` forked processes: true if all ended by themselves without a failed expectation,
// except `killed`, which a signal must have ended. Call while no other thread runs.
bool run_forked(int count, const std::function<void(Process&)>& body, double limit_seconds = 60, int killed = -1);

// In a separate process, because a process opens the driver only once.
inline void in_a_process(const std::function<void()>& body) {
  EXPECT_TRUE(run_forked(1, [&](Process&) { body(); }));
}

size_t threads_of_this_process();
// Whether the number of threads falls to this within a short time: a joined thread may still be listed for a moment.
bool comes_to(size_t threads);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_FORKED_H
