// The segments of a group's ranks on this host, as one member has them: its own, and its peers' once they are mapped.
// What the ranks tell each other through them, whatever they compute on: who has failed, and what each is doing.
#ifndef NVRAR_CONTROL_GROUP_SEGMENTS_H
#define NVRAR_CONTROL_GROUP_SEGMENTS_H

#include <array>
#include <atomic>
#include <vector>

#include "control/shared_segment.h"
#include "control/tick_clock.h"

namespace nvrar::control {

class GroupSegments {
 public:
  // rings: of those behind the control block; null where they lie elsewhere. Throws NVRAR_SYSTEM.
  GroupSegments(uint32_t rank, uint32_t world, uint64_t group_hash, const protocol::RingLayout* rings);
  GroupSegments(const GroupSegments&) = delete;
  GroupSegments& operator=(const GroupSegments&) = delete;

  // The owner's communicator is gone.
  void close() noexcept { own().closed.store(1); }

  uint32_t rank() const noexcept { return rank_; }
  uint32_t world() const noexcept { return world_; }
  SegmentAddress address() const noexcept { return segments_[rank_].address(); }
  // Throws NVRAR_SYSTEM.
  void map_peers(const std::vector<SegmentAddress>& addresses);
  // Of the own rank, and of each after map_peers.
  ControlBlock& control(uint32_t rank) const noexcept { return segments_[rank].control(); }
  ControlBlock& own() const noexcept { return control(rank_); }
  protocol::Packet* rings(uint32_t rank) const noexcept { return segments_[rank].rings(); }

  // The first failure stays. Peers get the same word. Never blocks; any thread.
  void poison(const Poison& poison) noexcept;
  Poison poisoned() const noexcept { return Poison::unpack(own().poison.load(std::memory_order_seq_cst)); }

  bool mapped(uint32_t rank) const noexcept { return rank == rank_ || peers_mapped_.load(std::memory_order_acquire); }
  bool closed(uint32_t rank) const noexcept { return control(rank).closed.load() != 0; }
  // Whether that mapped rank will do nothing any more: it has closed, or its process is dead.
  bool gone(uint32_t rank) const noexcept;
  nvrar_call call_of(uint32_t rank) const noexcept { return control(rank).flight.last(clock_); }
  uint32_t flight_record(uint32_t rank, nvrar_call* out, uint32_t capacity) const noexcept {
    return control(rank).flight.read(clock_, out, capacity);
  }

 private:
  uint32_t rank_;
  uint32_t world_;
  std::array<SharedSegment, protocol::kMaxRanks> segments_;
  std::array<int32_t, protocol::kMaxRanks> pids_{};
  std::atomic<bool> peers_mapped_{false};
  TickClock clock_;
};

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_GROUP_SEGMENTS_H
