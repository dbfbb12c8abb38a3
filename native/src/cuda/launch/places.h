// How many blocks a launch may have: never so many that those of all launches which may be on a GPU at once would not
// fit on it together, whatever their kernels and wherever they lie (docs/decisions/0012-places-on-a-multiprocessor.md).
#ifndef NVRAR_CUDA_LAUNCH_PLACES_H
#define NVRAR_CUDA_LAUNCH_PLACES_H

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/driver/driver.h"

namespace nvrar::cuda {

// A multiprocessor has its memory divided as the kernels on it prefer, in steps of 8, 16, 32, 64 KiB and so on of
// shared memory, and it stays so while a block is on it. With the KiB that the driver takes for each, a block of ours
// does not fit the lower steps: it would come beside a short kernel of somebody else, which mostly have those, and then
// keep others of ours out for good.
constexpr uint32_t kSharedBytesOfABlock = 63 << 9;

struct Kernel {
  Function function = nullptr;
  Function single = nullptr;  // the same where each team has one tile at most; may be null
  uint32_t threads_per_tile = 0;
  uint32_t more_threads = 0;               // of a block, whatever its tiles
  uint32_t max_tiles = 0;                  // that a block can work on at once
  uint32_t blocks_per_multiprocessor = 0;  // of so many tiles, that it holds
  uint32_t registers = 0;                  // of a thread
  uint32_t added_shared_bytes = 0;         // to a block's own, up to kSharedBytesOfABlock

  uint32_t max_threads() const noexcept { return threads_per_tile * max_tiles + more_threads; }
};

// Blocks of a kernel as it stands that a multiprocessor holds, if it holds no others.
using Occupancy = std::function<uint32_t(const Kernel&)>;

// Into how many places each multiprocessor is divided, so that a block of any of these kernels fits into one. The
// kernels of `whole` keep their size, and with it decide; those of `divisible` get as few tiles a block as that takes.
// `registers` are a multiprocessor's.
uint32_t share_out(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible, uint32_t registers,
                   const Occupancy& occupancy);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_PLACES_H
