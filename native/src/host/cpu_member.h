// One member of a group on the CPU backend: its segment, its peers' segments, and the launches between them.
#ifndef NVRAR_HOST_CPU_MEMBER_H
#define NVRAR_HOST_CPU_MEMBER_H

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "call.h"
#include "host/host_lane.h"
#include "host/point_to_point.h"
#include "host/shared_segment.h"
#include "plan.h"

namespace nvrar::host {

constexpr uint64_t kDefaultRingBytes = uint64_t{1} << 20;

class CpuMember {
 public:
  CpuMember(uint32_t rank, const protocol::Topology& topology, uint64_t ring_bytes, uint64_t timeout_ns,
            uint64_t group_hash);
  // The owner's last word to its peers: it is gone, nobody need wait for it to enter a call.
  ~CpuMember();
  CpuMember(const CpuMember&) = delete;
  CpuMember& operator=(const CpuMember&) = delete;

  SegmentAddress address() const noexcept { return segments_[rank_].address(); }
  void map_peers(const std::vector<SegmentAddress>& addresses);

  // Runs the call to its end. A failure becomes this member's and its peers' poison; returns what the poison says.
  Poison run(const Call& call, const Plan& plan, const nvrar_call& record) noexcept;
  // A call that has nothing to do: its record only.
  void record_empty(const nvrar_call& record) noexcept { own().flight.begin(record, NVRAR_CALL_DONE); }
  // The same of a batch that passed check_batch. Throws std::bad_alloc, and then nothing was done. *result is filled.
  Poison run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence, BatchResult* result);
  // The first failure stays. Peers get the same word. Never blocks; any thread.
  void poison(const Poison& poison) noexcept;
  Poison poisoned() const noexcept { return Poison::unpack(own().poison.load(std::memory_order_seq_cst)); }

  uint64_t waited_ns() const noexcept { return waiter_.waited_ns(); }
  uint64_t timeout_ns() const noexcept { return timeout_ns_; }
  nvrar_call call_of(uint32_t rank) const noexcept { return segments_[rank].control().flight.last(clock_); }
  uint32_t flight_record(uint32_t rank, nvrar_call* out, uint32_t capacity) const noexcept {
    return segments_[rank].control().flight.read(clock_, out, capacity);
  }
  bool mapped(uint32_t rank) const noexcept { return rank == rank_ || peers_mapped_.load(std::memory_order_acquire); }
  bool closed(uint32_t rank) const noexcept { return segments_[rank].control().closed.load() != 0; }
  uint32_t rank() const noexcept { return rank_; }
  uint32_t world() const noexcept { return layout_.topology.world; }
  const protocol::RingLayout& layout() const noexcept { return layout_; }

 private:
  ControlBlock& own() const noexcept { return segments_[rank_].control(); }
  Poison failure_of(const HostLane& lane, uint64_t sequence) const noexcept;
  uint8_t ranks_not_entered() const noexcept;
  uint8_t really_missing(uint8_t late) const noexcept;

  protocol::RingLayout layout_;
  uint32_t rank_;
  uint64_t timeout_ns_;
  uint64_t epoch_ = protocol::first_epoch() - 1;  // of the last launch
  std::array<SharedSegment, protocol::kMaxRanks> segments_;
  std::array<MappedRank, protocol::kMaxRanks> ranks_;
  std::atomic<bool> peers_mapped_{false};
  Waiter waiter_;
  PointToPoint point_to_point_;
  TickClock clock_;
};

}  // namespace nvrar::host

#endif  // NVRAR_HOST_CPU_MEMBER_H
