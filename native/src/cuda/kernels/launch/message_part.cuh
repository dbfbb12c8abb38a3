// The part of a launch's message that a block processes, and with which other blocks. Kernels for teams and pairs count
// tiles and bytes from the beginning of that part.
#pragma once

#include "cuda/kernels/launch/fused_args.h"
#include "kernels/launch/launched.cuh"

namespace nvrar::cuda {

// The whole message, by all blocks but that of the headers.
struct WholeMessage {
  static __device__ __forceinline__ uint32_t header_blocks(const KernelArgs&) { return kHeaderBlocks; }

  __device__ __forceinline__ explicit WholeMessage(const KernelArgs& args)
      : bytes(static_cast<uint32_t>(args.launch.bytes)) {}
  __device__ __forceinline__ uint32_t block() const { return block_index() - kHeaderBlocks; }
  __device__ __forceinline__ uint32_t blocks() const { return grid_blocks() - kHeaderBlocks; }
  // Where the part begins: in the message, and in an area of the rings if each tile has that many slots.
  __device__ __forceinline__ uint32_t begin() const { return 0; }
  __device__ __forceinline__ uint32_t first_slot(uint32_t) const { return 0; }

  uint32_t bytes;
};

// A row, by args.blocks_per_row blocks.
struct OneRow {
  static __device__ __forceinline__ uint32_t header_blocks(const KernelArgs& args) { return of(args).header_blocks; }
  // Only kernels of rows have such a part, and they have such arguments.
  static __device__ __forceinline__ const FusedArgs& of(const KernelArgs& args) {
    return static_cast<const FusedArgs&>(args);
  }

  __device__ __forceinline__ explicit OneRow(const KernelArgs& args)
      : row((block_index() - of(args).header_blocks) / of(args).blocks_per_row), args_(of(args)) {
    const uint32_t left = static_cast<uint32_t>(args.launch.bytes) - begin();
    bytes = left < args_.row_bytes ? left : args_.row_bytes;
  }
  __device__ __forceinline__ uint32_t block() const {
    return block_index() - args_.header_blocks - row * args_.blocks_per_row;
  }
  __device__ __forceinline__ uint32_t blocks() const { return args_.blocks_per_row; }
  __device__ __forceinline__ uint32_t begin() const { return row * args_.row_bytes; }
  __device__ __forceinline__ uint32_t first_slot(uint32_t slots_of_a_tile) const {
    return row * args_.tiles_per_row * slots_of_a_tile;
  }

  uint32_t bytes;
  uint32_t row;

 private:
  const FusedArgs& args_;
};

}  // namespace nvrar::cuda
