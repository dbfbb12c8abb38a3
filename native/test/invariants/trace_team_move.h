// The Team of a Trace for data movement (protocol/team_move.h): one thread does the work of all workers of a team.
#ifndef NVRAR_TEST_INVARIANTS_TRACE_TEAM_MOVE_H
#define NVRAR_TEST_INVARIANTS_TRACE_TEAM_MOVE_H

#include <algorithm>
#include <string>

#include "invariants/trace_port.h"
#include "protocol/team_move.h"

namespace nvrar::test {

class TraceTeamMove {
 public:
  TraceTeamMove(Trace* trace, uint32_t rank, const protocol::Launch& launch, protocol::Movement movement)
      : trace_(trace), rank_(rank), launch_(launch), parts_{launch, movement}, port_(trace, rank, launch) {}

  bool run() {
    const protocol::FlatRuns runs{launch_.topology()};
    protocol::send_phase(port_, launch_, [&] { protocol::send_parts(*this, runs, parts_); });
    return protocol::check_headers(port_, launch_) && protocol::take_parts(*this, runs, parts_);
  }

  uint32_t rank() const { return rank_; }
  template <class Visit>
  void each_tile(Visit visit) const {
    for (uint32_t j = 0; offset(j) < launch_.bytes; ++j) visit(j);
  }
  template <class Visit>
  void each_peer(Visit visit) const {
    for (uint32_t k = 1; k < world(); ++k) visit((rank_ + k) % world());
  }
  template <class Visit>
  void each_source(Visit visit) const {
    for (uint32_t k = 0; k < world(); ++k) visit((rank_ + k) % world());
  }
  void push(uint32_t peer, uint32_t place, uint32_t j) {
    const uint64_t from = reinterpret_cast<uint64_t>(parts_.to_send(peer)) - kTraceSend + offset(j);
    port_.push_marked(protocol::Peers::one(peer), slot(place), mark_slot(place), value_name(rank_, from), bytes(j),
                      launch_.epoch);
  }
  bool drain(uint32_t source, uint32_t place, uint32_t j) {
    std::string value;
    const uint32_t packets = bytes(j) / protocol::kPacketBytes;
    if (!port_.take_marked(slot(place), mark_slot(place), source, packets, launch_.epoch, &value)) return false;
    store(source, j, value);
    return true;
  }
  void copy(uint32_t j) {
    store(rank_, j, value_name(rank_, reinterpret_cast<uint64_t>(parts_.to_send(rank_)) - kTraceSend + offset(j)));
  }

 private:
  uint32_t world() const { return launch_.topology().world; }
  static uint64_t offset(uint32_t j) { return uint64_t{j} * protocol::MarkedPacket::kRunBytes; }
  uint32_t bytes(uint32_t j) const {
    return static_cast<uint32_t>(std::min<uint64_t>(launch_.bytes - offset(j), protocol::MarkedPacket::kRunBytes));
  }
  uint64_t slot(uint32_t place) const {
    return launch_.layout.slot(protocol::PacketKind::kMarked, launch_.epoch, protocol::Hop::kData, place);
  }
  uint64_t mark_slot(uint32_t place) const {
    return launch_.layout.mark_slot(launch_.epoch, protocol::Hop::kData, place);
  }
  void store(uint32_t source, uint32_t j, const std::string& value) {
    const uint64_t to = reinterpret_cast<uint64_t>(parts_.to_store(source)) - kTraceRecv;
    trace_->store(rank_, to + offset(j), bytes(j), value);
  }

  Trace* trace_;
  uint32_t rank_;
  const protocol::Launch& launch_;
  protocol::Parts parts_;
  TracePort port_;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_INVARIANTS_TRACE_TEAM_MOVE_H
