// What only test builds (NVRAR_TEST_ADVERSE) hold: defects that a negative control plants, moments at which a test can
// make a rank wait or die, and the number of the first launch. In any other build all of it folds to nothing.
#ifndef NVRAR_PROTOCOL_TEST_BUILD_H
#define NVRAR_PROTOCOL_TEST_BUILD_H

#include <stdint.h>

#include "protocol/attributes.h"

namespace nvrar::protocol {

// Each takes one thing away that an invariant needs (protocol.md has the numbers).
enum class Defect : uint32_t {
  kNone,
  kTornPackets,       // 1: a packet is stored in four parts
  kRawSentinels,      // 1: data that looks like an empty slot is sent as it is
  kOneBuffer,         // 2: both parities share one area
  kSharedHops,        // 2: results lie where contributions do
  kKeptSlots,         // 2: sentinel slots are not emptied
  kNoHeaderWait,      // 3: a rank leaves without evidence that all have entered
  kShortEpochs,       // 4: epochs are counted in 32 bits
  kNoBusyGuard,       // 5: a second thread may enter
  kUncaughtOverlap,   // 5: a kernel does not see that another launch of its group is under way
  kStuckOwnData,      // 7: a rank adds the first part of its own data to every part
  kNextOwner,         // 8: slices go to the rank behind their owner
  kSwappedNodes,      // 9: nodes' sums are combined in another order
  kOwnFirst,          // 10: a sum begins with the own value
  kPollsFirst,        // 11: a rank waits before it sends
  kAlignedPlan,       // 12: the plan depends on an address
  kHashWithoutCount,  // 13
  kHashWithoutOp,     // 13
  kIgnoredPoison,     // 14: a call in a failed group runs
  kDroppedRest,       // 15: what is no whole packet is not stored
  kIgnoredCredit,     // 16: a sender overwrites what was not read yet
};

// A packet into, or for a packet in, the given slot; or empties it.
enum class Moment : uint32_t { kSends, kWaits, kClears };

#if defined(NVRAR_TEST_ADVERSE) && defined(__CUDACC__)
// What the launch was told: test/device/test_block.cuh.
NVRAR_HD bool planted(Defect defect);
#elif defined(NVRAR_TEST_ADVERSE)
struct TestBuild {
  Defect planted = Defect::kNone;
  uint64_t first_epoch = 1;  // and the number of a pair's first transfer
  void (*at_moment)(uint32_t rank, Moment moment, uint64_t slot) = nullptr;
  void (*at_driver)(void* functions) = nullptr;  // the CUDA driver's, a cuda::Driver, before their first use
};
extern TestBuild test_build;

NVRAR_HD bool planted(Defect defect) { return test_build.planted == defect; }
NVRAR_HD uint64_t first_epoch() { return test_build.first_epoch; }
NVRAR_HD void pass_moment(uint32_t rank, Moment moment, uint64_t slot) {
  if (test_build.at_moment != nullptr) test_build.at_moment(rank, moment, slot);
}
inline void pass_driver(void* functions) {
  if (test_build.at_driver != nullptr) test_build.at_driver(functions);
}
#else
NVRAR_HD constexpr bool planted(Defect) { return false; }
NVRAR_HD constexpr uint64_t first_epoch() { return 1; }
NVRAR_HD constexpr void pass_moment(uint32_t, Moment, uint64_t) {}
NVRAR_HD constexpr void pass_driver(void*) {}
#endif

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TEST_BUILD_H
