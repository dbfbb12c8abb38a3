// Programs that a member's process starts inherit no descriptor of the library, whenever they start: they would keep
// sockets open after the member has died, so that its peers would not see its end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/cuda_ranks.h"
#include "support/group.h"
#include "support/hosts.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace nvrar::test {
namespace {

// The descriptors of a program that this process starts, but for the pipe by which it tells them.
std::set<std::string> inherited() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const char* const arguments[] = {"ls", "-l", "/proc/self/fd", nullptr};
  pid_t pid = 0;
  EXPECT_EQ(::posix_spawn(&pid, "/bin/ls", &actions, nullptr, const_cast<char* const*>(arguments), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  char part[1024];
  for (ssize_t got = 0; (got = ::read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  std::set<std::string> descriptors;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t arrow = line.find(" -> ");
    if (arrow == std::string::npos) continue;
    const std::string number = line.substr(line.rfind(' ', arrow - 1) + 1, arrow - line.rfind(' ', arrow - 1) - 1);
    const bool is_of_ls = number == "1" || contains(line, "-> /proc/");
    if (!is_of_ls) descriptors.insert(number + line.substr(arrow));
  }
  return descriptors;
}

// What this process has open that its programs will get, before the library has opened anything.
std::set<std::string> given_before() {
  static const std::set<std::string> before = inherited();
  return before;
}

void expect_nothing_new() {
  for (const std::string& line : inherited()) {
    if (given_before().count(line) == 0) ADD_FAILURE() << "a program of this process inherits " << line;
  }
}

TEST(Descriptors, OfAMemberOnAHostAreItsOwn) {
  given_before();
  ThreadGroup group(2);
  expect_nothing_new();
  group.run([](int, nvrar_comm* comm) { EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error(); });
  expect_nothing_new();
}

TEST(Descriptors, OfALinkedMemberAreItsOwn) {
  given_before();
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  nvrar_comm* comms[2] = {};
  uint8_t descriptors[2 * NVRAR_DESCRIPTOR_BYTES];
  for (int rank = 0; rank < 2; ++rank) {
    const nvrar_config config = make_config(rank, 2, {.ranks_per_node = 1, .linked = true});
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, descriptors + rank * NVRAR_DESCRIPTOR_BYTES, &comms[rank]),
              NVRAR_OK);
  }
  expect_nothing_new();  // of what listens
  const auto on_both = [&](auto body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  };
  on_both([&](int rank) { EXPECT_EQ(nvrar_connect(comms[rank], descriptors), NVRAR_OK) << nvrar_last_error(); });
  expect_nothing_new();
  on_both([&](int rank) { EXPECT_EQ(nvrar_destroy(comms[rank]), NVRAR_OK); });
}

TEST(Descriptors, OfAMemberOfSeveralHostsAreItsOwn) {
  if (!can_make_hosts()) GTEST_SKIP() << "this process may not make namespaces";
  given_before();
  EXPECT_TRUE(run_on_hosts({1, 1}, [](int, nvrar_comm* comm, Board*) {
    expect_nothing_new();
    EXPECT_EQ(nvrar_barrier(comm, 0), NVRAR_OK) << nvrar_last_error();
  }));
}

// Over the stub of libcuda. What the driver itself opens is not the library's.
TEST(Descriptors, OfAMemberOnGpusAreItsOwn) {
  given_before();
  ::setenv("STUB_CUDA_DEVICES", "2", 1);
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  if (nvrar_unique_id(NVRAR_BACKEND_CUDA, id) == NVRAR_UNAVAILABLE) GTEST_SKIP() << nvrar_last_error();
  const Ranks group(2);
  EXPECT_EQ(group.error(), "");
  expect_nothing_new();
}

// Files that are open for a moment only are found by starting programs all the while.
TEST(Descriptors, AreTheMembersOwnWhileAGroupIsMade) {
  given_before();
  std::atomic<bool> ends{false};
  std::thread maker([&] {
    while (!ends) const ThreadGroup group(2);
  });
  for (int i = 0; i < 30; ++i) expect_nothing_new();
  ends = true;
  maker.join();
}

}  // namespace
}  // namespace nvrar::test
