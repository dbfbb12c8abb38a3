// One member of a group on the CPU backend: its rings, its peers' rings, and the launches between them.
#ifndef NVRAR_CPU_CPU_MEMBER_H
#define NVRAR_CPU_CPU_MEMBER_H

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_port.h"
#include "cpu/point_to_point.h"
#include "link/ring_inbox.h"
#include "member/member.h"

namespace nvrar::cpu {

constexpr uint64_t kDefaultRingBytes = uint64_t{1} << 20;

struct CpuMemberConfig : LinkConfig {
  uint32_t rank = 0;
  protocol::Topology topology{};
  uint64_t ring_bytes = 0;  // 0: the default
  uint64_t timeout_ns = 0;
  uint64_t group_hash = 0;
};

class CpuMember final : public Member {
 public:
  explicit CpuMember(const CpuMemberConfig& config);
  ~CpuMember() override;

  // Its launches have one shape, that of the calling thread.
  Plan plan(const Call& call, const TuningTable& tuning) const override {
    return plan_of(call, layout_, tuning, {.linked = linked_});
  }
  void describe(Descriptor* descriptor) const override;
  void map_peers(const std::vector<Descriptor>& descriptors) override;
  // If it throws std::bad_alloc, nothing was done.
  bool run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream) override;
  KeyRoom find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream) override;
  void choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream) override;
  bool run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence, uint64_t stream,
                 BatchResult* result) override;
  void poison(const shared::Poison& poison) noexcept override;
  void update_remote(bool wait) noexcept override;
  nvrar_link link_of(uint32_t rank) const noexcept override {
    return linked_ ? remote_->talk().link_of(rank) : Member::link_of(rank);
  }
  nvrar_wait wait_of(uint32_t rank) const noexcept override { return waits_[rank].read(); }
  const char* refused(uint32_t rank) const noexcept override {
    const link::Link* const link = linked_ ? remote_->links().to(rank) : nullptr;
    return link == nullptr ? nullptr : link->refused();
  }
  uint64_t waited_ns() const noexcept override { return waiter_.waited_ns(); }

 private:
  void map(const std::vector<Descriptor>& descriptors);
  void link(const std::vector<Descriptor>& descriptors, const RankSet& remote);
  link::Links* links() const noexcept { return linked_ ? &remote_->links() : nullptr; }
  uint8_t* room_for_sums(uint64_t bytes);
  void learn_whom_to_blame() noexcept;
  // Runs its launches; false: the member is poisoned.
  template <bool kLinks>
  bool run_launches(const Call& call, const Plan& plan, uint64_t sequence, uint8_t* sums);
  shared::Poison failure_of(WaitResult result, uint32_t waiting_for, Algorithm algorithm, uint64_t sequence) noexcept;
  RankSet ranks_not_entered(Algorithm algorithm, uint64_t sequence) const noexcept;
  RankSet really_missing(const RankSet& late) const noexcept;

  const uint64_t timeout_ns_;
  const LinkConfig link_config_;
  uint64_t epoch_ = protocol::first_epoch() - 1;  // the epoch of the last launch
  protocol::NodeList nodes_;                      // of layout_, once the peers are mapped
  std::vector<MappedRank> ranks_;
  RankNotes notes_;
  std::unique_ptr<link::RingInbox> remote_;  // null without an address
  std::atomic<bool> told_{false};            // whether remote ranks were told that the group has failed
  std::atomic<bool> linked_{false};          // whether there are remote ranks
  std::unique_ptr<WaitCounter[]> waits_;     // for each rank
  Waiter waiter_;
  PointToPoint point_to_point_;
  std::unique_ptr<uint8_t[]> sums_;  // where a fused all-reduce sums its rows: any of its buffers may still be read
  uint64_t sums_bytes_ = 0;
  std::vector<uint64_t> keys_;  // of a top-k: this rank's, those of all ranks, and room for a row of all ranks
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_CPU_MEMBER_H
