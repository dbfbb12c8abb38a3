#include "support/group.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <thread>

#include "support/gpu.h"

namespace nvrar::test {
namespace {

constexpr useconds_t kLateUs = 700'000;

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::string(value) == "1";
}

// On GPUs the number of threads of a rank's links.
uint32_t linked_threads() {
  const char* const value = std::getenv("NVRAR_TEST_LINKS");
  return value == nullptr ? 0 : static_cast<uint32_t>(std::stoul(value));
}

}  // namespace

bool linked_nodes() { return linked_threads() != 0; }
bool exclusive_groups() { return is_set("NVRAR_TEST_EXCLUSIVE"); }

nvrar_config make_config(int rank, int world, const GroupOptions& options) {
  nvrar_config config{};
  config.size = sizeof config;
  config.backend = test_backend();
  config.device = gpu_of(rank);
  config.shared_devices = on_gpu() ? 1 : 0;
  config.rank = rank;
  config.world_size = world;
  config.ring_bytes = options.ring_bytes;
  config.timeout_ns = options.timeout_ns;
  config.join_timeout_ns = 30'000 * kMs;
  config.ranks_per_node = options.ranks_per_node;
  config.memory = options.memory;
  if (options.may_link || options.linked || linked_nodes()) std::strcpy(config.link_address, "127.0.0.1");
  if (options.encrypted || is_set("NVRAR_TEST_ENCRYPTED")) config.link_security = NVRAR_LINK_ENCRYPTED;
  if (options.linked || linked_nodes()) config.links = NVRAR_LINKS_BETWEEN_NODES;
  config.link_threads = std::max(options.link_threads, linked_threads());
  if (on_gpu()) {
    config.exclusive = exclusive_groups() ? 1 : 0;
    config.programmatic_launch = is_set("NVRAR_TEST_PROGRAMMATIC") ? 1 : 0;
  }
  // Negative controls end in a deadline: it need not be the long one.
  if (const char* limit_ms = std::getenv("NVRAR_TEST_TIMEOUT_MS")) config.timeout_ns = std::stoull(limit_ms) * kMs;
  return config;
}

double seconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::string text_of(nvrar_status status) { return std::to_string(status) + " \"" + nvrar_last_error() + "\""; }

ThreadGroup::ThreadGroup(int world, const GroupOptions& options) : comms_(static_cast<size_t>(world), nullptr) {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  EXPECT_EQ(nvrar_unique_id(test_backend(), id), NVRAR_OK) << nvrar_last_error();
  std::vector<uint8_t> descriptors(static_cast<size_t>(world) * NVRAR_DESCRIPTOR_BYTES);
  for (int rank = 0; rank < world; ++rank) {
    const nvrar_config config = make_config(rank, world, options);
    uint8_t* descriptor = descriptors.data() + rank * NVRAR_DESCRIPTOR_BYTES;
    EXPECT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptor, &comms_[static_cast<size_t>(rank)]), NVRAR_OK)
        << nvrar_last_error();
  }
  // Ranks that are linked connect to each other, so all connect at once.
  run([&](int, nvrar_comm* comm) {
    EXPECT_EQ(nvrar_connect(comm, descriptors.data()), NVRAR_OK) << nvrar_last_error();
  });
}

ThreadGroup::~ThreadGroup() {
  for (nvrar_comm* comm : comms_) EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
}

nvrar_comm* ThreadGroup::release(int rank) { return std::exchange(comms_[static_cast<size_t>(rank)], nullptr); }

void ThreadGroup::run(const Body& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world(); ++rank) {
    threads.emplace_back([&, rank] { body(rank, comm(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
}

[[noreturn]] void run_rank(int rank, int world, const GroupOptions& options, Board* board, const ProcessBody& body) {
  const nvrar_config config = make_config(rank, world, options);
  nvrar_comm* comm = nullptr;
  const auto meet = [&](std::atomic<int>& count) {
    ++count;
    while (count < world) ::usleep(200);
  };
  // In a process of the group: one that has started the driver of GPUs cannot be forked.
  if (rank == 0) {
    EXPECT_EQ(nvrar_unique_id(test_backend(), board->unique_id), NVRAR_OK) << nvrar_last_error();
    board->has_id = 1;
  }
  while (board->has_id == 0) ::usleep(200);
  EXPECT_EQ(
      nvrar_prepare(&config, nullptr, 0, board->unique_id, board->descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comm),
      NVRAR_OK)
      << nvrar_last_error();
  meet(board->prepared);
  if (rank == options.late_rank) ::usleep(kLateUs);
  EXPECT_EQ(nvrar_connect(comm, board->descriptors), NVRAR_OK) << nvrar_last_error();
  if (options.late_rank < 0) meet(board->connected);
  if (!::testing::Test::HasFailure()) body(rank, comm, board);
  EXPECT_EQ(nvrar_destroy(comm), NVRAR_OK);
  if (::testing::Test::HasFailure()) ++board->failures;
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

ProcessGroup::ProcessGroup(int world, const GroupOptions& options, const ProcessBody& body) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  board_ = new (memory) Board{};
  for (int rank = 0; rank < world; ++rank) {
    const pid_t pid = ::fork();
    if (pid != 0) {
      pids_.push_back(pid);
      continue;
    }
    run_rank(rank, world, options, board_, body);
  }
}

ProcessGroup::~ProcessGroup() {
  for (pid_t pid : pids_) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ::munmap(board_, sizeof(Board));
}

void ProcessGroup::send_signal(int rank, int signal) { EXPECT_EQ(::kill(pid(rank), signal), 0); }

bool ProcessGroup::wait_marks(const std::vector<int>& ranks, int value, double limit_seconds) {
  const double end = seconds_now() + limit_seconds;
  for (int rank : ranks) {
    while (board_->marks[rank] < value) {
      if (seconds_now() > end) return false;
      ::usleep(500);
    }
  }
  return true;
}

bool ProcessGroup::join(double limit_seconds, int killed) {
  const double end = seconds_now() + limit_seconds;
  bool good = true;
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    int status = 0;
    while (::waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (seconds_now() > end) return false;
      ::usleep(500);
    }
    pids_[rank] = 0;
    if (static_cast<int>(rank) == killed) continue;
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good && board_->failures == 0;
}

}  // namespace nvrar::test
