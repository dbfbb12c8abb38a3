#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

// Shared with all processes that are forked later.
std::atomic<uint64_t>* shared_count() {
  void* memory =
      ::mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return new (memory) std::atomic<uint64_t>(0);
}

std::atomic<uint64_t>& checked_calls() {
  static std::atomic<uint64_t>* const count = shared_count();
  return *count;
}

}  // namespace

namespace {

// Of all tests of a program that is to run on GPUs where there are none.
class NeedsItsBackend : public ::testing::Environment {
  void SetUp() override {
    if (on_gpu() && !has_gpu()) GTEST_SKIP() << "there is no GPU, and NVRAR_TEST_BACKEND is cuda";
  }
};

}  // namespace

void count_checked_call() { checked_calls().fetch_add(1, std::memory_order_relaxed); }

}  // namespace nvrar::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new nvrar::test::NeedsItsBackend);  // GoogleTest deletes it
  nvrar::test::checked_calls();
  const double begin = nvrar::test::seconds_now();
  const int code = RUN_ALL_TESTS();
  std::printf("[ CHECKED  ] %d tests, %llu calls of ranks, %.1f s\n",
              ::testing::UnitTest::GetInstance()->test_to_run_count(),
              static_cast<unsigned long long>(nvrar::test::checked_calls().load()), nvrar::test::seconds_now() - begin);
  return code;
}
