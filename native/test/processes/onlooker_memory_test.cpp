// Descriptors and memory of which an onlooker cannot tell by itself that they are a member's: what is not is refused
// with a sentence, and no descriptor stays open.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "member/descriptor.h"
#include "shared/control_block.h"
#include "support/group.h"
#include "support/look.h"

namespace nvrar::test {
namespace {

// A member of this process, whose descriptor the tests change.
class LookedAt : public ::testing::Test {
 protected:
  void SetUp() override {
    uint8_t id[NVRAR_UNIQUE_ID_BYTES];
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
    const nvrar_config config = make_config(0, 1, {.ring_bytes = kSmallRingBytes});
    ASSERT_EQ(nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(&descriptor_), &member_), NVRAR_OK);
    ASSERT_EQ(look_at(&descriptor_).status, NVRAR_OK) << nvrar_last_error();
    files_ = open_descriptors();
  }
  void TearDown() override {
    EXPECT_EQ(nvrar_destroy(member_), NVRAR_OK);
    if (file_ >= 0) ::close(file_);
  }

  void expect_refused(nvrar_status status, const std::string& part) {
    const Look look = look_at(&descriptor_);
    EXPECT_EQ(look.status, status);
    EXPECT_TRUE(contains(look.error, part)) << look.error;
  }

  // A file that begins as the member's segment does, which the descriptor then leads to.
  void forge(uint64_t bytes, int seals, bool filled = true) {
    file_ = ::memfd_create("nvrar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(::ftruncate(file_, static_cast<off_t>(bytes)), 0);
    if (filled) {
      auto* control = new shared::ControlBlock;
      control->segment_bytes = bytes;
      control->rank = descriptor_.rank;
      control->group_hash = descriptor_.group_hash;
      EXPECT_EQ(::pwrite(file_, control, sizeof *control, 0), static_cast<ssize_t>(sizeof *control));
      delete control;
    }
    ASSERT_EQ(::fcntl(file_, F_ADD_SEALS, seals), 0);
    descriptor_.segment = {::getpid(), file_, bytes, {}};
  }

  static constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  Descriptor descriptor_;
  nvrar_comm* member_ = nullptr;
  size_t files_ = 0;
  int file_ = -1;
};

TEST_F(LookedAt, ADamagedDescriptorIsRefusedUnlessTheByteIsNotRead) {
  const size_t build_id_end = offsetof(Descriptor, build_id) + std::strlen(descriptor_.build_id) + 1;
  const auto is_read = [&](size_t byte) {
    const auto in = [&](size_t begin, size_t bytes) { return byte >= begin && byte < begin + bytes; };
    return in(offsetof(Descriptor, magic), sizeof descriptor_.magic) ||
           in(offsetof(Descriptor, rank), sizeof descriptor_.rank) ||
           in(offsetof(Descriptor, group_hash), sizeof descriptor_.group_hash) ||
           in(offsetof(Descriptor, segment), sizeof descriptor_.segment) ||
           (byte >= offsetof(Descriptor, build_id) && byte < build_id_end);
  };
  const Descriptor good = descriptor_;
  for (size_t byte = 0; byte < sizeof good; ++byte) {
    for (const int flip : {1, 0x80, 0xFF}) {
      descriptor_ = good;
      reinterpret_cast<uint8_t*>(&descriptor_)[byte] ^= static_cast<uint8_t>(flip);
      const Look look = look_at(&descriptor_);
      EXPECT_EQ(look.status != NVRAR_OK, is_read(byte)) << "byte " << byte << ": " << look.error;
      EXPECT_EQ(look.error.empty(), look.status == NVRAR_OK) << "byte " << byte;
    }
  }
  EXPECT_EQ(open_descriptors(), files_);
}

TEST_F(LookedAt, WhatIsNoDescriptorAndThatOfAnotherBuildAreTold) {
  std::strcpy(descriptor_.build_id, "another");
  expect_refused(NVRAR_MISMATCH, "the member has another build of the library than this process, which is ");
  std::memset(&descriptor_, 0x5A, sizeof descriptor_);
  expect_refused(NVRAR_INVALID_ARGUMENT, "this is no descriptor of a member");
}

// Of a file that could shrink, every access could be a SIGBUS.
TEST_F(LookedAt, MemoryThatCouldShrinkIsRefused) {
  forge(shared::kControlBytes, F_SEAL_GROW);
  expect_refused(NVRAR_SYSTEM, "could change its size");
}

TEST_F(LookedAt, MemoryThatIsShorterThanARecordIsRefused) {
  forge(shared::kControlBytes / 2, kSizeSeals);
  expect_refused(NVRAR_SYSTEM, "has another size");
}

TEST_F(LookedAt, MemoryOfAnotherLengthThanTheDescriptorSaysIsRefused) {
  forge(2 * shared::kControlBytes, kSizeSeals);
  descriptor_.segment.bytes = shared::kControlBytes;
  expect_refused(NVRAR_SYSTEM, "has another size");
}

TEST_F(LookedAt, MemoryThatHoldsNoMemberIsRefused) {
  forge(shared::kControlBytes, kSizeSeals, false);
  expect_refused(NVRAR_SYSTEM, "belongs to another group");
}

TEST_F(LookedAt, AMemberThatHasDestroyedItsCommunicatorIsTold) {
  forge(shared::kControlBytes, kSizeSeals & ~F_SEAL_SEAL);
  const std::atomic<uint32_t> closed{1};
  EXPECT_EQ(::pwrite(file_, &closed, sizeof closed, offsetof(shared::ControlBlock, closed)),
            static_cast<ssize_t>(sizeof closed));
  ASSERT_EQ(::fcntl(file_, F_ADD_SEALS, F_SEAL_SEAL), 0);
  expect_refused(NVRAR_SYSTEM, "rank 0 has destroyed its communicator");
}

TEST_F(LookedAt, MissingPlacesForTheAnswerAreRefused) {
  uint32_t count = 0;
  uint64_t begun = 0;
  nvrar_status failure = NVRAR_OK;
  nvrar_call calls[1] = {};
  const auto* descriptor = reinterpret_cast<const uint8_t*>(&descriptor_);
  EXPECT_EQ(nvrar_look_at(nullptr, calls, 0, &count, &begun, &failure), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_look_at(descriptor, nullptr, 1, &count, &begun, &failure), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_look_at(descriptor, calls, 1, &count, &begun, &failure), NVRAR_INVALID_ARGUMENT) << "no size";
  EXPECT_EQ(nvrar_look_at(descriptor, calls, 0, nullptr, &begun, &failure), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_look_at(descriptor, calls, 0, &count, nullptr, &failure), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_look_at(descriptor, calls, 0, &count, &begun, nullptr), NVRAR_INVALID_ARGUMENT);
}

// The name of a descriptor's file may lie. A pipe without a writer would keep whoever opens it waiting for ever.
TEST_F(LookedAt, APipeWithASegmentsNameKeepsNobodyWaiting) {
  const std::string path = "/memfd:nvrar" + std::to_string(::getpid());
  if (::mkfifo(path.c_str(), 0600) != 0) GTEST_SKIP() << "this process may not make files in /";
  file_ = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  EXPECT_EQ(::unlink(path.c_str()), 0);
  ASSERT_GE(file_, 0);
  descriptor_.segment = {::getpid(), file_, descriptor_.segment.bytes, {}};
  ::alarm(20);
  expect_refused(NVRAR_SYSTEM, "has another size");
  ::alarm(0);
}

}  // namespace
}  // namespace nvrar::test
