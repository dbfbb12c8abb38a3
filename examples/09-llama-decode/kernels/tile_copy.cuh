// Copies of tiles of matrices into shared memory by the tensor memory accelerator, and the barriers that tell of them.
//
// A tensor map, made on the host (MatrixMap.java), describes a matrix [rows][columns] of 16-bit elements as blocks of
// 64 columns. A box of it has some blocks, one behind the other, and of each the same rows of 128 bytes. The swizzle
// puts the 16-byte piece p of the row that is row r of shared memory (its address / 128) at piece p ^ (r % 8), so that
// eight rows' pieces of the same number lie in different banks. What a box has beyond the matrix is zero, and counts in
// the bytes that a barrier expects.
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "tile copies are for sm_90 and newer"
#endif

namespace llama {

constexpr uint32_t kBlockColumns = 64;
constexpr uint32_t kTileRowBytes = 128;
// Of tiles in shared memory: the swizzle is a function of the address.
constexpr uint32_t kTileAlignment = 1024;
// A copy that is lost ends the kernel with an error instead of leaving the GPU hanging.
constexpr uint64_t kCopyLimitNs = 20'000'000'000;

struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

__device__ __forceinline__ uint32_t shared_address(const void* of) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(of));
}

// Of one phase after the other: the first has parity 0.
struct Barrier {
  uint64_t state;

  __device__ __forceinline__ void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
  }
  // Arrives, and holds the phase open until copies of that many bytes are there.
  __device__ __forceinline__ void arrive_and_expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)), "r"(bytes)
                 : "memory");
  }
  __device__ __forceinline__ bool is_over(uint32_t parity) {
    uint32_t over;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(over)
                 : "r"(shared_address(&state)), "r"(parity)
                 : "memory");
    return over != 0;
  }
  __device__ __forceinline__ void await(uint32_t parity) {
    if (is_over(parity)) return;
    uint64_t begin = 0;
    for (uint32_t tries = 1; !is_over(parity); ++tries) {
      if (tries % 1024 != 0) continue;
      uint64_t now;
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      if (begin == 0) begin = now;
      if (now - begin > kCopyLimitNs) __trap();
    }
  }
};

// After barriers were initialized, before the block meets: the copies see them.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64_t evict_last_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Begins to copy a box whose first row is `row` and first block of columns `block` to the shared address `to`.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, uint32_t row, uint32_t block,
                                         Barrier& barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2,%3,%4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(block), "r"(shared_address(&barrier.state)), "l"(policy)
      : "memory");
}

// A 16-byte piece of a row of a tile.
__device__ __forceinline__ uint4 load_piece(uint32_t address) {
  uint4 piece;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
               : "r"(address));
  return piece;
}

// The named barrier of some of a block's warps.
__device__ __forceinline__ void meet(uint32_t id, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace llama
