#include "shared/group_segments.h"

#include <cerrno>
#include <csignal>

#include "shared/doorbell.h"

namespace nvrar::shared {

GroupSegments::GroupSegments(uint32_t rank, uint32_t world, uint64_t group_hash, const protocol::RingLayout* rings)
    : rank_(rank), world_(world), segments_(world), pids_(world) {
  // Of a group that is larger than a node and not divided on this host, no more ranks can be here.
  const bool spans = rings != nullptr && rings->topology.is_large() && rings->topology.is_one_node();
  segments_[rank_] = SharedSegment::create(rings, rank_, spans ? protocol::kMaxRanks : world_, group_hash);
  own_ = &control(rank_);
}

void GroupSegments::map_peers(const std::vector<SegmentAddress>& addresses, const RankSet& remote) {
  // A page fault in a call would cost more than the call. In a large group on one host, the tables of all pages of all
  // ranks would take more memory than the rings, and a rank uses few of them often.
  const bool populated = world_ <= protocol::kMaxRanks;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    const bool is_remote = remote.has(rank);
    pids_[rank] = is_remote ? 0 : addresses[rank].pid;
    if (rank == rank_) continue;
    segments_[rank] = is_remote ? SharedSegment::of_remote(rank, own().group_hash)
                                : SharedSegment::map_peer(addresses[rank], rank, own().group_hash, populated);
  }
  set_rate();
  // Sequentially consistent here, in poison() and in poisoned(): if an abort and a connect run concurrently, either the
  // abort sees the peers, or the check of the poison after this store sees the abort.
  peers_mapped_.store(true, std::memory_order_seq_cst);
  if (const Poison before = poisoned(); before.status != NVRAR_OK) poison(before);
}

bool GroupSegments::gone(uint32_t rank) const noexcept {
  return closed(rank) || (pids_[rank] != 0 && ::kill(pids_[rank], 0) != 0 && errno == ESRCH);
}

bool GroupSegments::all_gone(bool elsewhere) const noexcept {
  if (!peers_mapped()) return true;
  for (uint32_t peer = 0; peer < world_; ++peer) {
    // A rank on another host has nothing mapped.
    if (peer == rank_ || pids_[peer] == 0 || (elsewhere && pids_[peer] == pids_[rank_])) continue;
    if (!gone(peer)) return false;
  }
  return true;
}

bool GroupSegments::last_here() const noexcept {
  if (!peers_mapped()) return true;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (pids_[rank] == pids_[rank_] && !closed(rank)) return false;
  }
  return true;
}

void GroupSegments::poison(const Poison& poison) noexcept {
  const Poison first = own().poison.set(poison) ? poison : own().poison.get();
  wake(own());
  if (!peers_mapped_.load(std::memory_order_seq_cst)) return;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (rank == rank_) continue;
    ControlBlock& peer = control(rank);
    if (peer.poison.set(first)) wake(peer);
  }
}

}  // namespace nvrar::shared
