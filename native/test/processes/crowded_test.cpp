// More ranks than cores: a rank that waits must give its core to the rank that it waits for.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <ostream>

#include "support/group.h"
#include "support/pool.h"

namespace nvrar::test {
namespace {

constexpr double kCpuSecondsMax = 1.0;
constexpr double kWallSecondsMax = 20;

struct Crowd {
  int world;
  int cores;
};

void PrintTo(const Crowd& crowd, std::ostream* out) { *out << crowd.world << " ranks on " << crowd.cores << " cores"; }

// Pins this process, and with it those that it forks, to some of its cores.
class Pinned {
 public:
  explicit Pinned(int cores) {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < cores; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &some);
    }
    enough_ = CPU_COUNT(&some) == cores;
    EXPECT_EQ(::sched_setaffinity(0, sizeof some, &some), 0);
  }
  ~Pinned() { EXPECT_EQ(::sched_setaffinity(0, sizeof before_, &before_), 0); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  bool enough() const { return enough_; }

 private:
  cpu_set_t before_;
  bool enough_ = false;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double children_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

class CrowdedProcesses : public ::testing::TestWithParam<Crowd> {};

// A call of ranks that spin through their time slices takes a slice per rank, some milliseconds each, all of it CPU
// time. Other programs on the machine cannot add to the CPU time, which therefore has the tight limit. The wall time's
// limit finds ranks that sleep until their second look (100 ms) because nobody wakes them.
TEST_P(CrowdedProcesses, DoNotStarveEachOther) {
  const Crowd crowd = GetParam();
  const uint64_t calls = repetitions(1000);
  const Pinned pinned(crowd.cores);
  if (!pinned.enough()) GTEST_SKIP() << "this machine has fewer cores";
  const Pool pool(NVRAR_FLOAT32, NVRAR_SUM, crowd.world, 64, 19);
  const double cpu_before = children_cpu_seconds();
  const double begin = seconds_now();
  ProcessGroup group(crowd.world, {}, [&](int rank, nvrar_comm* comm, Board*) {
    float out[64];
    for (uint64_t i = 0; i < calls; ++i) {
      ASSERT_EQ(nvrar_all_reduce(comm, reinterpret_cast<uint64_t>(pool.input(rank, 0)), reinterpret_cast<uint64_t>(out),
                                 64, NVRAR_FLOAT32, NVRAR_SUM, NVRAR_ALGORITHM_AUTO, 0),
                NVRAR_OK)
          << nvrar_last_error();
      ASSERT_EQ(difference(reinterpret_cast<uint8_t*>(out), pool.expected(0), sizeof out), "");
    }
  });
  EXPECT_TRUE(group.join(60));
  const double wall = seconds_now() - begin;
  const double cpu = children_cpu_seconds() - cpu_before;
  RecordProperty("wall_ms", static_cast<int>(wall * 1e3));
  RecordProperty("cpu_ms", static_cast<int>(cpu * 1e3));
  EXPECT_LT(cpu, kCpuSecondsMax) << "ranks burn the cores that others need";
  EXPECT_LT(wall, kWallSecondsMax);
}

INSTANTIATE_TEST_SUITE_P(RanksAndCores, CrowdedProcesses,
                         ::testing::Values(Crowd{4, 2}, Crowd{8, 2}, Crowd{4, 1}, Crowd{8, 1}));

}  // namespace
}  // namespace nvrar::test
