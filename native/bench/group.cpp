#include "group.h"

#include <nvrar.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace nvrar::bench {
namespace {

constexpr uint64_t kCallTimeoutNs = 30'000'000'000;
constexpr int kMeetTries = 300'000;
constexpr int kMeetSleepUs = 100;

// What the processes share besides the communicator.
struct Board {
  std::atomic<int> prepared;
  std::atomic<int> connected;
  double times[NVRAR_MAX_RANKS_PER_NODE];
  uint64_t counts[NVRAR_MAX_RANKS_PER_NODE];
  uint8_t descriptors[NVRAR_MAX_RANKS_PER_NODE * NVRAR_DESCRIPTOR_BYTES];
};

void require(nvrar_status status, const char* what) {
  if (status != NVRAR_OK) throw std::runtime_error(std::string(what) + ": " + nvrar_last_error());
}

uint64_t address(const uint8_t* memory) { return reinterpret_cast<uint64_t>(memory); }

class NvrarMember final : public Member {
 public:
  NvrarMember(const Options& options, int rank, const uint8_t* unique_id, Board* board)
      : options_(options), rank_(rank), board_(board) {
    nvrar_config config{};
    config.size = sizeof config;
    config.backend = NVRAR_BACKEND_CPU;
    config.rank = rank;
    config.world_size = options.processes;
    config.ring_bytes = options.ring_bytes;
    config.timeout_ns = kCallTimeoutNs;
    config.ranks_per_node = options.ranks_per_node;
    uint8_t* descriptor = board->descriptors + rank * NVRAR_DESCRIPTOR_BYTES;
    require(nvrar_prepare(&config, nullptr, 0, unique_id, descriptor, &comm_), "nvrar_prepare");
    meet(&board->prepared);
    require(nvrar_connect(comm_, board->descriptors), "nvrar_connect");
    meet(&board->connected);
  }
  NvrarMember(const NvrarMember&) = delete;
  NvrarMember& operator=(const NvrarMember&) = delete;
  ~NvrarMember() override { nvrar_destroy(comm_); }

  int rank() const override { return rank_; }

  void call(const Problem& p, const uint8_t* send, uint8_t* recv) override {
    switch (p.collective) {
      case Collective::kAllReduce:
        return require(
            nvrar_all_reduce(comm_, address(send), address(recv), p.count, p.data_type, p.op, options_.algorithm, 0),
            "nvrar_all_reduce");
      case Collective::kReduce:
        return require(nvrar_reduce(comm_, address(send), address(recv), p.count, p.data_type, p.op, p.root, 0),
                       "nvrar_reduce");
      case Collective::kBroadcast:
        return require(nvrar_broadcast(comm_, address(send), address(recv), p.count, p.data_type, p.root, 0),
                       "nvrar_broadcast");
      case Collective::kAllGather:
        return require(nvrar_all_gather(comm_, address(send), address(recv), p.count, p.data_type, 0),
                       "nvrar_all_gather");
      case Collective::kReduceScatter:
        return require(nvrar_reduce_scatter(comm_, address(send), address(recv), p.count, p.data_type, p.op, 0),
                       "nvrar_reduce_scatter");
      case Collective::kAllToAll:
        return require(nvrar_all_to_all(comm_, address(send), address(recv), p.count, p.data_type, 0),
                       "nvrar_all_to_all");
      case Collective::kSendReceive: {
        const nvrar_transfer transfers[] = {
            {NVRAR_SEND, (rank_ + 1) % p.world, address(send), p.count, p.data_type, 0},
            {NVRAR_RECV, (rank_ + p.world - 1) % p.world, address(recv), p.count, p.data_type, 0},
        };
        return require(nvrar_batch(comm_, transfers, 2, 0), "nvrar_batch");
      }
      case Collective::kBarrier:
        return barrier();
    }
  }

  void barrier() override { require(nvrar_barrier(comm_, 0), "nvrar_barrier"); }

  double max_of_ranks(double value) override {
    board_->times[rank_] = value;
    barrier();
    const double max = *std::max_element(board_->times, board_->times + options_.processes);
    barrier();
    return max;
  }

  uint64_t sum_of_ranks(uint64_t value) override {
    board_->counts[rank_] = value;
    barrier();
    const uint64_t sum = std::accumulate(board_->counts, board_->counts + options_.processes, uint64_t{0});
    barrier();
    return sum;
  }

 private:
  void meet(std::atomic<int>* count) {
    ++*count;
    for (int tries = 0; *count < options_.processes; ++tries) {
      if (tries == kMeetTries) throw std::runtime_error("the other processes have not come to connect");
      ::usleep(kMeetSleepUs);
    }
  }

  const Options options_;
  const int rank_;
  Board* const board_;
  nvrar_comm* comm_ = nullptr;
};

[[noreturn]] void run_member(const Options& options, int rank, pid_t parent, const uint8_t* unique_id, Board* board,
                             const std::function<int(Member*)>& body) {
  // Whatever ends the parent ends the members.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  int code = 1;
  try {
    NvrarMember member(options, rank, unique_id, board);
    code = body(&member);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvrar_bench: rank %d: %s\n", rank, e.what());
  }
  std::fflush(stdout);
  ::_exit(code);
}

int await(std::vector<pid_t> pids) {
  int code = 0;
  while (!pids.empty()) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
    pids.erase(std::remove(pids.begin(), pids.end(), pid), pids.end());
    const int its_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (its_code == 0 || code != 0) continue;
    if (WIFSIGNALED(status))
      std::fprintf(stderr, "nvrar_bench: process %d ended by signal %d\n", pid, WTERMSIG(status));
    code = its_code;
    // The others would wait for it until their deadline. Not so after a wrong result, which all have seen.
    if (code != kWrongResults) {
      for (pid_t other : pids) ::kill(other, SIGKILL);
    }
  }
  return code;
}

}  // namespace

int run_group(const Options& options, const std::function<int(Member*)>& body) {
  uint8_t unique_id[NVRAR_UNIQUE_ID_BYTES];
  require(nvrar_unique_id(NVRAR_BACKEND_CPU, unique_id), "nvrar_unique_id");
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  Board* board = new (memory) Board{};
  const pid_t parent = ::getpid();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < options.processes; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) run_member(options, rank, parent, unique_id, board, body);
    if (pid < 0) {
      const int error = errno;
      for (pid_t other : pids) ::kill(other, SIGKILL);
      throw std::system_error(error, std::generic_category(), "fork");
    }
    pids.push_back(pid);
  }
  const int code = await(std::move(pids));
  ::munmap(memory, sizeof(Board));
  return code;
}

}  // namespace nvrar::bench
