// Launches the kernels of a test build: with the planted defect, with a place where a block stalls, and, if a test asks
// for it, with those of all ranks in one launch.
#ifndef NVRAR_TEST_SUPPORT_TEST_KERNELS_H
#define NVRAR_TEST_SUPPORT_TEST_KERNELS_H

#include "device/test_launch.h"

namespace nvrar::test {

// The hook TestBuild::at_driver.
void launch_test_kernels(void* functions);

// Sets where blocks stall, for every launch from now on; {} for nowhere.
void stall_kernels(const Stall& stall);
// Whether a block has stalled since.
bool kernels_stalled();

// While this object lives, the launches of a call on all ranks of a group are merged into one: the last rank launches
// it for all, and waits for it. All ranks must be threads of this process on one GPU, and make the same calls. So no
// kernel waits for another kernel, which compute-sanitizer would never start.
class OneLaunch {
 public:
  OneLaunch();
  ~OneLaunch();
  OneLaunch(const OneLaunch&) = delete;
  OneLaunch& operator=(const OneLaunch&) = delete;
  // The number of merged launches so far.
  static uint64_t launches();
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_TEST_KERNELS_H
