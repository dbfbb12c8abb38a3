#include "cpu/cpu_member.h"

#include <unistd.h>

#include "call/launches.h"
#include "cpu/cpu_launch.h"
#include "cpu/float_control.h"

namespace nvrar::cpu {
using protocol::EpochPacket;

CpuMember::CpuMember(uint32_t rank, const protocol::Topology& topology, uint64_t ring_bytes, uint64_t timeout_ns,
                     uint64_t group_hash)
    : Member(rank, {ring_bytes == 0 ? kDefaultRingBytes : ring_bytes, topology}, group_hash, true),
      timeout_ns_(timeout_ns) {
  control::ControlBlock& own = segments_->own();
  ranks_[rank] = {&own, segments_->rings(rank), own.owner_base + control::kControlBytes};
  waiter_ = Waiter(&own, topology.world, timeout_ns);
  point_to_point_ = PointToPoint(layout_, rank);
}

void CpuMember::map_peers(const std::vector<Descriptor>& descriptors) {
  segments_->map_peers(segments_of(descriptors));
  for (uint32_t peer = 0; peer < world(); ++peer) {
    if (peer == rank()) continue;
    control::ControlBlock& control = segments_->control(peer);
    const bool same_process = descriptors[peer].segment.pid == ::getpid();
    const uint64_t base = same_process ? control.owner_base : reinterpret_cast<uint64_t>(&control);
    ranks_[peer] = {&control, segments_->rings(peer), base + control::kControlBytes};
  }
}

control::Poison CpuMember::run(const Call& call, const Plan& plan, const nvrar_call& record,
                               uint64_t /*stream*/) noexcept {
  const FloatControl same_on_all_ranks;
  control::FlightRecord& flight = segments_->own().flight;
  const uint64_t sequence = record.sequence;
  const uint64_t number = flight.begin(record);
  const Reduction* const reduction = call.op == kNoOp ? nullptr : &reduction_of(call.data_type, call.op);
  CpuPort port(ranks_.data(), rank(), layout_.topology, &waiter_, reduction);
  Launches launches(call, plan, layout_, rank(), sequence);
  for (uint64_t i = 0; i < launches.count(); ++i) {
    // A call that never waits must detect an abort, too.
    if (segments_->own().poison.load(std::memory_order_acquire) != 0 &&
        !protocol::planted(protocol::Defect::kIgnoredPoison)) {
      flight.end(number, NVRAR_CALL_FAILED);
      return poisoned();
    }
    ++epoch_;
    waiter_.restart();
    if (protocol::planted(protocol::Defect::kShortEpochs)) epoch_ = static_cast<uint32_t>(epoch_);
    protocol::Launch& launch = launches.at(i);
    launch.epoch = epoch_;
    if (!run_launch(port, plan, launch)) {
      const control::Poison first_failure = failure_of(port, sequence);
      poison(first_failure);
      flight.end(number, NVRAR_CALL_FAILED);
      return poisoned();
    }
  }
  flight.end(number, NVRAR_CALL_DONE);
  return {};
}

control::Poison CpuMember::run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence,
                                     uint64_t /*stream*/, BatchResult* result) {
  point_to_point_.begin(transfers, count, group_sequence);
  waiter_.restart();
  TransferPort port(ranks_.data(), rank());
  *result = point_to_point_.run(port, waiter_, segments_->own());
  if (result->status == NVRAR_OK) return {};
  if (result->status == NVRAR_TIMEOUT) result->ranks = really_missing(result->ranks);
  if (result->status != NVRAR_ABORTED) poison({result->status, rank(), result->ranks, result->call.sequence});
  return poisoned();
}

control::Poison CpuMember::failure_of(const CpuPort& port, uint64_t sequence) const noexcept {
  // A mismatch explains a time-out (a rank that detected the mismatch first has exited the call), but not the other way
  // round.
  if (port.differing() != 0) return {NVRAR_MISMATCH, rank(), port.differing(), sequence};
  if (port.result() == WaitResult::kPoisoned) return segments_->poisoned();
  const auto waited = static_cast<uint8_t>(1u << port.waiting_for());
  const auto late = static_cast<uint8_t>(ranks_not_entered() | waited);
  return {NVRAR_TIMEOUT, rank(), really_missing(late), sequence};
}

// A late rank may itself be waiting, for an owner's result, another node's sum or a peer's transfer. Then the ranks
// that it waits for are missing instead, and so on, down to ranks that do not wait.
uint8_t CpuMember::really_missing(uint8_t late) const noexcept {
  const uint64_t now_ns = control::monotonic_ns();
  uint8_t missing = 0;
  auto seen = static_cast<uint8_t>(late | 1u << this->rank());
  for (uint8_t open = late; open != 0;) {
    const auto rank = static_cast<uint32_t>(__builtin_ctz(open));
    open = static_cast<uint8_t>(open & (open - 1));
    const control::ControlBlock& control = segments_->control(rank);
    const uint32_t waits_for = control.waits_for.load(std::memory_order_acquire) & ((1u << world()) - 1);
    const uint64_t looked_ns = control.looked_ns.load(std::memory_order_acquire);
    if (waits_for == 0 || looked_ns + Waiter::fresh_ns(timeout_ns_) <= now_ns) {
      missing |= static_cast<uint8_t>(1u << rank);
    } else {
      open |= static_cast<uint8_t>(waits_for & ~uint32_t{seen});
      seen |= static_cast<uint8_t>(waits_for);
    }
  }
  return missing != 0 ? missing : late;
}

uint8_t CpuMember::ranks_not_entered() const noexcept {
  uint8_t missing = 0;
  for (uint32_t source = 0; source < world(); ++source) {
    if (source == rank()) continue;
    const protocol::Packet header =
        load_packet(ranks_[rank()].rings + protocol::RingLayout::header_slot(epoch_, source));
    if (!EpochPacket::arrived(header, epoch_)) missing |= static_cast<uint8_t>(1u << source);
  }
  return missing;
}

}  // namespace nvrar::cpu
