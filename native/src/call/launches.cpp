#include "call/launches.h"

#include <algorithm>

#include "protocol/call_header.h"

namespace nvrar {
namespace {

uint64_t bytes_of(const Call& call, uint64_t elements) noexcept { return elements * element_bytes(call.data_type); }

}  // namespace

Launches::Launches(const Call& call, const Plan& plan, const protocol::RingLayout& layout, uint32_t rank,
                   uint64_t sequence)
    : send_(call.send),
      recv_(call.recv),
      bytes_(bytes_of(call, call.count)),
      bytes_per_launch_(bytes_of(call, plan.elements_per_launch)),
      count_(plan.launches) {
  same_.layout = layout;
  same_.rank = rank;
  same_.root = static_cast<uint32_t>(call.root);
  same_.send_stride_bytes = bytes_;
  same_.recv_stride_bytes = bytes_;
  same_.partial_parts = call.op == kNoOp ? 0 : element_type(call.data_type).partial_parts;
  same_.header_hash =
      protocol::header_hash({sequence, call.collective, call.data_type, call.op, call.root, call.count,
                             static_cast<uint32_t>(plan.algorithm), plan.packet_kind, plan.elements_per_launch});
}

protocol::Launch Launches::operator[](uint64_t index) const noexcept {
  const uint64_t first = index * bytes_per_launch_;
  protocol::Launch launch = same_;
  // Computed as integers, because the address may be null if a rank has nothing to send or to receive.
  launch.send = reinterpret_cast<const uint8_t*>(send_ + first);
  launch.recv = reinterpret_cast<uint8_t*>(recv_ + first);
  launch.bytes = std::min(bytes_per_launch_, bytes_ - first);
  return launch;
}

}  // namespace nvrar
