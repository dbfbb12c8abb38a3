// What a kernel of this library is given and what it leaves behind. Compiled for the host by the C++ compiler and for
// the device by nvcc.
#ifndef NVRAR_CUDA_KERNELS_KERNEL_ARGS_H
#define NVRAR_CUDA_KERNELS_KERNEL_ARGS_H

#include "protocol/launch.h"

namespace nvrar::cuda {

constexpr uint32_t kWarpThreads = 32;
// Of a block of the kernels that run the steps of protocol/: each warp is a worker.
constexpr uint32_t kWorkerWarps = 8;
// Blocks that a multiprocessor is to hold of each kernel (docs/decisions/0012-places-on-a-multiprocessor.md): a kernel
// with more registers than that leaves would lose warps, or all others places.
constexpr uint32_t kPlaces = 4;
// Of one that only moves data: it has few registers, and a large call needs all warps that fit.
constexpr uint32_t kMoveWarps = 12;
// Of a block of the kernels that work in teams: as many whole teams as fit.
constexpr uint32_t kTeamWarps = 8;
// Of a block for two ranks: those that have data, and one for the header.
constexpr uint32_t kPairWarps = 11 + 1;
static_assert(kWarpThreads == protocol::kRunPackets, "a warp has a packet a lane");

// What a block of that index, of whatever launch, was in last (protocol.md 4, 5).
struct alignas(16) BlockState {
  uint64_t claims;  // launches that it has entered
  uint64_t exits;   // launches that it has left
  uint64_t epoch;   // of the last one that it has entered
  uint64_t ended;   // launches of its index, captured ones apart, that are over for it, entered or not
};
// Of the tags of captured launches: how often they run the host cannot know.
constexpr uint32_t kCapturedTag = uint32_t{1} << 31;
// The launch whose block 0 has entered last.
struct alignas(16) LatestLaunch {
  uint64_t epoch;
  uint64_t tag;  // KernelArgs
};

// In the device's own memory.
struct DeviceState {
  // Not 0: every kernel leaves at once. The low half is a flag, the high one the tag of the launch that gave up, 0 if
  // none was there to.
  uint64_t poison;
  uint64_t reserved;
  LatestLaunch latest;
  // Of all launches up to the latest, those with even numbers and those with odd ones. Blocks of a launch may have left
  // when its block 0 looks at those of the launch before.
  uint64_t blocks_launched[2];
  uint64_t blocks_exited[2];
  BlockState blocks[1];  // as many as a launch can have
};

// The header of a transfer (protocol/point_to_point.h), as it crosses to the host.
struct alignas(16) SeenTransfer {
  uint64_t count;
  uint32_t sequence;
  uint32_t type_and_one;  // 0: nothing was seen yet
};

// In host memory that the device reads and writes.
struct HostPage {
  uint32_t abort;  // set by the host: kernels leave
  uint32_t reserved;
  uint64_t failure;  // DeviceFailure, set by the first block that fails
  // If transfers differed: what was to be received, and what came; written after the failure, each at once.
  SeenTransfer expected;
  SeenTransfer came;
};

enum class FailureKind : uint32_t { kNone, kTimeout, kMismatch, kOverlap, kOverrun };

// One word, so that it crosses whole.
struct DeviceFailure {
  FailureKind kind;
  uint32_t ranks;  // a bit per rank: who was waited for, or differed
  uint32_t block;
  uint32_t tag;

  NVRAR_HD uint64_t pack() const {
    return static_cast<uint64_t>(kind) | uint64_t{ranks & 0xFF} << 8 | uint64_t{block & 0xFFFF} << 16 |
           uint64_t{tag} << 32;
  }
  static NVRAR_HD DeviceFailure unpack(uint64_t word) {
    return {static_cast<FailureKind>(word & 0xFF), static_cast<uint32_t>(word >> 8 & 0xFF),
            static_cast<uint32_t>(word >> 16 & 0xFFFF), static_cast<uint32_t>(word >> 32)};
  }
};

// Codes of the C ABI and of Algorithm (algorithm.h), as numbers.
struct KernelArgs {
  protocol::Launch launch;  // but for the epoch, which the device counts: a captured launch would freeze it
  protocol::Packet* rings[protocol::kMaxRanks];  // of each rank, as this device reaches them
  DeviceState* state;
  HostPage* page;
  uint64_t timeout_ns;
  uint32_t tag;  // of this launch, not 0: no other one of the group, eager or captured, has it
  uint32_t algorithm;
  int32_t op;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_KERNEL_ARGS_H
