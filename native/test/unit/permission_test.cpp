// A peer on this host whose memory this process may not open.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>

#include "common/error.h"
#include "shared/shared_segment.h"

namespace nvrar::shared {
namespace {

constexpr uid_t kNobody = 65534;
constexpr uint64_t kGroup = 7;
constexpr int kUnable = 77;

struct Said {
  std::atomic<bool> has_address;
  SegmentAddress address;
  char text[1024];
};

// Whether this process could become one of that user and group; 0 stands for the one that it has.
bool become(uid_t user, gid_t group) {
  return (group == 0 || ::setresgid(group, group, group) == 0) && (user == 0 || ::setresuid(user, user, user) == 0);
}

// What a child process is told that maps the segment at `address`, and runs as that user and group.
std::string refusal(const SegmentAddress& address, uid_t user, Said* said, gid_t group = 0) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!become(user, group)) ::_exit(kUnable);
    try {
      (void)SharedSegment::map_peer(address, 1, kGroup, false);
    } catch (const Error& error) {
      std::strncpy(said->text, error.what(), sizeof said->text - 1);
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 0 ? said->text : "the child could not become another user";
}

class PermissionTest : public testing::Test {
 protected:
  PermissionTest()
      : said_(static_cast<Said*>(
            ::mmap(nullptr, sizeof(Said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~PermissionTest() override { ::munmap(said_, sizeof *said_); }
  void SetUp() override {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(become(kNobody, kNobody) ? 0 : kUnable);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (status != 0) GTEST_SKIP() << "this process cannot become one of user and group 65534";
  }
  static std::string beginning(pid_t pid) {
    return "rank 1 (pid " + std::to_string(pid) +
           ") is on this host, and this process may not open its memory (/proc/" + std::to_string(pid) + "/fd/";
  }
  Said* said_;
};

TEST_F(PermissionTest, OfAProcessOfAnotherUserItsUserIsNamed) {
  const SharedSegment segment = SharedSegment::create(nullptr, 1, 1, kGroup);
  const std::string text = refusal(segment.address(), kNobody, said_);
  EXPECT_EQ(text.substr(0, beginning(::getpid()).size()), beginning(::getpid())) << text;
  EXPECT_NE(text.find(": Permission denied): it runs as user 0 and this process as user 65534"), std::string::npos)
      << text;
}

TEST_F(PermissionTest, OfAProcessOfAnotherGroupItsGroupIsNamed) {
  const pid_t member = ::fork();
  if (member == 0) {
    if (!become(kNobody, kNobody)) ::_exit(kUnable);
    const SharedSegment segment = SharedSegment::create(nullptr, 1, 1, kGroup);
    said_->address = segment.address();
    said_->has_address = true;
    ::pause();
  }
  for (int i = 0; i < 10'000 && !said_->has_address; ++i) ::usleep(1000);
  ASSERT_TRUE(said_->has_address);
  const std::string text = refusal(said_->address, kNobody, said_, kNobody - 1);
  EXPECT_EQ(::kill(member, SIGKILL), 0);
  EXPECT_EQ(::waitpid(member, nullptr, 0), member);
  EXPECT_EQ(text.substr(0, beginning(member).size()), beginning(member)) << text;
  EXPECT_NE(text.find(": Permission denied): it runs as group 65534 and this process as group 65533"),
            std::string::npos)
      << text;
}

TEST_F(PermissionTest, OfAProcessThatTheKernelProtectsThatIsSaid) {
  const pid_t member = ::fork();  // a change of user protects it as file capabilities do
  if (member == 0) {
    if (!become(kNobody, kNobody)) ::_exit(kUnable);
    (void)::prctl(PR_SET_DUMPABLE, 0);  // which a machine may be set not to do by itself (fs.suid_dumpable)
    const SharedSegment segment = SharedSegment::create(nullptr, 1, 1, kGroup);
    (void)refusal(segment.address(), 0, said_);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(member, &status, 0), member);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const std::string text = said_->text;
  EXPECT_EQ(text.substr(0, beginning(member).size()), beginning(member)) << text;
  EXPECT_NE(text.find(": Permission denied): it has capabilities that this process lacks, or the kernel protects it"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace nvrar::shared
