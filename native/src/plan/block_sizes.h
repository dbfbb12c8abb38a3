// The sizes of the blocks of kernels, which the kernels are compiled for and a plan reckons with. Compiled for host and
// device.
#ifndef NVRAR_PLAN_BLOCK_SIZES_H
#define NVRAR_PLAN_BLOCK_SIZES_H

#include "protocol/packet.h"

namespace nvrar::cuda {

constexpr uint32_t kWarpThreads = 32;
// Warps of a block in kernels that run the steps of protocol/; each warp is a worker.
constexpr uint32_t kWorkerWarps = 8;
// Warps of a block in kernels that work in teams; the block has as many whole teams as fit.
constexpr uint32_t kTeamWarps = 8;
// Warps of a block in kernels for two ranks, where a warp is a team.
constexpr uint32_t kPairWarps = 10;
// Blocks of a launch of teams that process no tiles: block 0 does what a launch needs once, off the path of the data.
constexpr uint32_t kHeaderBlocks = 1;
static_assert(kWarpThreads == protocol::kRunPackets, "a warp has a packet a lane");

// The most warps of a block of any kernel.
constexpr uint32_t kMostWarps = 10;
static_assert(kMostWarps >= kWorkerWarps && kMostWarps >= kTeamWarps && kMostWarps >= kPairWarps);

// Of the kernel of sends and receives, whose launches have a block for each peer and direction.
constexpr uint32_t kTransferThreads = 256;
// Of the kernel that finishes the rows of a fused all-reduce between hosts, a block for each.
constexpr uint32_t kRowThreads = 256;
// Of the kernels of a top-k.
constexpr uint32_t kTopKThreads = 256;

}  // namespace nvrar::cuda

#endif  // NVRAR_PLAN_BLOCK_SIZES_H
