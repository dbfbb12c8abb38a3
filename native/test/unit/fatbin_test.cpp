#include "cuda/launch/fatbin.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace nvrar::cuda {
namespace {

// The driver finds an image's length in its head; one that was cut, or joined to the next, would say another.
struct FatbinHead {
  uint32_t magic;
  uint16_t version;
  uint16_t head_bytes;
  uint64_t bytes;
};
constexpr uint32_t kMagic = 0xBA55ED50u;

TEST(Fatbin, TheLibraryHoldsAWholeImageForEachSourceInTheOrderOfTheirNames) {
  EXPECT_EQ(kernels().size(), size_t{NVRAR_TEST_FATBINS});
  std::string before;
  for (const Fatbin& fatbin : kernels()) {
    FatbinHead head;
    ASSERT_GT(fatbin.bytes, sizeof head);
    std::memcpy(&head, fatbin.image, sizeof head);
    EXPECT_EQ(head.magic, kMagic) << fatbin.source;
    EXPECT_EQ(head.head_bytes + head.bytes, fatbin.bytes) << fatbin.source;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(fatbin.image) % alignof(uint64_t), 0u) << fatbin.source;
    EXPECT_LT(before, fatbin.source);
    before = fatbin.source;
  }
}

}  // namespace
}  // namespace nvrar::cuda
