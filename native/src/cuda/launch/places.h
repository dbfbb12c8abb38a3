// Limits the blocks of a launch, so that the blocks of all launches that may be on a GPU at once can be resident
// together, whatever their kernels and wherever they are placed (docs/decisions/0012-places-on-a-multiprocessor.md).
#ifndef NVRAR_CUDA_LAUNCH_PLACES_H
#define NVRAR_CUDA_LAUNCH_PLACES_H

#include <cstdint>
#include <functional>
#include <vector>

#include "call/launch_shape.h"
#include "cuda/driver/driver.h"

namespace nvrar::cuda {

// A multiprocessor is divided into cache and shared memory as its kernels prefer, in steps of 8, 16, 32, 64 KiB and so
// on of shared memory, and keeps its division while a block is on it. With the KiB that the driver adds to each block,
// a block of this size does not fit into the steps up to 32 KiB. A smaller block could start beside another program's
// short kernel, which mostly has one of those, and then preserve a division that keeps other blocks of this library
// out.
constexpr uint32_t kSharedBytesOfABlock = 63 << 9;

// A kernel in the forms that a launch may take.
struct Kernel : KernelShape {
  struct Forms {
    Function any = nullptr;
    Function single = nullptr;  // for blocks that do not repeat; may be null
  };
  Forms forms;
  Forms programmatic;     // for launches that start before the launch before has completed; may be null
  bool in_order = false;  // a block waits only for blocks of its index, and sends before it waits
  uint32_t blocks_per_multiprocessor = 0;  // that fit, with max_tiles tiles each
  uint32_t registers = 0;                  // of a thread
  uint32_t added_shared_bytes = 0;         // added to a block's own, up to kSharedBytesOfABlock

  uint32_t max_threads() const noexcept { return threads_per_tile * max_tiles; }
  Function form(bool is_single, bool is_programmatic) const noexcept {
    const Forms& of = is_programmatic && programmatic.any != nullptr ? programmatic : forms;
    return is_single && of.single != nullptr ? of.single : of.any;
  }
};

// The number of blocks of a kernel, at its current size, that a multiprocessor holds if it holds no others.
using Occupancy = std::function<uint32_t(const Kernel&)>;

// Returns into how many places a multiprocessor is divided, so that a block of any of these kernels fits into one. The
// kernels in `whole` keep their block size, which determines the number of places. The kernels in `divisible` get as
// few tiles per block as necessary to fit. `registers` is the number of registers of a multiprocessor.
uint32_t share_out(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible, uint32_t registers,
                   const Occupancy& occupancy);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_PLACES_H
