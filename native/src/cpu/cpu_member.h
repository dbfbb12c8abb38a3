// One member of a group on the CPU backend: its rings, its peers' rings, and the launches between them.
#ifndef NVRAR_CPU_CPU_MEMBER_H
#define NVRAR_CPU_CPU_MEMBER_H

#include <array>
#include <vector>

#include "backend/member.h"
#include "cpu/cpu_port.h"
#include "cpu/point_to_point.h"

namespace nvrar::cpu {

constexpr uint64_t kDefaultRingBytes = uint64_t{1} << 20;

class CpuMember final : public Member {
 public:
  CpuMember(uint32_t rank, const protocol::Topology& topology, uint64_t ring_bytes, uint64_t timeout_ns,
            uint64_t group_hash);

  // Its launches have one shape, that of the calling thread.
  Plan plan(const Call& call, const TuningTable& tuning) const override {
    return make_plan(call, layout_, tuning, kCpuPlanLimits);
  }
  void describe(Descriptor* descriptor) const override { descriptor->segment = segments_->address(); }
  void map_peers(const std::vector<Descriptor>& descriptors) override;
  control::Poison run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream) noexcept override;
  control::Poison run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence, uint64_t stream,
                            BatchResult* result) override;
  uint64_t waited_ns() const noexcept override { return waiter_.waited_ns(); }

 private:
  control::Poison failure_of(const CpuPort& port, uint64_t sequence) const noexcept;
  uint8_t ranks_not_entered() const noexcept;
  uint8_t really_missing(uint8_t late) const noexcept;

  const uint64_t timeout_ns_;
  uint64_t epoch_ = protocol::first_epoch() - 1;  // the epoch of the last launch
  std::array<MappedRank, protocol::kMaxRanks> ranks_;
  Waiter waiter_;
  PointToPoint point_to_point_;
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_CPU_MEMBER_H
