#include "control/group_segments.h"

#include <cerrno>
#include <csignal>

#include "control/doorbell.h"

namespace nvrar::control {

GroupSegments::GroupSegments(uint32_t rank, uint32_t world, uint64_t group_hash, const protocol::RingLayout* rings,
                             uint64_t ring_bytes)
    : rank_(rank), world_(world) {
  segments_[rank_] = SharedSegment::create(rings, rank_, world_, group_hash, ring_bytes);
}

void GroupSegments::map_peers(const std::vector<SegmentAddress>& addresses, uint32_t remote) {
  for (uint32_t rank = 0; rank < world_; ++rank) {
    const bool is_remote = (remote >> rank & 1) != 0;
    pids_[rank] = is_remote ? 0 : addresses[rank].pid;
    if (rank == rank_) continue;
    segments_[rank] = is_remote ? SharedSegment::of_remote(rank, own().group_hash)
                                : SharedSegment::map_peer(addresses[rank], rank, own().group_hash);
  }
  // Sequentially consistent here, in poison() and in poisoned(): if an abort and a connect run concurrently, either the
  // abort sees the peers, or the check of the poison after this store sees the abort.
  peers_mapped_.store(true, std::memory_order_seq_cst);
}

bool GroupSegments::gone(uint32_t rank) const noexcept {
  return closed(rank) || (pids_[rank] != 0 && ::kill(pids_[rank], 0) != 0 && errno == ESRCH);
}

void GroupSegments::poison(const Poison& poison) noexcept {
  uint64_t none = 0;
  const bool first = own().poison.compare_exchange_strong(none, poison.pack(), std::memory_order_seq_cst);
  const uint64_t word = first ? poison.pack() : none;
  wake(own());
  if (!peers_mapped_.load(std::memory_order_seq_cst)) return;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (rank == rank_) continue;
    ControlBlock& peer = control(rank);
    none = 0;
    if (peer.poison.compare_exchange_strong(none, word)) wake(peer);
  }
}

}  // namespace nvrar::control
