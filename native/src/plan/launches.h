// The arguments of each launch of a call, for every backend. In a header, because a small call on the CPU takes hardly
// longer than a call of a function in another file.
#ifndef NVRAR_PLAN_LAUNCHES_H
#define NVRAR_PLAN_LAUNCHES_H

#include <algorithm>

#include "call/call.h"
#include "call/fusion.h"
#include "call/top_k.h"
#include "plan/plan.h"
#include "protocol/call_header.h"
#include "protocol/element.h"

namespace nvrar {

class Launches {
 public:
  // sequence is the call's number as the header has it (protocol.md 13).
  Launches(const Call& call, const Plan& plan, const protocol::RingLayout& layout, uint32_t rank,
           uint64_t sequence) noexcept
      : send_(call.send),
        recv_(call.recv),
        count_(plan.launches),
        bytes_(call.count * element_bytes(call.data_type)),
        bytes_per_launch_(plan.elements_per_launch * element_bytes(call.data_type)),
        launch_{.layout = layout,
                .rank = rank,
                .epoch = 0,
                .header_hash = protocol::header_hash(signature_of(call, plan, sequence)),
                .root = static_cast<uint32_t>(call.root),
                .send = nullptr,
                .recv = nullptr,
                .bytes = 0,
                .send_stride_bytes = bytes_,
                .recv_stride_bytes = bytes_,
                .partial_parts = call.op == kNoOp ? 0 : element_type(call.data_type).partial_parts} {}

  uint64_t count() const noexcept { return count_; }
  // Instead of at the call's recv.
  void receive_at(uint8_t* recv) noexcept { recv_ = reinterpret_cast<uint64_t>(recv); }
  // The launch of that index, until the next call. It lacks the epoch, which whoever runs the launch sets.
  protocol::Launch& at(uint64_t index) noexcept {
    const uint64_t first = index * bytes_per_launch_;
    // Added as integers, because the address may be null on a rank that has nothing to send or to receive.
    launch_.send = reinterpret_cast<const uint8_t*>(send_ + first);
    launch_.recv = reinterpret_cast<uint8_t*>(recv_ + first);
    launch_.bytes = std::min(bytes_per_launch_, bytes_ - first);
    return launch_;
  }

 private:
  static protocol::CallSignature signature_of(const Call& call, const Plan& plan, uint64_t sequence) noexcept {
    protocol::CallSignature signature{.sequence = sequence,
                                      .collective = call.collective,
                                      .data_type = call.data_type,
                                      .op = call.op,
                                      .root = call.root,
                                      .count = call.count,
                                      .algorithm = static_cast<uint32_t>(plan.algorithm),
                                      .packet_kind = plan.packet_kind,
                                      .elements_per_launch = plan.elements_per_launch};
    if (call.fusion != nullptr) {
      signature.fusion = call.fusion->form;
      signature.hidden = call.fusion->hidden;
      signature.eps_bits = protocol::float_bits(call.fusion->eps + 0.0F);  // -0 is 0
    }
    if (call.top_k != nullptr) {
      signature.top_k = call.top_k->k;
      signature.rows = call.top_k->rows;
      signature.first_row = call.first_row;
      signature.value_type = call.top_k->data_type;
    }
    return signature;
  }

  const uint64_t send_;
  uint64_t recv_;
  const uint64_t count_;
  const uint64_t bytes_;             // of the call
  const uint64_t bytes_per_launch_;  // of all launches but the last
  protocol::Launch launch_;
};

}  // namespace nvrar

#endif  // NVRAR_PLAN_LAUNCHES_H
