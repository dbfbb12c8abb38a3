// Processes of a test that meet and hand each other bytes, as members of a group do before it exists.
#ifndef NVRAR_TEST_SUPPORT_FORKED_H
#define NVRAR_TEST_SUPPORT_FORKED_H

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "cuda/memory/symmetric_memory.h"

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
  // Returns when all processes of the test have come here; gives up after a while.
  void meet();
  // Everybody's address, by rank.
  std::vector<cuda::MemoryAddress> gather(const cuda::MemoryAddress& own);
  // Rank 0's.
  cuda::NvshmemId spread(const cuda::NvshmemId& of_rank_0);

 private:
  int rank_;
  int count_;
  Shared& shared_;
  int meetings_ = 0;
};

// Runs the body once in each of `count` forked processes: true if all ended by themselves and met their expectations,
// but for `killed`, which a signal must have ended. Call while no other thread runs.
bool run_forked(int count, const std::function<void(Process&)>& body, double limit_seconds = 60, int killed = -1);

size_t threads_of_this_process();
// Whether so few are left soon: a thread that was joined may be listed for another moment.
bool comes_to(size_t threads);

// What the body threw, as "<status> <sentence>"; "" if it did not.
std::string error_of(const std::function<void()>& body);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_FORKED_H
