// How a test build launches its kernels: with the planted defect, with a place where a block stands still, and, where a
// test asks for it, those of all ranks in one launch.
#ifndef NVRAR_TEST_SUPPORT_TEST_KERNELS_H
#define NVRAR_TEST_SUPPORT_TEST_KERNELS_H

#include "device/test_launch.h"

namespace nvrar::test {

// TestBuild::at_driver.
void launch_test_kernels(void* functions);

// Of every launch from now on; {} is nowhere.
void stall_kernels(const Stall& stall);
// Whether a block has stood still since.
bool kernels_stalled();

// While it lives, a call's launches on the ranks of a group become one: the last rank that comes launches it for all,
// and waits for it. All ranks are threads of this process on one GPU, and make the same calls. So no kernel waits for
// another one, which compute-sanitizer would never start.
class OneLaunch {
 public:
  OneLaunch();
  ~OneLaunch();
  OneLaunch(const OneLaunch&) = delete;
  OneLaunch& operator=(const OneLaunch&) = delete;
  // How many there were.
  static uint64_t launches();
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_TEST_KERNELS_H
