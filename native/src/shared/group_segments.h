// The segments of a group's ranks on this host, as one member maps them: its own, and its peers' after map_peers. On
// every backend the ranks exchange failures and flight records through them.
#ifndef NVRAR_SHARED_GROUP_SEGMENTS_H
#define NVRAR_SHARED_GROUP_SEGMENTS_H

#include <atomic>
#include <vector>

#include "common/tick_clock.h"
#include "shared/shared_segment.h"

namespace nvrar::shared {

class GroupSegments {
 public:
  // rings: the layout of the rings behind the control block; null if the rings are elsewhere. Throws NVRAR_SYSTEM.
  GroupSegments(uint32_t rank, uint32_t world, uint64_t group_hash, const protocol::RingLayout* rings);
  GroupSegments(const GroupSegments&) = delete;
  GroupSegments& operator=(const GroupSegments&) = delete;

  // Tells the peers that the owner's communicator is gone.
  void close() noexcept { own().closed.store(1); }

  uint32_t rank() const noexcept { return rank_; }
  uint32_t world() const noexcept { return world_; }
  SegmentAddress address() const noexcept { return segments_[rank_].address(); }
  // remote: the ranks on other hosts, whose segments cannot be mapped. Throws NVRAR_SYSTEM.
  void map_peers(const std::vector<SegmentAddress>& addresses, const RankSet& remote = {});
  // Valid for the own rank, and after map_peers for every rank.
  ControlBlock& control(uint32_t rank) const noexcept { return segments_[rank].control(); }
  ControlBlock& own() const noexcept { return *own_; }
  protocol::Packet* rings(uint32_t rank) const noexcept { return segments_[rank].rings(); }

  // Stores the failure unless there is one already, and gives the peers the same word. Never blocks. Any thread may
  // call.
  void poison(const Poison& poison) noexcept;
  Poison poisoned() const noexcept { return own().poison.get(); }

  bool mapped(uint32_t rank) const noexcept { return rank == rank_ || peers_mapped(); }
  bool closed(uint32_t rank) const noexcept { return control(rank).closed.load() != 0; }
  bool peers_mapped() const noexcept { return peers_mapped_.load(std::memory_order_acquire); }
  // Whether a mapped rank has ended for good: it has closed, or its process is dead.
  bool gone(uint32_t rank) const noexcept;
  // Whether all mapped peers have; those of other processes only, if elsewhere.
  bool all_gone(bool elsewhere) const noexcept;
  // Whether all mapped ranks of this process have closed.
  bool last_here() const noexcept;
  nvrar_call call_of(uint32_t rank) const noexcept { return control(rank).flight.last(clock_); }
  uint32_t flight_record(uint32_t rank, nvrar_call* out, uint32_t capacity) const noexcept {
    return control(rank).flight.read(clock_, out, capacity);
  }
  // What the own rank has called so far.
  nvrar_statistics statistics(int32_t collective) const noexcept {
    set_rate();
    return own().flight.counters().read(collective);
  }

 private:
  // The longer after the start, the more precise.
  void set_rate() const noexcept { own().flight.counters().set_rate(clock_.look().ns_per_tick()); }

  uint32_t rank_;
  uint32_t world_;
  std::vector<SharedSegment> segments_;
  ControlBlock* own_ = nullptr;
  std::vector<int32_t> pids_;  // 0 for ranks on other hosts
  std::atomic<bool> peers_mapped_{false};
  TickClock clock_;
};

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_GROUP_SEGMENTS_H
