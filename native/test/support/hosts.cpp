#include "support/hosts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <numeric>

namespace nvrar::test {
namespace {

constexpr unsigned kLimitSeconds = 60;

int wait_for(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// The first process of a host, with whose end all others end.
[[noreturn]] void run_host(int first, int size, int world, const GroupOptions& options, Board* board,
                           const ProcessBody& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLimitSeconds);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("proc", "/proc", "proc", 0, nullptr) != 0) {
    ::_exit(1);
  }
  std::vector<pid_t> ranks;
  for (int rank = first; rank < first + size; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) run_rank(rank, world, options, board, body);
    ranks.push_back(pid);
  }
  int failed = 0;
  for (const pid_t pid : ranks) failed += wait_for(pid) == 0 ? 0 : 1;
  ::_exit(failed);
}

// Forks a process in new namespaces, which runs `run` and never returns.
template <class Run>
pid_t fork_apart(Run run) {
  const pid_t outer = ::fork();
  if (outer != 0) return outer;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(1);
  const pid_t inner = ::fork();
  if (inner == 0) run();
  ::_exit(wait_for(inner));
}

}  // namespace

bool can_make_hosts() {
  return wait_for(fork_apart([] { ::_exit(0); })) == 0;
}

bool run_on_hosts(const std::vector<int>& sizes, const ProcessBody& body, const GroupOptions& options) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  auto* const board = new (memory) Board{};
  const int world = std::accumulate(sizes.begin(), sizes.end(), 0);
  GroupOptions linkable = options;
  linkable.may_link = true;
  std::vector<pid_t> hosts;
  int first = 0;
  for (const int size : sizes) {
    hosts.push_back(fork_apart([&, first] { run_host(first, size, world, linkable, board, body); }));
    first += size;
  }
  bool good = true;
  for (const pid_t host : hosts) good = wait_for(host) == 0 && good;
  good = good && board->failures == 0;
  ::munmap(memory, sizeof(Board));
  return good;
}

}  // namespace nvrar::test
