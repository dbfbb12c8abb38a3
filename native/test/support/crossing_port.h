// The Port of a host thread in the place of a warp of a kernel whose group spans nodes (protocol/crossing_steps.h):
// ranks of its node share memory, and what goes to other nodes crosses by chunks.
#ifndef NVRAR_TEST_SUPPORT_CROSSING_PORT_H
#define NVRAR_TEST_SUPPORT_CROSSING_PORT_H

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>

#include "cpu/cpu_port.h"
#include "protocol/crossing_steps.h"
#include "protocol/point_to_point.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace nvrar::test {

// Stores that the thread sanitizer does not look at. It sees no order between what one thread of a proxy has read, and
// a kernel that stores there again: the peer's answer, behind which the kernel does, comes by another thread's socket.
// With one thread it sees the order, so nothing is hidden from it then.
class Unseen {
 public:
  explicit Unseen(bool is_unseen) : is_unseen_(is_unseen) {
#if defined(__SANITIZE_THREAD__)
    if (is_unseen_) AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~Unseen() {
#if defined(__SANITIZE_THREAD__)
    if (is_unseen_) AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  [[maybe_unused]] const bool is_unseen_;
};

struct HostAccess {
  static uint32_t add(uint32_t* counter, uint32_t by) { return __atomic_fetch_add(counter, by, __ATOMIC_ACQ_REL); }
  static void ring(uint64_t* bell, uint64_t epoch) { __atomic_store_n(bell, epoch, __ATOMIC_RELEASE); }
  static uint64_t look(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
};

// The threads that share chunks, in the place of a block.
class Team {
 public:
  explicit Team(uint32_t members) : barrier_(members) {}
  bool all(bool good) {
    if (!good) good_ = false;
    barrier_.arrive_and_wait();
    const bool all_good = good_;
    barrier_.arrive_and_wait();
    return all_good;
  }

 private:
  std::barrier<> barrier_;
  std::atomic<bool> good_{true};
};

// The Port of point_to_point.h of a host thread in the place of a kernel, for transfers with a rank of another node.
// The data's slots are from 0 on, kTransferSlots of them, and the credit's is the next one.
class FarTransferPort {
 public:
  FarTransferPort(uint8_t* arena, const protocol::CrossingLayout& layout, uint32_t peer)
      : line_(reinterpret_cast<protocol::TransferLine*>(arena + layout.transfer_line(peer))),
        outgoing_(reinterpret_cast<uint64_t*>(arena + layout.outgoing(peer))),
        incoming_(reinterpret_cast<const uint64_t*>(arena + layout.incoming(peer))) {}

  static protocol::PairEnd end(uint32_t peer) {
    return {peer, 0, protocol::kTransferSlots, protocol::kTransferSlots, 0, 0, 0};
  }
  void put(uint32_t, uint64_t slot, uint64_t payload, uint64_t epoch) {
    if (slot == protocol::kTransferSlots) return __atomic_store_n(&line_->read, payload, __ATOMIC_RELEASE);
    outgoing_[slot] = payload;
    last_ = std::max(last_, epoch);
  }
  // Behind each step of the sender.
  void ring() { __atomic_store_n(&line_->written, last_, __ATOMIC_RELEASE); }
  protocol::WordPacket look(uint64_t slot) {
    if (slot == protocol::kTransferSlots) return {__atomic_load_n(&line_->credited, __ATOMIC_ACQUIRE), 0};
    const uint64_t arrived = __atomic_load_n(&line_->arrived, __ATOMIC_ACQUIRE);
    if (arrived == 0) return {0, 0};
    // The latest packet of this slot. Once it counts as read, the proxy may be storing another one there.
    const uint64_t back = (arrived - 1 - slot) % protocol::kTransferSlots;
    if (back >= arrived) return {0, 0};
    const bool is_read = arrived - back <= line_->read;
    return {is_read ? 0 : incoming_[slot], arrived - back};
  }
  void took(uint64_t) {}
  uint64_t load(const uint8_t* from) { return load_part(from, sizeof(uint64_t)); }
  uint64_t load_part(const uint8_t* from, uint32_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
  }
  void store(uint8_t* to, uint64_t word) { store_part(to, word, sizeof word); }
  void store_part(uint8_t* to, uint64_t word, uint32_t bytes) { std::memcpy(to, &word, bytes); }

 private:
  protocol::TransferLine* line_;
  uint64_t* outgoing_;
  const uint64_t* incoming_;
  uint64_t last_ = 0;
};

class CrossingPort : public cpu::CpuPort<false> {
 public:
  using Base = cpu::CpuPort<false>;
  using HostCrossing = protocol::Crossing<HostAccess>;
  // Of a launch's threads.
  struct Place {
    Team* team = nullptr;  // null: it exchanges the headers
    uint32_t index = 0;    // of the team
    uint32_t teams = 0;
    uint32_t member = 0;
    uint32_t members = 0;
    bool proxy_has_threads = false;  // several
  };

  CrossingPort(const cpu::MappedRank* ranks, const protocol::Launch& launch, cpu::Waiter* waiter, uint64_t timeout_ns,
               const cpu::Reduction* reduction, cpu::RankNotes* notes, const HostCrossing* crossing, const Place& place)
      : Base(ranks, launch.rank, launch.topology(), waiter, reduction, nullptr, notes),
        launch_(launch),
        own_(ranks[launch.rank].control),
        timeout_ns_(timeout_ns),
        reduction_(reduction),
        crossing_(crossing),
        place_(place) {}

  bool checks() const { return place_.team == nullptr; }
  uint32_t team() const { return place_.index; }
  uint32_t teams() const { return place_.teams; }
  uint32_t member() const { return place_.member; }
  uint32_t members() const { return place_.members; }
  uint64_t worker() const { return place_.index * place_.members + place_.member; }
  uint64_t workers() const { return place_.teams * place_.members; }
  bool all(bool good) { return place_.team->all(good); }
  const HostCrossing& crossing() const { return *crossing_; }

  void node_is_here() {
    const Unseen lines(place_.proxy_has_threads);
    crossing_->node_is_here();
  }
  void stored(uint32_t stream, uint32_t chunk) {
    const Unseen lines(place_.proxy_has_threads);
    if (place_.member == 0) crossing_->stored(stream, chunk);
  }
  bool await_chunk(uint32_t source, uint32_t stream, uint32_t chunk) {
    return crossing_->await(source, stream, chunk, [&] { return keeps_waiting(); });
  }
  bool hear(uint32_t source, bool* same) {
    return crossing_->hear(source, same, [&] { return keeps_waiting(); });
  }
  template <class Packets>
  void cross(uint32_t stream, uint32_t at, Run run, uint32_t bytes) {
    const Unseen outbox(place_.proxy_has_threads);
    std::memcpy(crossing_->outbox(stream, at), run.data, bytes);
  }
  template <class Packets>
  Run crossed(uint32_t source, uint32_t stream, uint32_t at, uint32_t) {
    return {crossing_->inbox(source, stream, at)};
  }
  template <class Packets>
  void store(uint8_t* to, Run run, uint32_t bytes) {
    std::memcpy(to, run.data, bytes);
  }
  template <class Packets>
  void cross_partial(uint32_t stream, uint32_t at, const Partial& partial, uint32_t bytes) {
    const Unseen outbox(place_.proxy_has_threads);
    std::memcpy(crossing_->outbox(stream, at), partial.packets, partial_bytes(bytes));
    std::memcpy(crossing_->own_sums(stream, at), partial.packets, partial_bytes(bytes));
  }
  template <class Packets>
  void crossed_partial(uint32_t source, uint32_t stream, uint32_t at, uint32_t bytes, Partial* partial) {
    const uint8_t* const from =
        source == launch_.rank ? crossing_->own_sums(stream, at) : crossing_->inbox(source, stream, at);
    std::memcpy(partial->packets, from, partial_bytes(bytes));
  }
  template <class Packets>
  static constexpr bool cross_chunk(const protocol::Launch&, uint32_t) {
    return false;
  }
  template <class Packets>
  static constexpr bool reduce_chunk(const protocol::Launch&, const uint8_t*, uint32_t) {
    return false;
  }
  template <class Packets>
  bool reduce_crossed(const protocol::Sources& sources, Run own, uint32_t at, uint8_t* to, uint32_t bytes,
                      uint64_t epoch) {
    for (uint32_t i = 0; i < sources.count; ++i) {
      const uint32_t source = sources.first + i;
      std::memset(room_[i], 0, sizeof room_[i]);
      runs_[i] = room_[i];
      if (i == sources.own) {
        std::memcpy(room_[i], own.data, bytes);
      } else if (crossing_->is_remote(source)) {
        std::memcpy(room_[i], crossing_->inbox(source, crossing_->stream_from(), at), bytes);
      } else if (!drain<Packets>(sources.slot_of(i), source, room_[i], bytes, epoch)) {
        return false;
      }
    }
    const protocol::Topology& topology = launch_.topology();
    const uint32_t vectors = (bytes + protocol::kPacketBytes - 1) / protocol::kPacketBytes;
    uint8_t sum[protocol::SentinelPacket::kRunBytes];
    if (topology.sums_in_rank_order()) {
      reduction_->sum(runs_, sources.count, topology.world, sum, vectors);
    } else {
      cpu::Partial of_nodes[protocol::kMaxRanks];
      for (uint32_t node = 0; node < topology.nodes(); ++node) {
        reduction_->partial_sum(runs_ + topology.first_of(node), topology.size_of(node), &of_nodes[node], vectors);
      }
      reduction_->finish(of_nodes, topology.nodes(), topology.world, sum, vectors);
    }
    std::memcpy(to, sum, bytes);
    return true;
  }
  void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (worker() == 0) Base::copy(to, from, bytes);
  }

 private:
  uint32_t partial_bytes(uint32_t bytes) const {
    return (bytes + protocol::kPacketBytes - 1) / protocol::kPacketBytes * reduction_->parts * protocol::kPacketBytes;
  }
  bool keeps_waiting() {
    if (begin_ns_ == 0) begin_ns_ = monotonic_ns();
    ::sched_yield();
    return !own_->poison.is_set() && monotonic_ns() - begin_ns_ <= timeout_ns_;
  }

  const protocol::Launch& launch_;
  const shared::ControlBlock* own_;
  uint64_t timeout_ns_;
  uint64_t begin_ns_ = 0;
  const cpu::Reduction* reduction_;
  const HostCrossing* crossing_;
  Place place_;
  const uint8_t* runs_[protocol::kMaxRanks];
  alignas(64) uint8_t room_[protocol::kMaxRanks][protocol::SentinelPacket::kRunBytes];
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_CROSSING_PORT_H
