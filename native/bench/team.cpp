#include "team.h"

#include <fcntl.h>
#include <nvrar.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

namespace nvrar::bench {

// A cache line for each rank's count, so that a waiting rank polls a line that only one other rank writes.
struct Board {
  struct alignas(64) Count {
    std::atomic<uint64_t> came;
  };
  Count counts[NVRAR_MAX_RANKS_PER_NODE];
  alignas(64) uint8_t slots[NVRAR_MAX_RANKS_PER_NODE][Team::kShareBytes];
};

namespace {

constexpr auto kMeetLimit = std::chrono::seconds(120);
// Longer than any timed work: a rank that waits longer waits for a start or for work of the host.
constexpr auto kSpin = std::chrono::milliseconds(20);
constexpr int kLooksBetweenClocks = 1024;
constexpr int kSleepUs = 100;

[[noreturn]] void run_member(Board* board, int rank, int size, pid_t parent, const std::function<int(Team*)>& body) {
  // Ends the members if the parent ends in any way.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  int code = 1;
  try {
    Team team(board, rank, size);
    code = body(&team);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvrar_bench: rank %d: %s\n", rank, e.what());
  }
  std::fflush(stdout);
  ::_exit(code);
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

int await(std::vector<pid_t> pids, int harmless) {
  int code = 0;
  while (!pids.empty()) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
    pids.erase(std::remove(pids.begin(), pids.end(), pid), pids.end());
    const int its_code = exit_code(status);
    if (its_code == 0 || code != 0) continue;
    if (WIFSIGNALED(status))
      std::fprintf(stderr, "nvrar_bench: process %d ended by signal %d\n", pid, WTERMSIG(status));
    code = its_code;
    // The others would wait for it until their deadline.
    if (code != harmless) {
      for (pid_t other : pids) ::kill(other, SIGKILL);
    }
  }
  return code;
}

}  // namespace

uint8_t* Team::slot(int rank) const { return board_->slots[rank]; }

void Team::give(const void* data, size_t bytes) {
  if (bytes > kShareBytes) throw std::logic_error("what a rank shows the others is larger than its slot");
  if (bytes > 0) std::memcpy(mine(), data, bytes);
}

void Team::meet() {
  const uint64_t turn = board_->counts[rank_].came.load(std::memory_order_relaxed) + 1;
  board_->counts[rank_].came.store(turn, std::memory_order_release);
  const auto begin = std::chrono::steady_clock::now();
  for (int rank = 0; rank < size_; ++rank) {
    for (int look = 1; board_->counts[rank].came.load(std::memory_order_acquire) < turn; ++look) {
      if (look % kLooksBetweenClocks != 0) continue;
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited > kMeetLimit) throw std::runtime_error("rank " + std::to_string(rank) + " does not come");
      if (waited > kSpin) ::usleep(kSleepUs);
    }
  }
}

int run_team(int size, int harmless, const std::function<int(Team*)>& body) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  Board* board = new (memory) Board{};
  const pid_t parent = ::getpid();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) run_member(board, rank, size, parent, body);
    if (pid < 0) {
      const int error = errno;
      for (pid_t other : pids) ::kill(other, SIGKILL);
      throw std::system_error(error, std::generic_category(), "fork");
    }
    pids.push_back(pid);
  }
  const int code = await(std::move(pids), harmless);
  ::munmap(memory, sizeof(Board));
  return code;
}

int join_team(const std::string& board, int rank, int size, const std::function<int(Team*)>& body) {
  const int fd = ::open(board.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // Whoever comes first makes it; its counts begin at 0, as a new file's bytes do.
  const bool is_there = fd >= 0 && ::ftruncate(fd, sizeof(Board)) == 0;
  void* memory = is_there ? ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED) throw std::system_error(error, std::generic_category(), board);
  Team team(static_cast<Board*>(memory), rank, size);
  const int code = body(&team);
  ::munmap(memory, sizeof(Board));
  return code;
}

int run_apart(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    int code = kApartFailed;
    try {
      code = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "nvrar_bench: %s\n", e.what());
    }
    ::_exit(code);
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
  return exit_code(status);
}

}  // namespace nvrar::bench
