// The Port of a Trace: runs and partial sums are represented by descriptions of their contents.
#ifndef NVRAR_TEST_INVARIANTS_TRACE_PORT_H
#define NVRAR_TEST_INVARIANTS_TRACE_PORT_H

#include <functional>

#include "invariants/trace.h"

namespace nvrar::test {

// Never read or written: a value's name is its distance from here.
constexpr uint64_t kTraceSend = uint64_t{1} << 32;
constexpr uint64_t kTraceRecv = uint64_t{1} << 40;

inline std::string value_name(uint32_t rank, uint64_t offset) {
  return std::to_string(rank) + "@" + std::to_string(offset);
}

class TracePort {
 public:
  using Run = std::string;
  using Partial = std::string;

  TracePort(Trace* trace, uint32_t rank, const protocol::Launch& launch)
      : trace_(trace), rank_(rank), launch_(launch) {}

  static constexpr uint64_t worker() { return 0; }
  static constexpr uint64_t workers() { return 1; }

  template <class Packets>
  Run load(const uint8_t* from, uint32_t) {
    return value_name(rank_, reinterpret_cast<uint64_t>(from) - kTraceSend);
  }
  template <class Packets>
  void push(const protocol::Peers& peers, uint64_t slot, const Run& run, uint32_t bytes, uint64_t epoch) {
    for (uint32_t i = 0; i < peers.count(); ++i) {
      trace_->send(rank_, peers[i], slot, packets_of<Packets>(bytes), epoch, run);
    }
  }
  template <class Packets>
  bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch) {
    std::string value;
    if (!trace_->take(rank_, slot, source, packets_of<Packets>(bytes), epoch, &value)) return false;
    store(to, bytes, value);
    return true;
  }
  template <class Packets>
  bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch, Run* run) {
    if (!trace_->take(rank_, slot, source, packets_of<Packets>(bytes), epoch, run)) return false;
    store(to, bytes, *run);
    return true;
  }
  // Whether a run has a mark depends on its data: here every other run has one.
  static bool has_mark(const Run& run) { return std::hash<std::string>{}(run) % 2 == 0; }
  void push_marked(const protocol::Peers& peers, uint64_t slot, uint64_t mark_slot, const Run& run, uint32_t bytes,
                   uint64_t epoch) {
    push<protocol::MarkedPacket>(peers, slot, run, bytes, epoch);
    for (uint32_t i = 0; i < peers.count() && has_mark(run); ++i) {
      trace_->send(rank_, peers[i], mark_slot, 1, epoch, run + " mark");
    }
  }
  bool drain_marked(uint64_t slot, uint64_t mark_slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch) {
    std::string value;
    if (!take_marked(slot, mark_slot, source, packets_of<protocol::MarkedPacket>(bytes), epoch, &value)) return false;
    store(to, bytes, value);
    return true;
  }
  bool take_marked(uint64_t slot, uint64_t mark_slot, uint32_t source, uint32_t packets, uint64_t epoch, Run* value) {
    if (!trace_->take(rank_, slot, source, packets, epoch, value)) return false;
    std::string mark;
    if (!has_mark(*value)) return true;
    if (!trace_->take(rank_, mark_slot, source, 1, epoch, &mark)) return false;
    if (mark != *value + " mark") *value += " with the mark of " + mark;
    return true;
  }
  template <class Packets>
  bool reduce(const protocol::Sources& sources, const Run& own, uint8_t* to, uint32_t bytes, uint64_t epoch,
              Run* result) {
    std::vector<std::string> values;
    if (!gather<Packets>(sources, own, bytes, epoch, &values)) return false;
    *result = trace_->sum_of(sources.first, sources.count, values);
    store(to, bytes, *result);
    return true;
  }
  template <class Packets>
  bool node_sum(const protocol::Sources& sources, const Run& own, uint32_t bytes, uint64_t epoch, Partial* sum) {
    std::vector<std::string> values;
    if (!gather<Packets>(sources, own, bytes, epoch, &values)) return false;
    *sum = trace_->sum_of(sources.first, sources.count, values);
    return true;
  }
  template <class Packets>
  void push_partial(uint32_t peer, uint64_t slot, const Partial& partial, uint32_t bytes, uint64_t epoch) {
    each_partial_run<Packets>(bytes, [&](uint64_t first, uint32_t packets) {
      trace_->send(rank_, peer, slot + first, packets, epoch, partial);
      return true;
    });
  }
  template <class Packets>
  bool take_partial(uint64_t slot, uint32_t source, uint32_t bytes, uint64_t epoch, Partial* partial) {
    return each_partial_run<Packets>(bytes, [&](uint64_t first, uint32_t packets) {
      return trace_->take(rank_, slot + first, source, packets, epoch, partial);
    });
  }
  void finish(const Partial* of_nodes, uint8_t* to, uint32_t bytes, Run* result) {
    *result = Trace::tree_of({of_nodes, of_nodes + launch_.topology().nodes()});
    store(to, bytes, *result);
  }
  void combine(Partial* sum, const Partial& upper, uint32_t) { *sum = Trace::pair_of(*sum, upper); }
  void round(const Partial& sum, uint8_t* to, uint32_t bytes, Run* result) {
    *result = sum;
    store(to, bytes, *result);
  }
  void soon_pushed(const protocol::Peers&, uint64_t) {}
  template <class Packets>
  void soon_taken(uint64_t) {}

  void put(uint32_t peer, uint64_t slot, protocol::Packet packet) {
    trace_->send(rank_, peer, slot, 1, packet[2] | uint64_t{packet[3]} << 32, "header");
  }
  template <class Packets>
  bool take(uint64_t slot, uint32_t source, uint64_t epoch, protocol::Packet* packet) {
    std::string value;
    *packet = protocol::Packet{launch_.header_hash, 0, 0, 0};
    return trace_->take(rank_, slot, source, 1, epoch, &value);
  }
  void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    store(to, bytes, value_name(rank_, reinterpret_cast<uint64_t>(from) - kTraceSend));
  }
  void sent() { trace_->sent(rank_); }
  void sent_within_node() { sent(); }
  void differ(uint32_t) {}

 private:
  template <class Packets>
  static uint32_t packets_of(uint32_t bytes) {
    return (bytes + Packets::kPayloadBytes - 1) / Packets::kPayloadBytes;
  }
  template <class Packets>
  bool gather(const protocol::Sources& sources, const Run& own, uint32_t bytes, uint64_t epoch,
              std::vector<std::string>* values) {
    for (uint32_t i = 0; i < sources.count; ++i) {
      values->push_back(own);
      if (i != sources.own && !trace_->take(rank_, sources.slot_of(i), sources.first + i, packets_of<Packets>(bytes),
                                            epoch, &values->back())) {
        return false;
      }
    }
    return true;
  }
  template <class Packets, class Visit>
  bool each_partial_run(uint32_t bytes, Visit visit) {
    const uint32_t vectors = (bytes + protocol::kPacketBytes - 1) / protocol::kPacketBytes;
    const uint32_t packets = vectors * launch_.partial_parts * protocol::kPacketBytes / Packets::kPayloadBytes;
    for (uint32_t first = 0; first < packets; first += protocol::kRunPackets) {
      if (!visit(first, std::min(packets - first, protocol::kRunPackets))) return false;
    }
    return true;
  }
  void store(const uint8_t* to, uint64_t bytes, const std::string& value) {
    trace_->store(rank_, reinterpret_cast<uint64_t>(to) - kTraceRecv, bytes, value);
  }

  Trace* trace_;
  uint32_t rank_;
  const protocol::Launch& launch_;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_INVARIANTS_TRACE_PORT_H
