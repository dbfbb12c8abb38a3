#include "support/forked.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <new>

#include "common/error.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

constexpr double kMeetSeconds = 30;
constexpr useconds_t kPollUs = 200;

Shared* map_shared() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return new (memory) Shared();
}

[[noreturn]] void run_child(int rank, int count, Shared& shared, const std::function<void(Process&)>& body) {
  Process process(rank, count, shared);
  try {
    body(process);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "process " << rank << ": " << error.what();
  }
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

bool wait_for(pid_t pid, double deadline, bool killed) {
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (seconds_now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      ADD_FAILURE() << "process " << pid << " did not end";
      return false;
    }
    ::usleep(kPollUs);
  }
  if (killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  ADD_FAILURE() << "process " << pid << (WIFEXITED(status) ? " ended with " : " was ended by signal ")
                << (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return false;
}

}  // namespace

void Process::meet() {
  std::atomic<int>& arrived = shared_.arrived[meetings_++];
  ++arrived;
  const double deadline = seconds_now() + kMeetSeconds;
  while (arrived.load() < count_) {
    if (seconds_now() > deadline) throw std::runtime_error("the other processes did not come");
    ::usleep(kPollUs);
  }
}

std::vector<cuda::MemoryAddress> Process::gather(const cuda::MemoryAddress& own) {
  shared_.addresses[rank_] = own;
  meet();
  std::vector<cuda::MemoryAddress> all(shared_.addresses, shared_.addresses + count_);
  meet();
  return all;
}

cuda::NvshmemId Process::spread(const cuda::NvshmemId& of_rank_0) {
  if (rank_ == 0) shared_.id = of_rank_0;
  meet();
  const cuda::NvshmemId id = shared_.id;
  meet();
  return id;
}

bool run_forked(int count, const std::function<void(Process&)>& body, double limit_seconds, int killed) {
  Shared* const shared = map_shared();
  std::fflush(nullptr);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) run_child(rank, count, *shared, body);
    pids.push_back(pid);
  }
  const double deadline = seconds_now() + limit_seconds;
  bool all_well = true;
  for (int rank = 0; rank < count; ++rank) {
    all_well = wait_for(pids[static_cast<size_t>(rank)], deadline, rank == killed) && all_well;
  }
  ::munmap(shared, sizeof(Shared));
  return all_well;
}

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

bool comes_to(size_t threads) {
  const double deadline = seconds_now() + 2;
  while (threads_of_this_process() > threads && seconds_now() < deadline) ::usleep(1000);
  return threads_of_this_process() <= threads;
}

}  // namespace nvrar::test
