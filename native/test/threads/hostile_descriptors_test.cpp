// False descriptors: the files that they lead to are not mapped, use no memory, and are refused with a sentence.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "member/descriptor.h"
#include "shared/control_block.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kSparseBytes = uint64_t{1} << 40;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Rank 0 as it should be, and rank 1's descriptor to change.
class HostileDescriptor : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id_), NVRAR_OK);
    for (int rank = 0; rank < 2; ++rank) members_[rank] = prepare(rank, id_, &descriptors_[rank]);
  }
  void TearDown() override {
    for (nvrar_comm* member : members_) EXPECT_EQ(nvrar_destroy(member), NVRAR_OK);
    if (file_ >= 0) ::close(file_);
  }

  static nvrar_comm* prepare(int rank, const uint8_t* id, Descriptor* descriptor) {
    const nvrar_config config = make_config(rank, 2, {.ring_bytes = kSmallRingBytes});
    nvrar_comm* member = nullptr;
    EXPECT_EQ(nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(descriptor), &member), NVRAR_OK);
    return member;
  }

  Descriptor& rank_1() { return descriptors_[1]; }

  // Looks like rank 1's segment in all but its size and its seals.
  void forge_segment(uint64_t bytes, int seals) {
    file_ = ::memfd_create("nvrar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fill_file(bytes);
    ASSERT_EQ(::fcntl(file_, F_ADD_SEALS, seals), 0);
  }
  void fill_file(uint64_t bytes) {
    ASSERT_EQ(::ftruncate(file_, static_cast<off_t>(bytes)), 0);
    void* base = ::mmap(nullptr, sizeof(shared::ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    ASSERT_NE(base, MAP_FAILED);
    auto* control = new (base) shared::ControlBlock;
    control->segment_bytes = bytes;
    control->rank = 1;
    control->group_hash = rank_1().group_hash;
    ::munmap(base, sizeof(shared::ControlBlock));
    rank_1().segment = {::getpid(), file_, bytes, {}};
  }

  void expect_refused(nvrar_status status, const std::string& part) {
    EXPECT_EQ(nvrar_connect(members_[0], reinterpret_cast<const uint8_t*>(descriptors_)), status);
    EXPECT_NE(std::string(nvrar_last_error()).find(part), std::string::npos) << nvrar_last_error();
  }

  uint8_t id_[NVRAR_UNIQUE_ID_BYTES];
  Descriptor descriptors_[2];
  nvrar_comm* members_[2] = {};
  int file_ = -1;
};

TEST_F(HostileDescriptor, ASegmentShorterThanTheRingsIsNotMapped) {
  forge_segment(sizeof(shared::ControlBlock), kSizeSeals);
  expect_refused(NVRAR_MISMATCH, "rank 1 has segment bytes " + std::to_string(sizeof(shared::ControlBlock)));
}

TEST_F(HostileDescriptor, ASparseSegmentTakesNoMemory) {
  forge_segment(kSparseBytes, kSizeSeals);
  const uint64_t before = resident_bytes();
  expect_refused(NVRAR_MISMATCH, "rank 1 has segment bytes 1099511627776");
  EXPECT_LT(resident_bytes(), before + kMiB);
}

TEST_F(HostileDescriptor, ASegmentThatClaimsAnotherSizeIsNotMapped) {
  const uint64_t bytes = rank_1().segment.bytes;
  forge_segment(bytes - 4096, kSizeSeals);
  rank_1().segment.bytes = bytes;
  expect_refused(NVRAR_SYSTEM, "has another size");
}

// Otherwise its owner could shorten it later, and every access of its peers would be a SIGBUS.
TEST_F(HostileDescriptor, ASegmentThatCouldShrinkIsNotMapped) {
  forge_segment(rank_1().segment.bytes, F_SEAL_GROW);
  expect_refused(NVRAR_SYSTEM, "could change its size");
}

// An ordinary file has no seals to look at; the name of this one begins as a segment's does.
TEST_F(HostileDescriptor, AFileThatIsNoMemoryIsNotMapped) {
  const std::string path = "/memfd:nvrar-test-" + std::to_string(::getpid());
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) GTEST_SKIP() << "only root can make " << path;
  ::unlink(path.c_str());
  fill_file(rank_1().segment.bytes);
  expect_refused(NVRAR_SYSTEM, "could change its size");
}

TEST_F(HostileDescriptor, NobodyCanShortenASegment) { EXPECT_EQ(::ftruncate(rank_1().segment.fd, 4096), -1); }

TEST_F(HostileDescriptor, TheSegmentOfAnotherGroupIsNotMapped) {
  uint8_t other_id[NVRAR_UNIQUE_ID_BYTES];
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, other_id), NVRAR_OK);
  Descriptor other;
  nvrar_comm* member = prepare(1, other_id, &other);
  rank_1().segment = other.segment;
  expect_refused(NVRAR_SYSTEM, "belongs to another group");
  EXPECT_EQ(nvrar_destroy(member), NVRAR_OK);
}

// Whichever byte of a descriptor is damaged, the descriptor is refused, unless the byte is never read.
TEST(DamagedDescriptor, IsRefusedOrHarmlessAtEveryByte) {
  uint8_t id[NVRAR_UNIQUE_ID_BYTES];
  ASSERT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, id), NVRAR_OK);
  const size_t files = open_descriptors();
  int refused = 0;
  for (size_t byte = 0; byte < sizeof(Descriptor); ++byte) {
    for (const int flip : {1, 0x80, 0xFF}) {
      Descriptor descriptors[2];
      nvrar_comm* members[2] = {};
      for (int rank = 0; rank < 2; ++rank) {
        const nvrar_config config = make_config(rank, 2, {.ring_bytes = kSmallRingBytes});
        ASSERT_EQ(
            nvrar_prepare(&config, nullptr, 0, id, reinterpret_cast<uint8_t*>(&descriptors[rank]), &members[rank]),
            NVRAR_OK);
      }
      reinterpret_cast<uint8_t*>(&descriptors[1])[byte] ^= static_cast<uint8_t>(flip);
      const nvrar_status status = nvrar_connect(members[0], reinterpret_cast<const uint8_t*>(descriptors));
      if (status != NVRAR_OK) {
        ++refused;
        const std::string error = nvrar_last_error();
        EXPECT_TRUE(error.find("rank 1") != std::string::npos || error.find("descriptor 1") != std::string::npos)
            << "byte " << byte << ": " << error;
      } else {
        // What nobody reads: behind the end of the build's text, and what is of the CUDA backend.
        const size_t behind_text = offsetof(Descriptor, build_id) + std::strlen(descriptors[0].build_id) + 1;
        EXPECT_TRUE((byte >= behind_text && byte < offsetof(Descriptor, tuning_hash)) ||
                    byte >= offsetof(Descriptor, compute_capability))
            << "byte " << byte;
      }
      for (nvrar_comm* member : members) EXPECT_EQ(nvrar_destroy(member), NVRAR_OK);
    }
  }
  EXPECT_EQ(open_descriptors(), files);
  EXPECT_GT(refused, 3 * 60);  // magic, versions, rank, world, ring, group, segment, build
}

TEST_F(HostileDescriptor, ABuildIdBringsNoControlCharactersIntoASentence) {
  std::strcpy(rank_1().build_id, "\x1b[2Jok\n\x80");
  expect_refused(NVRAR_MISMATCH, "rank 1 has library build ?[2Jok??, this rank");
}

}  // namespace
}  // namespace nvrar::test
