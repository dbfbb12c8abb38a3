// What the kernels of a test build are given beside their arguments, and instead of them. Compiled for host and device.
#ifndef NVRAR_TEST_DEVICE_TEST_LAUNCH_H
#define NVRAR_TEST_DEVICE_TEST_LAUNCH_H

#include "cuda/kernels/launch/fused_args.h"
#include "cuda/kernels/move/transfer_args.h"

namespace nvrar::test {

// The parts of a rank's rings, by what their packets are for.
enum class Part : uint32_t { kHeader, kData, kResult, kExchange, kTransfer };

NVRAR_HD Part part_of(const protocol::RingLayout& layout, uint64_t slot) {
  using protocol::Hop;
  using protocol::PacketKind;
  if (slot < protocol::RingLayout::kHeaderSlots) return Part::kHeader;
  if (slot >= layout.sentinel_end()) return Part::kTransfer;
  const PacketKind kind = slot < layout.sentinel_begin() ? PacketKind::kEpoch : PacketKind::kSentinel;
  const uint64_t begin = layout.area_begin(kind, 0, Hop::kData);
  const uint64_t hop = (slot - begin) / layout.area_slots(kind) % layout.hops();
  return hop == 0 ? Part::kData : hop == 1 ? Part::kResult : Part::kExchange;
}

// Where a block of that rank stands still for a while, once in a launch. ns: 0 is nowhere.
struct Stall {
  uint64_t ns;
  uint32_t rank;
  protocol::Moment moment;
  Part part;
  uint32_t reserved;
};

struct Switches {
  Stall stall;
  uint64_t stalled;  // address of a word that becomes 1 where a block has stood still
  protocol::Defect planted;
  uint32_t reserved;
};

// A launch of one rank, or of all ranks: then block b is rank b / blocks_per_rank's, and returns at once if that rank's
// own launch has fewer.
template <class Args>
struct Launch {
  Switches switches;
  const Args* of_ranks;  // in the device's memory; null: own
  uint32_t blocks_per_rank;
  uint32_t blocks[protocol::kMaxRanks];
  Args own;
};
static_assert(sizeof(Launch<cuda::TransferArgs>) <= 4096, "what a kernel can be given");

}  // namespace nvrar::test

#endif  // NVRAR_TEST_DEVICE_TEST_LAUNCH_H
