// The launches of a call: the arguments of each of them, for every backend.
#ifndef NVRAR_CALL_LAUNCHES_H
#define NVRAR_CALL_LAUNCHES_H

#include "call/call.h"
#include "call/plan.h"
#include "protocol/launch.h"

namespace nvrar {

class Launches {
 public:
  // sequence: the call's number as it is hashed into the header (protocol.md 13).
  Launches(const Call& call, const Plan& plan, const protocol::RingLayout& layout, uint32_t rank, uint64_t sequence);

  uint64_t count() const noexcept { return count_; }
  // Everything except the epoch, which the backend sets.
  protocol::Launch operator[](uint64_t index) const noexcept;

 private:
  const uint64_t send_;
  const uint64_t recv_;
  const uint64_t bytes_;             // of the call
  const uint64_t bytes_per_launch_;  // of all launches but the last
  const uint64_t count_;
  protocol::Launch same_{};  // what is the same in all launches
};

}  // namespace nvrar

#endif  // NVRAR_CALL_LAUNCHES_H
