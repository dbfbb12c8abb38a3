// The first page of a member's segment: who it is, whether it is poisoned, how to wake it, what it does. All fields
// that change are lock-free atomics, because peers of other processes read and write them.
#ifndef NVRAR_HOST_CONTROL_BLOCK_H
#define NVRAR_HOST_CONTROL_BLOCK_H

#include <nvrar.h>

#include <atomic>
#include <cstdint>

#include "call.h"
#include "protocol/ring_layout.h"

namespace nvrar::host {

constexpr uint64_t kSegmentMagic = 0x31304741524E564EULL;
constexpr uint32_t kNonceBytes = 16;
constexpr uint32_t kCacheLineBytes = 64;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics shared between processes must hold no lock");

// One word, so that the first failure wins whole: status, the rank where it happened, the ranks it is about, its call.
struct Poison {
  nvrar_status status = NVRAR_OK;
  uint32_t origin = 0;
  uint8_t ranks = 0;  // bit r: rank r was missing (NVRAR_TIMEOUT) or differed (NVRAR_MISMATCH)
  uint64_t sequence = 0;

  static_assert(protocol::kMaxRanks <= 8, "ranks holds a bit per rank");

  uint64_t pack() const noexcept {
    return static_cast<uint64_t>(status) | uint64_t{origin} << 8 | uint64_t{ranks} << 16 | sequence << 24;
  }
  static Poison unpack(uint64_t word) noexcept {
    return {static_cast<nvrar_status>(word & 0xFF), static_cast<uint32_t>(word >> 8 & 0xFF),
            static_cast<uint8_t>(word >> 16 & 0xFF), word >> 24};
  }
};

// A seqlock of one writer. Its fields are stored with release and read with acquire instead of by fences, which the
// thread sanitizer cannot follow; on x86-64 both are plain moves.
class CallRecord {
 public:
  void begin(const Call& call, uint64_t sequence, int32_t state) noexcept;
  void end(int32_t state) noexcept { state_.store(state, std::memory_order_release); }
  // A writer that died half way leaves an odd version: then what is there is returned after a few tries.
  nvrar_call read() const noexcept;

 private:
  std::atomic<uint32_t> version_{0};
  std::atomic<int32_t> state_{NVRAR_CALL_NONE};
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> count_{0};
  std::atomic<int32_t> collective_{0};
  std::atomic<int32_t> data_type_{kNoType};
  std::atomic<int32_t> op_{kNoOp};
  std::atomic<int32_t> root_{kNoRoot};
};

struct ControlBlock {
  uint64_t magic = kSegmentMagic;
  uint64_t segment_bytes = 0;
  uint8_t nonce[kNonceBytes] = {};
  uint32_t abi_version = 0;
  uint32_t rank = 0;
  uint64_t owner_base = 0;  // where the owner mapped it: the thread sanitizer's name for these bytes

  alignas(kCacheLineBytes) std::atomic<uint64_t> poison{0};
  std::atomic<uint32_t> closed{0};  // the owner has destroyed its communicator

  // The futex word and the flag that says whether a wake is worth a system call.
  alignas(kCacheLineBytes) std::atomic<uint32_t> doorbell{0};
  std::atomic<uint32_t> sleeping{0};

  alignas(kCacheLineBytes) CallRecord record;
};
static_assert(sizeof(ControlBlock) <= protocol::kPageBytes, "the rings begin on the next page");

}  // namespace nvrar::host

#endif  // NVRAR_HOST_CONTROL_BLOCK_H
