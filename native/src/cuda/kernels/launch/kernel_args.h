// The arguments of this library's kernels, and the state that they keep between launches. Compiled for the host by the
// C++ compiler and for the device by nvcc.
#ifndef NVRAR_CUDA_KERNELS_LAUNCH_KERNEL_ARGS_H
#define NVRAR_CUDA_KERNELS_LAUNCH_KERNEL_ARGS_H

#include "plan/block_sizes.h"
#include "protocol/launch.h"

namespace nvrar::cuda {

// Blocks of each kernel that must fit on a multiprocessor (docs/decisions/0012-places-on-a-multiprocessor.md). A kernel
// that used more registers than this allows would have fewer warps, or reduce the places of all kernels.
constexpr uint32_t kPlaces = 4;

// The warps of a launch have places: those of block 0 the first, then those of block 1, and so on. A warp needs no
// other one of its block, because what proves that launches do not overlap (protocol.md 5) is counted by place:
// launches that have entered it (a claim), and this.
struct alignas(16) PlaceExit {
  uint64_t exits;  // launches that have exited the place
  uint64_t epoch;  // of the last of them
};

// Set in the tags of captured launches, which are not counted because the host cannot know how often they run.
constexpr uint32_t kCapturedTag = uint32_t{1} << 31;
// The launch whose block 0 entered last.
struct alignas(16) LatestLaunch {
  uint64_t epoch;
  uint64_t tag;  // KernelArgs::tag; the upper half is the number of the launch's warps
};

// Copies of what each warp of a launch loads first, and parts of what each adds to at its end, in lines of their own: a
// block uses the one of its index modulo kLaunchLines. All warps loading from one line took 0.6 us of a launch with 256
// blocks.
constexpr uint32_t kLaunchLines = kWarpThreads;
struct alignas(128) LaunchLine {
  struct alignas(16) Beside {
    uint64_t poison;
    // Of the launch before the latest one: the number of its warps in the upper half. The lower half is that of the
    // latest launch's epoch, since it is not stored together with `latest`.
    uint64_t before;
  };
  LatestLaunch latest;
  Beside beside;   // loaded together
  uint64_t ended;  // warps of eager launches that have ended, whether they entered the launch or not
};

// In device memory.
struct DeviceState {
  // If not 0, every kernel exits at once. The low half is a flag; the high half is the tag of the launch that failed or
  // detected an abort, 0 if the host has set the word. It is set here first, then in the lines.
  uint64_t poison;
  uint64_t reserved;  // padding
  LatestLaunch latest;
};

// The header of a transfer (protocol/point_to_point.h), as the device reports it to the host.
struct alignas(16) SeenTransfer {
  uint64_t count;
  uint32_t sequence;
  uint32_t type_and_one;  // 0: nothing was reported yet
};

// In host memory that the device can read and write.
struct HostPage {
  uint32_t abort;     // set by the host: kernels exit
  uint32_t reserved;  // padding
  uint64_t failure;   // DeviceFailure, set by the first block that fails
  // If transfers differed: the expected header and the received one. Each is written in one access, after `failure`.
  SeenTransfer expected;
  SeenTransfer came;
  uint64_t far_ranks;  // of a failure without ranks: a bit for each, of another node; set before it
};

enum class FailureKind : uint32_t { kNone, kTimeout, kMismatch, kOverlap, kOverrun };

// Packed into one word, so that the host never reads a part of it.
struct DeviceFailure {
  FailureKind kind;
  uint32_t ranks;  // one bit per rank: the ranks that were waited for, or that differed
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

// When the next launch of the stream may start, if it is a programmatic one (protocol.md 6).
enum class NextLaunch : uint32_t {
  kAfterThis,           // when this one has completed; nothing is said to it
  kOnceAllHaveClaimed,  // when all warps have made the claims by which they find other launches in flight
  kOnceAllHaveIt,       // when every block has received all that it waits for
};

// `algorithm` is an Algorithm (call/algorithm.h), `op` a code of the C ABI.
struct KernelArgs {
  protocol::Launch launch;  // its epoch is unset: the device counts, since captured arguments never change
  protocol::Packet* rings[protocol::kMaxRanks];  // each rank's rings, as addresses of this device
  DeviceState* state;
  LaunchLine* lines;
  uint64_t* claims;  // one for each place, like these
  PlaceExit* exits;
  HostPage* page;
  uint64_t timeout_ns;
  uint32_t tag;  // not 0; of this launch, or of all replays of its graph node; repeats only after 2^31 launches
  uint32_t algorithm;
  int32_t op;
  NextLaunch next;
};

#if !defined(__CUDACC__)
// Kernels have the first ranks of the nodes, a bit each, where the host has a list.
inline void give_firsts(protocol::Launch* launch, uint64_t firsts) noexcept {
  auto* const topology = reinterpret_cast<uint8_t*>(&launch->layout.topology);
  __builtin_memcpy(topology + offsetof(protocol::Topology, list), &firsts, sizeof firsts);
}
#endif

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_KERNELS_LAUNCH_KERNEL_ARGS_H
