// Groups for tests: all ranks as threads of this process, or each in a process of its own.
#ifndef NVRAR_TEST_SUPPORT_GROUP_H
#define NVRAR_TEST_SUPPORT_GROUP_H

#include <nvrar.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace nvrar::test {

struct GroupOptions {
  uint64_t ring_bytes = 0;
  uint64_t timeout_ns = 20'000'000'000;  // far longer than any delay on a loaded machine
  int ranks_per_node = 0;
  int32_t memory = NVRAR_MEMORY_AUTO;  // for groups on GPUs
  bool linked = false;                 // ranks of different nodes reach each other by links only
  bool encrypted = false;              // links are
  bool may_link = false;               // ranks of different hosts may be linked
  uint32_t link_threads = 1;           // on GPUs
  int late_rank = -1;                  // a process that connects later than the others, which do not wait for it
};

constexpr uint64_t kSmallRingBytes =
    8192;  // a few hundred elements per launch, so that ordinary counts take several launches
// The same, except for groups of several nodes, whose rings cannot be as small.
constexpr uint64_t small_ring_bytes(int ranks_per_node) {
  return ranks_per_node == 0 ? kSmallRingBytes : 4 * kSmallRingBytes;
}
constexpr uint64_t kMs = 1'000'000;

// Whether ranks of different nodes are linked in all groups, so that all tests run over links.
bool linked_nodes();
// Whether groups on GPUs are exclusive, so that no two of them may have calls at once.
bool exclusive_groups();
nvrar_config make_config(int rank, int world, const GroupOptions& options);
double seconds_now();

using Body = std::function<void(int rank, nvrar_comm* comm)>;

class ThreadGroup {
 public:
  explicit ThreadGroup(int world, const GroupOptions& options = {});
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Runs the body once on every rank, each in a thread, and waits for all.
  void run(const Body& body);
  nvrar_comm* comm(int rank) { return comms_[static_cast<size_t>(rank)]; }
  // Releases the communicator of a rank, which the test destroys itself.
  nvrar_comm* release(int rank);
  int world() const { return static_cast<int>(comms_.size()); }

 private:
  std::vector<nvrar_comm*> comms_;
};

// Memory that all processes of a ProcessGroup share, for synchronization and results.
struct Board {
  std::atomic<int> prepared;
  std::atomic<int> connected;
  std::atomic<int> ready;     // for the test's use
  std::atomic<int> marks[8];  // for the test's use
  std::atomic<int> failures;  // processes whose body failed an expectation
  char text[8][2048];         // for the test's use
  uint8_t unique_id[NVRAR_UNIQUE_ID_BYTES];
  std::atomic<int> has_id;
  uint8_t descriptors[NVRAR_MAX_WORLD_SIZE * NVRAR_DESCRIPTOR_BYTES];
};

using ProcessBody = std::function<void(int rank, nvrar_comm* comm, Board* board)>;

// In a process of its own: connects this rank, runs the body, destroys, and ends the process.
[[noreturn]] void run_rank(int rank, int world, const GroupOptions& options, Board* board, const ProcessBody& body);

class ProcessGroup {
 public:
  // Forks `world` processes that connect, run the body, destroy, and end. Call while no other thread runs.
  ProcessGroup(int world, const GroupOptions& options, const ProcessBody& body);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  Board& board() { return *board_; }
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }
  void send_signal(int rank, int signal);
  // Waits until the mark of every rank in `ranks` is at least `value`.
  bool wait_marks(const std::vector<int>& ranks, int value, double limit_seconds);
  // Waits for all processes: true if each ended by itself with no failed expectation, or is `killed`.
  bool join(double limit_seconds, int killed = -1);

 private:
  Board* board_;
  std::vector<pid_t> pids_;
};

std::string text_of(nvrar_status status);
bool contains(const std::string& text, const std::string& part);
// The number of open file descriptors of this process.
size_t open_descriptors();

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_GROUP_H
