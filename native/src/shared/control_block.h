// The first pages of a member's segment: its identity, its poison word, its doorbell and its flight record. All fields
// that change are lock-free atomics, because peers in other processes read and write them.
#ifndef NVRAR_SHARED_CONTROL_BLOCK_H
#define NVRAR_SHARED_CONTROL_BLOCK_H

#include <nvrar.h>

#include <atomic>
#include <cstdint>

#include "common/rank_set.h"
#include "protocol/ring_layout.h"
#include "shared/flight_record.h"

namespace nvrar::shared {

constexpr uint64_t kSegmentMagic = 0x31304741524E564EULL;
constexpr uint32_t kNonceBytes = 16;
constexpr uint32_t kCacheLineBytes = 64;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics shared between processes must hold no lock");

// A failure: its status, the rank where it happened, the ranks that it concerns, and its call.
struct Poison {
  nvrar_status status = NVRAR_OK;
  uint32_t origin = 0;
  // Those that were missing (NVRAR_TIMEOUT), made a different call (NVRAR_MISMATCH), were lost (NVRAR_PEER_LOST), or
  // left and so ended calls that waited for them (NVRAR_ABORTED).
  RankSet ranks{};
  uint64_t sequence = 0;

  static Poison of_leaving(uint32_t rank, uint64_t sequence) noexcept {
    return {NVRAR_ABORTED, rank, RankSet::of(rank), sequence};
  }
  bool is_of_leaving() const noexcept { return status == NVRAR_ABORTED && !ranks.empty(); }

  // All but the ranks in one word, which is not 0 for a failure.
  uint64_t word() const noexcept { return static_cast<uint64_t>(status) | uint64_t{origin} << 8 | sequence << 24; }
  // A word that this library cannot have written counts as a failure, too.
  static Poison of(uint64_t word, const RankSet& ranks) noexcept {
    const auto status = static_cast<uint32_t>(word & 0xFF);
    const bool is_failure = status != NVRAR_OK && status <= NVRAR_PEER_LOST;
    return {word == 0 || is_failure ? static_cast<nvrar_status>(status) : NVRAR_INTERNAL,
            static_cast<uint32_t>(word >> 8 & 0xFFFF), ranks, word >> 24};
  }
};
static_assert(protocol::kMaxWorld == NVRAR_MAX_WORLD_SIZE && protocol::kMaxWorld <= 0x10000,
              "a word has room for every rank");

// A set of ranks that other threads and processes read while it changes.
class SharedRankSet {
 public:
  void store(const RankSet& ranks) noexcept {
    for (uint32_t i = 0; i < RankSet::kWords; ++i) words_[i].store(ranks.words()[i], std::memory_order_release);
  }
  RankSet load() const noexcept {
    RankSet::Words words;
    for (uint32_t i = 0; i < RankSet::kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
    return RankSet(words);
  }

 private:
  std::atomic<uint64_t> words_[RankSet::kWords] = {};
};

// The first failure. Its word is stored at once, so that the first one wins as a whole; its ranks follow.
class SharedPoison {
 public:
  // False: there is one already.
  bool set(const Poison& poison) noexcept {
    uint64_t none = 0;
    if (!word_.compare_exchange_strong(none, poison.word(), std::memory_order_seq_cst)) return false;
    ranks_.store(poison.ranks);
    has_ranks_.store(1, std::memory_order_release);
    return true;
  }
  bool is_set(std::memory_order order = std::memory_order_acquire) const noexcept { return word_.load(order) != 0; }
  // Waits a moment for the ranks; they are missing if whoever found the failure was killed just then.
  Poison get() const noexcept;

 private:
  std::atomic<uint64_t> word_{0};
  std::atomic<uint32_t> has_ranks_{0};
  SharedRankSet ranks_;
};

struct ControlBlock {
  uint64_t magic = kSegmentMagic;
  uint64_t segment_bytes = 0;
  uint8_t nonce[kNonceBytes] = {};
  uint32_t rank = 0;
  uint64_t group_hash = 0;  // hash of the group's unique id
  uint64_t owner_base = 0;  // where the owner mapped it; identifies these bytes to the thread sanitizer

  alignas(kCacheLineBytes) SharedPoison poison;
  std::atomic<uint32_t> closed{0};  // set when the owner has destroyed its communicator

  // The futex word, and the flag that says whether the owner sleeps and a wake needs a system call.
  alignas(kCacheLineBytes) std::atomic<uint32_t> doorbell{0};
  std::atomic<uint32_t> sleeping{0};

  // The ranks that the owner waits for, and the time when it last polled. They keep their value if the wait ends
  // without success. A peer whose deadline passes uses them to find out which rank is really missing.
  alignas(kCacheLineBytes) SharedRankSet waits_for;
  std::atomic<uint64_t> looked_ns{0};

  alignas(kCacheLineBytes) FlightRecord flight;
};
// The rings begin on the next page.
constexpr uint64_t kControlBytes =
    (sizeof(ControlBlock) + protocol::kPageBytes - 1) / protocol::kPageBytes * protocol::kPageBytes;

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_CONTROL_BLOCK_H
