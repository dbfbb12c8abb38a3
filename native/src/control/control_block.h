// The first pages of a member's segment: its identity, its poison word, its doorbell and its flight record. All fields
// that change are lock-free atomics, because peers in other processes read and write them.
#ifndef NVRAR_CONTROL_CONTROL_BLOCK_H
#define NVRAR_CONTROL_CONTROL_BLOCK_H

#include <nvrar.h>

#include <atomic>
#include <cstdint>

#include "control/flight_record.h"
#include "protocol/ring_layout.h"

namespace nvrar::control {

constexpr uint64_t kSegmentMagic = 0x31304741524E564EULL;
constexpr uint32_t kNonceBytes = 16;
constexpr uint32_t kCacheLineBytes = 64;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics shared between processes must hold no lock");

// A failure packed into one word, so that the first one wins as a whole: its status, the rank where it happened, the
// ranks that it concerns, and its call.
struct Poison {
  nvrar_status status = NVRAR_OK;
  uint32_t origin = 0;
  // Bit r: rank r was missing (NVRAR_TIMEOUT), made a different call (NVRAR_MISMATCH), was lost (NVRAR_PEER_LOST), or
  // left and so ended calls that waited for it (NVRAR_ABORTED).
  uint8_t ranks = 0;
  uint64_t sequence = 0;

  static_assert(protocol::kMaxRanks <= 8, "ranks holds a bit per rank");

  static Poison of_leaving(uint32_t rank, uint64_t sequence) noexcept {
    return {NVRAR_ABORTED, rank, static_cast<uint8_t>(1u << rank), sequence};
  }
  bool is_of_leaving() const noexcept { return status == NVRAR_ABORTED && ranks != 0; }

  uint64_t pack() const noexcept {
    return static_cast<uint64_t>(status) | uint64_t{origin} << 8 | uint64_t{ranks} << 16 | sequence << 24;
  }
  // A word that this library cannot have written counts as a failure, too.
  static Poison unpack(uint64_t word) noexcept {
    const auto status = static_cast<uint32_t>(word & 0xFF);
    const bool is_failure = status != NVRAR_OK && status <= NVRAR_PEER_LOST;
    return {word == 0 || is_failure ? static_cast<nvrar_status>(status) : NVRAR_INTERNAL,
            static_cast<uint32_t>(word >> 8 & 0xFF), static_cast<uint8_t>(word >> 16 & 0xFF), word >> 24};
  }
};

struct ControlBlock {
  uint64_t magic = kSegmentMagic;
  uint64_t segment_bytes = 0;
  uint8_t nonce[kNonceBytes] = {};
  uint32_t rank = 0;
  uint64_t group_hash = 0;  // hash of the group's unique id
  uint64_t owner_base = 0;  // where the owner mapped it; identifies these bytes to the thread sanitizer

  alignas(kCacheLineBytes) std::atomic<uint64_t> poison{0};
  std::atomic<uint32_t> closed{0};  // set when the owner has destroyed its communicator

  // The futex word, and the flag that says whether the owner sleeps and a wake needs a system call.
  alignas(kCacheLineBytes) std::atomic<uint32_t> doorbell{0};
  std::atomic<uint32_t> sleeping{0};

  // The ranks that the owner waits for, a bit per rank, and the time when it last polled. They keep their value if the
  // wait ends without success. A peer whose deadline passes uses them to find out which rank is really missing.
  alignas(kCacheLineBytes) std::atomic<uint32_t> waits_for{0};
  std::atomic<uint64_t> looked_ns{0};

  alignas(kCacheLineBytes) FlightRecord flight;
};
// The rings begin on the next page.
constexpr uint64_t kControlBytes =
    (sizeof(ControlBlock) + protocol::kPageBytes - 1) / protocol::kPageBytes * protocol::kPageBytes;

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_CONTROL_BLOCK_H
