// What only test builds (NVRAR_TEST_ADVERSE) have: defects that negative controls plant, moments at which a test can
// make a rank wait or die, and the number of the first launch. In any other build all of it compiles to nothing.
#ifndef NVRAR_PROTOCOL_TEST_BUILD_H
#define NVRAR_PROTOCOL_TEST_BUILD_H

#include <stdint.h>

#include "protocol/attributes.h"

namespace nvrar::protocol {

// Each defect breaks one thing that an invariant requires; the numbers are those of protocol.md.
enum class Defect : uint32_t {
  kNone,
  kTornPackets,       // 1: a packet is stored in four parts
  kRawSentinels,      // 1: data that looks like an empty slot is sent unchanged
  kLostWords,         // 1: what a marked packet's mark says is not restored
  kStaleMarks,        // 1: the mark of another launch is taken
  kOneBuffer,         // 2: both parities share one area
  kSharedHops,        // 2: results lie where the contributions do
  kKeptSlots,         // 2: sentinel slots are not emptied
  kNoHeaderWait,      // 3: a rank leaves without evidence that all have entered
  kNodeEvidence,      // 3: a rank leaves with the headers of its node alone
  kShortEpochs,       // 4: epochs are counted in 32 bits
  kNoBusyGuard,       // 5: a second thread may enter
  kUncaughtOverlap,   // 5: a kernel does not detect another launch of its group in flight
  kNoLaunchWait,      // 6: a kernel does not wait for the launch before
  kTrustedGuess,      // 6: a kernel takes its number before it has waited for the launch before
  kStuckOwnData,      // 7: a rank adds the first part of its own data to every part
  kNextOwner,         // 8: slices go to the rank after their owner
  kSwappedNodes,      // 9: nodes' sums are combined in another order
  kOwnFirst,          // 10: a sum begins with the rank's own value
  kPollsFirst,        // 11: a rank polls before it sends
  kAlignedPlan,       // 12: the plan depends on an address
  kHashWithoutCount,  // 13
  kHashWithoutOp,     // 13
  kIgnoredPoison,     // 14: a call in a failed group runs
  kDroppedRest,       // 15: the last packet is not stored if it is not full
  kIgnoredCredit,     // 16: a sender overwrites packets that were not read yet
  kKeptRun,           // 17: a run is used where it was received although the link has gone on
  kDistantSums,       // 18: sums are combined with distant ones, not with adjacent ones
};

// The moment before a packet is sent into the slot, before a wait for a packet in it, or before it is emptied.
enum class Moment : uint32_t { kSends, kWaits, kClears };

#if defined(NVRAR_TEST_ADVERSE) && defined(__CUDACC__)
// Planted by the arguments of the launch: test/device/test_block.cuh.
NVRAR_HD bool planted(Defect defect);
#elif defined(NVRAR_TEST_ADVERSE)
struct TestBuild {
  Defect planted = Defect::kNone;
  uint64_t first_epoch = 1;  // also the number of a pair's first transfer
  void (*at_moment)(uint32_t rank, Moment moment, uint64_t slot) = nullptr;
  void (*at_driver)(void* functions) = nullptr;  // gets a cuda::Driver before its first use
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
