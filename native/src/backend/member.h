// One member of a group on some backend, as the communicator sees it.
#ifndef NVRAR_BACKEND_MEMBER_H
#define NVRAR_BACKEND_MEMBER_H

#include <nvrar.h>

#include <memory>
#include <vector>

#include "backend/descriptor.h"
#include "call/batch.h"
#include "call/call.h"
#include "call/plan.h"
#include "control/group_segments.h"

namespace nvrar {

class Member {
 public:
  // Its last word to its peers: it is gone, nobody need wait for it to enter a call.
  virtual ~Member() { segments_->close(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  uint32_t rank() const noexcept { return segments_->rank(); }
  uint32_t world() const noexcept { return segments_->world(); }
  const protocol::RingLayout& layout() const noexcept { return layout_; }
  const control::GroupSegments& segments() const noexcept { return *segments_; }
  // How this member runs a call that has passed check_call.
  Plan plan(const Call& call, const TuningTable& tuning) const {
    Plan plan = make_plan(call, layout_, tuning, plan_limits());
    give_shapes(&plan, call, layout_.topology, kernel_shape(call, plan.algorithm), plan_limits());
    return plan;
  }

  // Fills in what peers need to reach this member's memory.
  virtual void describe(Descriptor* descriptor) const = 0;
  // Throws Error.
  virtual void map_peers(const std::vector<Descriptor>& descriptors) = 0;

  // Runs the call to its end, or enqueues it on the stream. A failure becomes this member's and its peers' poison;
  // returns what the poison says.
  virtual control::Poison run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream) = 0;
  // The same of a batch that passed check_batch. Throws std::bad_alloc, and then nothing was done. *result is filled.
  virtual control::Poison run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence,
                                    uint64_t stream, BatchResult* result) = 0;
  // A call that has nothing to do: its record only.
  virtual void record_empty(const nvrar_call& record) noexcept {
    segments_->own().flight.begin(record, NVRAR_CALL_DONE);
  }

  // Brings the own flight record up to what was enqueued and has ended since.
  virtual void update_record() noexcept {}

  // Also what was enqueued and has failed since.
  virtual control::Poison poisoned() noexcept { return segments_->poisoned(); }
  virtual void poison(const control::Poison& poison) noexcept { segments_->poison(poison); }
  // If a transfer of this member failed after run_batch had returned: its result. status NVRAR_OK if none did.
  virtual BatchResult failed_transfer() noexcept { return {}; }
  // How long the last call has waited.
  virtual uint64_t waited_ns() const noexcept = 0;
  // When no more calls come: whether nothing of this member runs any more; waits for it, at most limit_ns.
  virtual bool quiet(uint64_t /*limit_ns*/) noexcept { return true; }

 protected:
  virtual const PlanLimits& plan_limits() const noexcept = 0;
  virtual KernelShape kernel_shape(const Call& /*call*/, Algorithm /*algorithm*/) const { return {}; }

  // rings_on_host: the segments hold the rings, too.
  Member(uint32_t rank, const protocol::RingLayout& layout, uint64_t group_hash, bool rings_on_host)
      : layout_(layout),
        segments_(std::make_shared<control::GroupSegments>(rank, layout.topology.world, group_hash,
                                                           rings_on_host ? &layout_ : nullptr)) {}

  static std::vector<control::SegmentAddress> segments_of(const std::vector<Descriptor>& descriptors) {
    std::vector<control::SegmentAddress> addresses;
    for (const Descriptor& descriptor : descriptors) addresses.push_back(descriptor.segment);
    return addresses;
  }

  const protocol::RingLayout layout_;
  // Also of those who look after memory that peers may still write to, when this member is gone.
  std::shared_ptr<control::GroupSegments> segments_;
};

}  // namespace nvrar

#endif  // NVRAR_BACKEND_MEMBER_H
