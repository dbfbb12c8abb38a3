// The Team of a Trace (protocol/team.h): one thread does the work of all workers of a team, one run at a time.
#ifndef NVRAR_TEST_INVARIANTS_TRACE_TEAM_H
#define NVRAR_TEST_INVARIANTS_TRACE_TEAM_H

#include <algorithm>
#include <string>
#include <vector>

#include "invariants/trace_port.h"
#include "protocol/call_header.h"
#include "protocol/team.h"

namespace nvrar::test {

template <bool kTwoShot>
class TraceTeam {
 public:
  TraceTeam(Trace* trace, uint32_t rank, const protocol::Launch& launch, bool scatters = false)
      : trace_(trace),
        rank_(rank),
        launch_(launch),
        scatters_(scatters),
        tiles_{{launch.topology()}},
        data_(launch.layout.slot(protocol::PacketKind::kSentinel, launch.epoch, protocol::Hop::kData, 0)),
        values_(world()) {}

  bool run() {
    TracePort port(trace_, rank_, launch_);
    protocol::send_phase(port, launch_, [&] { protocol::send_tiles(*this, tiles_); });
    return protocol::check_headers(port, launch_) && protocol::reduce_tiles(*this, tiles_, launch_.layout, true);
  }

  uint32_t rank() const { return rank_; }
  template <class Visit>
  void each_tile(Visit visit) const {
    for (uint32_t tile = 0; tile * tiles_.tile_bytes() < launch_.bytes; ++tile) visit(tile);
  }
  template <class Visit>
  void each_peer(Visit visit) const {
    for (uint32_t k = 1; k < world(); ++k) visit((rank_ + k) % world());
  }
  template <class Visit>
  void each_source(Visit visit) const {
    for (uint32_t k = 0; k < world(); ++k) visit((rank_ + k) % world());
  }
  void push(uint32_t peer, uint32_t slot, uint32_t, uint32_t run) {
    send(peer, slot, run, value_name(rank_, part_of(peer) + offset(run)));
  }
  bool gather(uint32_t source, uint32_t slot, uint32_t, uint32_t run, bool good) {
    if (source == rank_) values_[source] = value_name(rank_, part_of(rank_) + offset(run));
    return good && (source == rank_ || take(source, slot, run, &values_[source]));
  }
  static bool meet(bool good) { return good; }
  void sum(uint32_t run, bool good) {
    if (!good || !has(run)) return;
    sum_ = trace_->sum_of(0, world(), values_);
    if (!kTwoShot) store(run, sum_);
  }
  void clear(uint32_t slot, uint32_t run) {
    if (has(run)) trace_->clear(rank_, data_ + slot);
  }
  static void take_result() {}
  void give_result(uint32_t to, uint32_t slot, uint32_t run) {
    if (to != rank_) return send(to, slot, run, sum_);
    store(run, sum_);
  }
  bool drain(uint32_t peer, uint32_t slot, uint32_t run) {
    std::string value;
    if (!take(peer, slot, run, &value)) return false;
    clear(slot, run);
    store(run, value);
    return true;
  }
  static void next_tile(uint32_t) {}

 private:
  uint32_t world() const { return launch_.topology().world; }
  static uint64_t offset(uint32_t run) { return uint64_t{run} * protocol::SentinelPacket::kRunBytes; }
  uint64_t part_of(uint32_t rank) const { return scatters_ ? rank * launch_.send_stride_bytes : 0; }
  bool has(uint32_t run) const { return offset(run) < launch_.bytes; }
  uint64_t bytes(uint32_t run) const {
    return std::min<uint64_t>(launch_.bytes - offset(run), protocol::SentinelPacket::kRunBytes);
  }
  uint32_t packets(uint32_t run) const { return static_cast<uint32_t>(bytes(run) / protocol::kPacketBytes); }
  void send(uint32_t peer, uint32_t slot, uint32_t run, const std::string& value) {
    if (has(run)) trace_->send(rank_, peer, data_ + slot, packets(run), launch_.epoch, value);
  }
  bool take(uint32_t source, uint32_t slot, uint32_t run, std::string* value) {
    if (!has(run)) return true;
    if (!trace_->take(rank_, data_ + slot, source, packets(run), launch_.epoch, value)) return false;
    trace_->keep(rank_, data_ + slot);
    return true;
  }
  void store(uint32_t run, const std::string& value) {
    if (has(run)) trace_->store(rank_, offset(run), bytes(run), value);
  }

  Trace* trace_;
  uint32_t rank_;
  const protocol::Launch& launch_;
  const bool scatters_;
  protocol::Tiles<kTwoShot> tiles_;
  uint64_t data_;  // the first data slot of the launch
  std::vector<std::string> values_;
  std::string sum_;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_INVARIANTS_TRACE_TEAM_H
