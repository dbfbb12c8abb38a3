// The interface of a group member that the communicator uses, whatever the backend.
#ifndef NVRAR_MEMBER_MEMBER_H
#define NVRAR_MEMBER_MEMBER_H

#include <nvrar.h>

#include <memory>
#include <string>
#include <vector>

#include "call/batch.h"
#include "call/call.h"
#include "call/top_k.h"
#include "common/sha256.h"
#include "member/descriptor.h"
#include "plan/plan.h"
#include "shared/group_segments.h"

namespace nvrar {

// How a member is linked to ranks that share no memory with it.
struct LinkConfig {
  Digest secret{};           // of the group
  std::string link_address;  // "": no links
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  int32_t links = NVRAR_LINKS_BETWEEN_HOSTS;
  uint32_t link_security = NVRAR_LINK_PLAIN;
  uint32_t link_threads = 1;  // of a rank on a GPU,
  uint64_t link_spin_ns = 1;  // ... and for how long they look all the time after something has happened
  uint64_t join_timeout_ns = 0;
};

class Member {
 public:
  // Tells the peers that this member has left, so that none waits for it to enter a call.
  virtual ~Member() { segments_->close(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  uint32_t rank() const noexcept { return segments_->rank(); }
  uint32_t world() const noexcept { return segments_->world(); }
  const protocol::RingLayout& layout() const noexcept { return layout_; }
  const shared::GroupSegments& segments() const noexcept { return *segments_; }
  // NVRAR_ARCHITECTURE_X86_64, or that of a GPU.
  virtual int32_t architecture() const noexcept { return NVRAR_ARCHITECTURE_X86_64; }
  // How this member runs a call that has passed check_call.
  virtual Plan plan(const Call& call, const TuningTable& tuning) const = 0;

  // Fills in the fields that peers need to map this member's memory.
  virtual void describe(Descriptor* descriptor) const = 0;
  // Throws Error.
  virtual void map_peers(const std::vector<Descriptor>& descriptors) = 0;

  // Runs the call to its end, or enqueues it on the stream. A failure poisons this member and its peers. False: it is
  // poisoned.
  virtual bool run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream) = 0;
  // Of a top-k: puts the greatest keys of this rank's part of so many rows, k for each, where an all-gather takes them.
  // Runs to its end, or is enqueued on the stream.
  virtual KeyRoom find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream) = 0;
  // Behind that all-gather: stores the results of these rows.
  virtual void choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream) = 0;
  // Whether the stream only records what is enqueued.
  virtual bool captures(uint64_t /*stream*/) const { return false; }
  // Does the same as run for a batch that has passed check_batch, and fills *result. If it throws std::bad_alloc,
  // nothing was done.
  virtual bool run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence, uint64_t stream,
                         BatchResult* result) = 0;
  // Records a call that has nothing to do.
  virtual void record_empty(const nvrar_call& record) noexcept {
    segments_->own().flight.begin(record, NVRAR_CALL_DONE);
  }

  // Updates this member's flight record with the enqueued calls that have ended since.
  virtual void update_record() noexcept {}
  // Asks the ranks whose memory is not mapped what they are doing; with `wait`, waits a moment for the answers.
  virtual void update_remote(bool /*wait*/) noexcept {}

  // The connection to a rank whose memory is not mapped.
  virtual nvrar_link link_of(uint32_t /*rank*/) const noexcept {
    return {sizeof(nvrar_link), NVRAR_LINK_NONE, "", "", 0, 0};
  }

  // How long this member has waited for a rank.
  virtual nvrar_wait wait_of(uint32_t /*rank*/) const noexcept { return {sizeof(nvrar_wait), 0, 0, 0}; }

  // What was wrong with what such a rank sent, if its connection was ended because of that; else null.
  virtual const char* refused(uint32_t /*rank*/) const noexcept { return nullptr; }

  // Whether this member is poisoned, or enqueued work has failed, of which poisoned() makes the poison: what every call
  // asks.
  bool has_failed() const noexcept {
    return own_poison_.is_set(std::memory_order_seq_cst) ||
           (enqueued_failure_ != nullptr && __atomic_load_n(enqueued_failure_, __ATOMIC_ACQUIRE) != 0);
  }
  // The poison; includes failures of enqueued work.
  virtual shared::Poison poisoned() noexcept { return segments_->poisoned(); }
  virtual void poison(const shared::Poison& poison) noexcept { segments_->poison(poison); }
  // The result of a transfer of this member that failed after run_batch had returned; status NVRAR_OK if none did.
  virtual BatchResult failed_transfer() noexcept { return {}; }
  // How long the last call waited.
  virtual uint64_t waited_ns() const noexcept = 0;
  // Waits until nothing of this member runs any more, at most limit_ns. Called when there are no more calls. Returns
  // whether nothing runs.
  virtual bool quiet(uint64_t /*limit_ns*/) noexcept { return true; }

 protected:
  // rings_on_host: whether the shared segments also have the rings.
  Member(uint32_t rank, const protocol::RingLayout& layout, uint64_t group_hash, bool rings_on_host)
      : layout_(layout),
        segments_(std::make_shared<shared::GroupSegments>(rank, layout.topology.world, group_hash,
                                                          rings_on_host ? &layout_ : nullptr)),
        own_poison_(segments_->own().poison) {}

  static std::vector<shared::SegmentAddress> segments_of(const std::vector<Descriptor>& descriptors) {
    std::vector<shared::SegmentAddress> addresses;
    for (const Descriptor& descriptor : descriptors) addresses.push_back(descriptor.segment);
    return addresses;
  }

  protocol::RingLayout layout_;  // map_peers may change its topology
  // Shared with the owners of memory that peers may still write to after this member is gone.
  std::shared_ptr<shared::GroupSegments> segments_;
  // The word to which enqueued work writes that it has failed; null on the CPU, which enqueues nothing.
  const uint64_t* enqueued_failure_ = nullptr;

 private:
  const shared::SharedPoison& own_poison_;  // in segments_
};

}  // namespace nvrar

#endif  // NVRAR_MEMBER_MEMBER_H
