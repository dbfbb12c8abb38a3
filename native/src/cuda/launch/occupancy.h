// Limits the blocks of a launch, so that the blocks of all launches that may be on a GPU at once can be resident
// together, whatever their kernels and wherever they are placed (docs/decisions/0012-places-on-a-multiprocessor.md).
#ifndef NVRAR_CUDA_LAUNCH_OCCUPANCY_H
#define NVRAR_CUDA_LAUNCH_OCCUPANCY_H

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/kernels/launch/kernel_args.h"
#include "plan/launch_shape.h"

namespace nvrar::cuda {

// A multiprocessor is divided into cache and shared memory in steps, as the kernel on it needs, and keeps its division
// while a block is on it. If the blocks of a kernel that fit together take all that may be shared memory, every kernel
// needs the same division, the largest, and none of them keeps another one out.
//
// Returns the bytes of a block of a kernel of which `fit` blocks fit but for shared memory, 1 to kPlaces. `bytes` is
// the shared memory of a multiprocessor, and the driver adds `reserved` to each block.
constexpr uint32_t shared_bytes_of_a_block(uint32_t bytes, uint32_t reserved, uint32_t fit) {
  constexpr uint32_t kUnit = 256;  // the driver rounds up
  return bytes / fit / kUnit * kUnit - reserved;
}

// A kernel in the forms that a launch may take.
struct Kernel : KernelShape {
  struct Forms {
    Function any = nullptr;
    Function single = nullptr;  // for blocks that do not repeat; may be null
  };
  Forms forms;
  Forms programmatic;  // for launches that start before the launch before has completed; may be null
  uint32_t blocks_per_multiprocessor = 0;  // that fit, with max_tiles tiles each
  uint32_t registers = 0;                  // of a thread
  uint32_t own_shared_bytes = 0;           // of a block
  uint32_t added_shared_bytes = 0;         // up to shared_bytes_of_a_block

  uint32_t max_threads() const noexcept { return threads_per_tile * max_tiles; }
  Function form(bool is_single, bool is_programmatic) const noexcept {
    const Forms& of = is_programmatic && programmatic.any != nullptr ? programmatic : forms;
    return is_single && of.single != nullptr ? of.single : of.any;
  }
  // Those that are there; one that stands in for another one comes again.
  template <class Use>
  void each_form(Use use) const {
    for (const bool is_single : {false, true}) {
      for (const bool is_programmatic : {false, true}) use(form(is_single, is_programmatic));
    }
  }
};

// The number of blocks of a kernel, at its current size, that a multiprocessor holds if it holds no others.
using Occupancy = std::function<uint32_t(const Kernel&)>;

// What blocks share.
struct Multiprocessor {
  uint32_t registers = 0;
  uint32_t shared_bytes = 0;
  uint32_t reserved_shared_bytes = 0;  // of each block, by the driver
};

// Returns into how many places a multiprocessor is divided, so that a block of any of these kernels fits into one:
// kPlaces at most. The kernels in `whole` keep their block size, which determines the number of places. The kernels in
// `divisible` get as few tiles per block as necessary to fit. All get the shared memory that is added to their own;
// until then it is 0.
uint32_t share_out(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible,
                   const Multiprocessor& multiprocessor, const Occupancy& occupancy);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_OCCUPANCY_H
