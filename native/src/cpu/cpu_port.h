// The Port of the CPU backend (protocol/launch.h describes Ports): one thread of one rank, with the peers' rings
// mapped. A run stays in memory: in the user's buffer, in the slots in which it arrived, or where a link received it.
#ifndef NVRAR_CPU_CPU_PORT_H
#define NVRAR_CPU_CPU_PORT_H

#include <cstring>
#include <utility>

#include "common/rank_set.h"
#include "cpu/reduction.h"
#include "cpu/waiter.h"
#include "link/links.h"
#include "protocol/data_movement.h"
#include "protocol/launch.h"
#include "shared/control_block.h"
#include "shared/doorbell.h"
#include "shared/packet_access.h"

namespace nvrar::cpu {

struct MappedRank {
  shared::ControlBlock* control = nullptr;
  protocol::Packet* rings = nullptr;
  uint64_t rings_name = 0;     // the address for announce_packet_sent
  link::Link* link = nullptr;  // to a rank on another host, whose rings are not mapped
};

// What a member's ports note of ranks; of the member, because clearing it would cost a small call a few percent.
struct RankNotes {
  RankSet differing;  // by their headers: the group has failed
  RankSet sent_to;    // in a large group, in this phase
};

// kLinks: whether there are ranks on other hosts. A group on one host does not pay for them.
template <bool kLinks>
class CpuPort {
 public:
  using Packet = protocol::Packet;
  using Partial = cpu::Partial;
  struct Run {
    const uint8_t* data;
  };

  // reduction: null for calls that do not reduce. links: null if all ranks are on this host.
  CpuPort(const MappedRank* ranks, uint32_t rank, const protocol::Topology& topology, Waiter* waiter,
          const Reduction* reduction, link::Links* links, RankNotes* notes) noexcept
      : ranks_(ranks),
        rank_(rank),
        topology_(topology),
        own_rings_(ranks[rank].rings),
        waiter_(waiter),
        reduction_(reduction),
        links_(links),
        notes_(notes) {}

  // The caller's thread is the only worker.
  static NVRAR_HD constexpr uint64_t worker() { return 0; }
  static NVRAR_HD constexpr uint64_t workers() { return 1; }

  NVRAR_HD void put(uint32_t peer, uint64_t slot, Packet packet) {
    note_sent(peer);
    if (is_linked(peer)) [[unlikely]] {
      put_remote(*ranks_[peer].link, slot, packet);
    } else {
      put(ranks_[peer], slot, packet);
    }
  }

  template <class Packets>
  NVRAR_HD bool take(uint64_t slot, uint32_t source, uint64_t epoch, Packet* packet) {
    if (!await<Packets>(slot, source, epoch, 1)) return false;
    *packet = shared::load_packet(own_rings_ + slot);
    release<Packets>(slot, 1);
    return true;
  }

  template <class Packets>
  NVRAR_HD Run load(const uint8_t* from, uint32_t /*bytes*/) {
    return {from};
  }
  template <class Packets>
  void push(const protocol::Peers& peers, uint64_t slot, Run run, uint32_t bytes, uint64_t epoch) {
    for (uint32_t i = 0; i < peers.count(); ++i) push_bytes<Packets>(peers[i], slot, run.data, bytes, epoch);
  }
  // Sends the message from where it is, if all of these peers are linked: protocol::push_whole.
  template <class Packets>
  bool push_whole(const protocol::Launch& launch, const protocol::Peers& peers, uint64_t slot, uint64_t stride,
                  const uint8_t* from) {
    if (!kLinks) return false;
    for (uint32_t i = 0; i < peers.count(); ++i) {
      if (!is_linked(peers[i])) return false;
    }
    const link::Message message{from,        launch.bytes, Packets::kRunBytes, slot, static_cast<uint16_t>(stride),
                                launch.epoch};
    for (uint32_t i = 0; i < peers.count(); ++i) {
      note_sent(peers[i]);
      ranks_[peers[i]].link->lend(message);
    }
    return true;
  }
  template <class Packets>
  bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch);
  template <class Packets>
  bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch, Run* run) {
    *run = {to};
    return drain<Packets>(slot, source, to, bytes, epoch);
  }
  template <class Packets>
  bool reduce(const protocol::Sources& sources, Run own, uint8_t* to, uint32_t bytes, uint64_t epoch, Run* result);

  // Sums whole runs of the one other rank that follow the last one and have come over its link, `stride` slots apart
  // from sources.slot on. Returns how many.
  template <class Packets>
  uint64_t reduce_following(const protocol::Sources& sources, uint64_t stride, const uint8_t* own, uint8_t* to,
                            uint64_t bytes, uint64_t epoch) {
    if (!kLinks || sources.count != 2 || past_slots_ == 0) return 0;
    const uint32_t other = 1 - sources.own;
    const link::WantedRun wanted{sources.slot_of(other), epoch, Packets::kRunBytes, Packets::kRunBytes};
    uint64_t got = 0;
    runs_[other] = links_->take_following(other, wanted, stride, bytes, &got);
    if (got == 0) return 0;
    runs_[sources.own] = own;
    if (own == to) links_->settle(to, got);
    sum(sources, to, static_cast<uint32_t>(got / kVectorBytes));
    return got / Packets::kRunBytes;
  }

  template <class Packets>
  bool node_sum(const protocol::Sources& sources, Run own, uint32_t bytes, uint64_t epoch, Partial* sum);
  template <class Packets>
  void push_partial(uint32_t peer, uint64_t slot, const Partial& partial, uint32_t bytes, uint64_t epoch) {
    each_partial_run<Packets>(bytes, [&](uint32_t first, uint32_t run_bytes) {
      push_bytes<Packets>(peer, slot + first / Packets::kPayloadBytes,
                          reinterpret_cast<const uint8_t*>(partial.packets) + first, run_bytes, epoch);
      return true;
    });
  }
  template <class Packets>
  bool take_partial(uint64_t slot, uint32_t source, uint32_t bytes, uint64_t epoch, Partial* partial) {
    return each_partial_run<Packets>(bytes, [&](uint32_t first, uint32_t run_bytes) {
      return drain<Packets>(slot + first / Packets::kPayloadBytes, source,
                            reinterpret_cast<uint8_t*>(partial->packets) + first, run_bytes, epoch);
    });
  }
  void finish(const Partial* of_nodes, uint8_t* to, uint32_t bytes, Run* result) {
    finish(of_nodes, topology_.nodes(), to, bytes, result);
  }
  void combine(Partial* sum, const Partial& upper, uint32_t bytes) {
    reduction_->combine(sum, upper, (bytes + kVectorBytes - 1) / kVectorBytes);
  }
  void round(const Partial& sum, uint8_t* to, uint32_t bytes, Run* result) { finish(&sum, 1, to, bytes, result); }

  void soon_pushed(const protocol::Peers& peers, uint64_t slot) {
    for (uint32_t i = 0; i < peers.count(); ++i) {
      if (!is_linked(peers[i])) each_line(ranks_[peers[i]].rings + slot, shared::prefetch_to_write);
    }
  }
  template <class Packets>
  void soon_taken(uint64_t slot) {
    each_line(own_rings_ + slot, Packets::kMustClear ? shared::prefetch_to_write : shared::prefetch_to_read);
  }

  void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (to != from && bytes != 0) std::memcpy(to, from, bytes);
  }
  void sent() {
    sent_within_node();
    if (kLinks) links_->flush_in_call();
  }
  // A waiting rank sends what is for other nodes (waiter.h).
  void sent_within_node() {
    shared::full_fence();
    if (topology_.is_large()) {
      notes_->sent_to.each([&](uint32_t peer) { shared::wake_if_asleep(*ranks_[peer].control); });
      notes_->sent_to = {};
    } else {
      for (uint32_t hop = 1; hop < topology_.world; ++hop) {
        shared::wake_if_asleep(*ranks_[(rank_ + hop) % topology_.world].control);
      }
    }
  }
  void differ(uint32_t source) { notes_->differing.add(source); }

  bool is_linked(uint32_t peer) const noexcept { return kLinks && ranks_[peer].link != nullptr; }
  WaitResult result() const noexcept { return result_; }
  uint32_t waiting_for() const noexcept { return waiting_for_; }

 private:
  static constexpr uint32_t kVectorBytes = protocol::kPacketBytes;
  static constexpr uint32_t kLinePackets = shared::kCacheLineBytes / protocol::kPacketBytes;

  // In a large group, a phase wakes only the ranks that it has sent to.
  NVRAR_HD void note_sent(uint32_t peer) {
    if (topology_.is_large()) [[unlikely]]
      add_sent(peer);
  }
  [[gnu::noinline, gnu::cold]] void add_sent(uint32_t peer) { notes_->sent_to.add(peer); }

  // By value: a reference would be reloaded for each packet, because the store of a packet may have changed it.
  NVRAR_HD void put(MappedRank peer, uint64_t slot, Packet packet) {
#if defined(NVRAR_TEST_ADVERSE)  // a stall within a phase, so that its packets arrive far apart
    if (++test_puts_ % 509 == 0) ::sched_yield();
#endif
    protocol::pass_moment(rank_, protocol::Moment::kSends, slot);
    shared::announce_packet_sent(peer.rings_name + slot * protocol::kPacketBytes);
    shared::store_packet(peer.rings + slot, packet);
  }

  // A packet of one epoch, which is in its second half.
  static void put_remote(link::Link& link, uint64_t slot, Packet packet) {
    typedef uint64_t Words __attribute__((vector_size(16)));
    const auto words = reinterpret_cast<Words>(packet);
    const uint64_t payload = words[0];
    link.put(link::FrameKind::kPackets, slot, words[1], &payload, sizeof payload);
  }

  // Calls visit(i) for the packets of a run until one returns false. One iteration handles a whole cache line, because
  // the loop overhead of an iteration is as many instructions as a packet takes.
  template <class Visit>
  static NVRAR_HD bool each_packet(size_t packets, Visit visit) {
    size_t i = 0;
    static_assert(kLinePackets == 4);
    for (; i + kLinePackets <= packets; i += kLinePackets) {
      if (!visit(i) || !visit(i + 1) || !visit(i + 2) || !visit(i + 3)) return false;
    }
    for (; i < packets; ++i) {
      if (!visit(i)) return false;
    }
    return true;
  }
  template <class Visit>
  static NVRAR_HD void each_line(const Packet* first, Visit visit) {
    for (uint32_t i = 0; i < protocol::kRunPackets; i += kLinePackets) visit(first + i);
  }

  template <class Packets>
  static NVRAR_HD uint32_t packets_of(uint32_t bytes) {
    return (bytes + Packets::kPayloadBytes - 1) / Packets::kPayloadBytes;
  }

  template <class Packets>
  void push_bytes(uint32_t peer, uint64_t slot, const uint8_t* from, uint32_t bytes, uint64_t epoch) {
    constexpr uint32_t kBytes = Packets::kPayloadBytes;
    const MappedRank to = ranks_[peer];
    note_sent(peer);
    if (kLinks && to.link != nullptr) [[unlikely]] {
      to.link->put_run(slot, epoch, from, bytes, Packets::kRunBytes);
      return;
    }
    const uint32_t whole = bytes / kBytes;
    each_packet(
        whole, [&](size_t i) __attribute__((always_inline)) {
          Packet payload{};
          __builtin_memcpy(&payload, from + i * kBytes, kBytes);
          put(to, slot + i, Packets::seal(payload, epoch));
          return true;
        });
    if (const uint32_t rest = bytes % kBytes; rest != 0) {
      Packet payload{};
      std::memcpy(&payload, from + whole * kBytes, rest);
      put(to, slot + whole, Packets::seal(payload, epoch));
    }
  }

  // Waits until the packets in `packets` slots from `slot` on have arrived. Only their last words are checked, and the
  // rest is read later: a packet is stored in one access, and x86-64 keeps the order of loads.
  template <class Packets>
  NVRAR_HD bool await(uint64_t slot, uint32_t source, uint64_t epoch, uint32_t packets) {
    protocol::pass_moment(rank_, protocol::Moment::kWaits, slot);
    const Packet* const first = own_rings_ + slot;
    return each_packet(
        packets, [&](size_t i) __attribute__((always_inline)) {
          if (!shared::packet_arrived<Packets>(first + i, epoch)) [[unlikely]] {
            if (!wait<Packets>(first + i, source, epoch)) return false;
          }
          shared::announce_packet_taken(ranks_[rank_].rings_name + (slot + i) * protocol::kPacketBytes);
          return true;
        });
  }

  template <class Packets>
  NVRAR_HD void release([[maybe_unused]] uint64_t slot, [[maybe_unused]] uint32_t packets) {
    if constexpr (Packets::kMustClear) {
      if (protocol::planted(protocol::Defect::kKeptSlots)) return;
      Packet* const first = own_rings_ + slot;
      each_packet(
          packets, [&](size_t i) __attribute__((always_inline)) {
            shared::store_packet(first + i, Packets::empty());
            return true;
          });
    }
  }

  // The payload of a run that has arrived. It is used in its slots if they contain nothing else, and copied to `room`
  // otherwise.
  template <class Packets>
  const uint8_t* payload(uint64_t slot, uint32_t packets, uint8_t* room) {
    if constexpr (Packets::kPayloadBytes == protocol::kPacketBytes) {
      return reinterpret_cast<const uint8_t*>(own_rings_ + slot);
    } else {
      const Packet* const first = own_rings_ + slot;
      each_packet(
          packets, [&](size_t i) __attribute__((always_inline)) {
            const Packet packet = shared::load_packet(first + i);
            __builtin_memcpy(room + i * Packets::kPayloadBytes, &packet, Packets::kPayloadBytes);
            return true;
          });
      if (packets % 2 != 0) std::memset(room + packets * Packets::kPayloadBytes, 0, Packets::kPayloadBytes);
      return room;
    }
  }

  // Waits for a run of a rank on another host. *run: its payload, if it is what the link has next; else null, and it is
  // in its slots. Past the slots it is read and written once less, and they need no clearing.
  template <class Packets>
  [[gnu::noinline]] bool await_linked(uint64_t slot, uint32_t source, uint32_t bytes, uint64_t epoch,
                                      const uint8_t** run) {
    const link::WantedRun wanted{slot, epoch, bytes, Packets::kRunBytes};
    *run = links_->take_next_run(source, wanted);
    if (*run != nullptr) return true;
    const Packet* const first = own_rings_ + slot;
    const auto arrived = [&] {
      if (shared::packet_arrived<Packets>(first, epoch)) return true;
      *run = links_->take_run(source, wanted);
      return *run != nullptr;
    };
    if (!arrived() && !wait_for_link(source, arrived)) return false;
    return *run != nullptr || await<Packets>(slot, source, epoch, packets_of<Packets>(bytes));
  }
  // The same, for a run that is summed.
  template <class Packets>
  bool gather_linked(const protocol::Sources& sources, uint32_t i, uint32_t bytes, uint64_t epoch) {
    const uint8_t* run = nullptr;
    if (!await_linked<Packets>(sources.slot_of(i), sources.first + i, bytes, epoch, &run)) return false;
    if (run == nullptr) {
      runs_[i] = payload<Packets>(sources.slot_of(i), packets_of<Packets>(bytes), room_[i]);
      return true;
    }
    past_slots_ |= 1u << i;
    // While this rank waits for the next source, the link may put something else in its place.
    const bool is_last = i + 1 == sources.count || (i + 2 == sources.count && i + 1 == sources.own) ||
                         protocol::planted(protocol::Defect::kKeptRun);
    if (!is_last || bytes % kVectorBytes != 0) {
      if (bytes % kVectorBytes != 0) std::memset(room_[i] + bytes / kVectorBytes * kVectorBytes, 0, kVectorBytes);
      run = static_cast<const uint8_t*>(std::memcpy(room_[i], run, bytes));
    }
    runs_[i] = run;
    return true;
  }

  // Waits for all sources. Then runs_[i] is the payload of source i, padded to whole vectors, except that of `own`.
  template <class Packets>
  bool gather(const protocol::Sources& sources, const uint8_t* own, uint32_t bytes, uint64_t epoch) {
    const uint32_t packets = packets_of<Packets>(bytes);
    if (kLinks) past_slots_ = 0;
    for (uint32_t i = 0; i < sources.count; ++i) {
      runs_[i] = own;
      if (i == sources.own) continue;
      if (is_linked(sources.first + i)) [[unlikely]] {
        if (!gather_linked<Packets>(sources, i, bytes, epoch)) return false;
        continue;
      }
      if (!await<Packets>(sources.slot_of(i), sources.first + i, epoch, packets)) return false;
      runs_[i] = payload<Packets>(sources.slot_of(i), packets, room_[i]);
    }
    return true;
  }
  template <class Packets>
  void release_all(const protocol::Sources& sources, uint32_t bytes) {
    for (uint32_t i = 0; i < sources.count; ++i) {
      const bool has_slots = i != sources.own && (!kLinks || (past_slots_ >> i & 1) == 0);
      if (has_slots) release<Packets>(sources.slot_of(i), packets_of<Packets>(bytes));
    }
  }

  // Calls whole(vectors). If part of a vector remains, lets runs_ point to that last vector and calls
  // rest(first_vector, bytes). This rank's own part of it, if it is one of the sources, is first copied to a buffer,
  // where a whole vector may be read.
  template <class Whole, class Rest>
  void by_vectors(const protocol::Sources& sources, uint32_t bytes, Whole whole, Rest rest) {
    const uint32_t vectors = bytes / kVectorBytes;
    if (vectors != 0) whole(vectors);
    const uint32_t rest_bytes = bytes % kVectorBytes;
    if (rest_bytes == 0) return;
    alignas(kVectorBytes) uint8_t own[kVectorBytes] = {};
    for (uint32_t i = 0; i < sources.count; ++i) runs_[i] += vectors * kVectorBytes;
    if (sources.own < sources.count) {
      std::memcpy(own, runs_[sources.own], rest_bytes);
      runs_[sources.own] = own;
    }
    rest(vectors, rest_bytes);
  }

  // Sums node by node in rank order, then over the nodes; for algorithms in which one rank has the runs of all ranks.
  void sum_over_nodes(uint8_t* to, uint32_t vectors) {
    const protocol::Topology topology = topology_;  // which the calls cannot change
    const uint32_t nodes = topology.nodes();
    for (uint32_t node = 0; node < nodes; ++node) {
      reduction_->partial_sum(runs_ + topology.first_of(node), topology.size_of(node), &blocks_[node], vectors);
    }
    reduction_->finish(blocks_, nodes, topology.world, to, vectors);
  }
  void sum(const protocol::Sources& sources, uint8_t* to, uint32_t vectors) {
    if (protocol::planted(protocol::Defect::kOwnFirst)) std::swap(runs_[0], runs_[sources.own]);
    if (topology_.sums_in_rank_order()) {
      reduction_->sum(runs_, sources.count, topology_.world, to, vectors);
    } else {
      sum_over_nodes(to, vectors);
    }
  }
  // Links may still send from memory that is to hold a result.
  void settle_what_is_replaced(Run own, const uint8_t* to, uint32_t bytes) {
    if (kLinks && own.data == to) [[unlikely]]
      links_->settle(to, bytes);
  }
  // The same for more runs than this port has places for: node by node.
  template <class Packets>
  [[gnu::noinline, gnu::cold]] bool reduce_large(const protocol::Sources& sources, Run own, uint8_t* to, uint32_t bytes,
                                                 uint64_t epoch, Run* result);
  void finish(const Partial* sums, uint32_t count, uint8_t* to, uint32_t bytes, Run* result);

  // Divides the partial sums of `bytes` bytes of elements into runs of packets: visit(first byte, bytes).
  template <class Packets, class Visit>
  bool each_partial_run(uint32_t bytes, Visit visit) {
    const uint32_t total = (bytes + kVectorBytes - 1) / kVectorBytes * reduction_->parts * kVectorBytes;
    for (uint32_t first = 0; first < total; first += Packets::kRunBytes) {
      const uint32_t left = total - first;
      if (!visit(first, left < Packets::kRunBytes ? left : Packets::kRunBytes)) return false;
    }
    return true;
  }

  template <class Packets>
  __attribute__((noinline)) bool wait(const Packet* slot, uint32_t source, uint64_t epoch) {
    const auto arrived = [&] { return Packets::arrived(shared::load_packet(slot), epoch); };
    if (is_linked(source))
      return wait_for_link(source, [&] { return arrived() || links_->take_until(source, arrived); });
    result_ = waiter_->wait([&] { return RankSet::of(source); }, arrived);
    waiting_for_ = source;
    return result_ == WaitResult::kArrived;
  }
  template <class Arrived>
  bool wait_for_link(uint32_t source, Arrived arrived) {
    result_ = waiter_->wait_for_links([&] { return RankSet::of(source); }, arrived, [&] { links_->fill(source); },
                                      [&] { links_->fill_and_look(source); });
    waiting_for_ = source;
    return result_ == WaitResult::kArrived;
  }

  const MappedRank* ranks_;
  uint32_t rank_;
  protocol::Topology topology_;
  Packet* own_rings_;
  Waiter* waiter_;
  const Reduction* reduction_;
  link::Links* links_;
  RankNotes* notes_;
  WaitResult result_ = WaitResult::kArrived;
  uint32_t waiting_for_ = 0;
#if defined(NVRAR_TEST_ADVERSE)
  uint32_t test_puts_ = 0;
#endif
  // Of one node; in a group of up to kMaxRanks ranks of all.
  const uint8_t* runs_[protocol::kMaxRanks];
  uint32_t past_slots_ = 0;  // bit i: runs_[i] did not come into its slots
  // Not initialised, because clearing them would cost more than a small call.
  alignas(64) uint8_t room_[protocol::kMaxRanks][protocol::SentinelPacket::kRunBytes];
  // The sums of nodes; in a large group of blocks of nodes, each of fewer nodes than the one before it.
  Partial blocks_[protocol::kMaxRanks];
};
static_assert(1u << (protocol::kMaxRanks - 2) >= protocol::kMaxNodes, "a node and a block of each power of two");

template <bool kLinks>
template <class Packets>
bool CpuPort<kLinks>::drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch) {
  constexpr uint32_t kBytes = Packets::kPayloadBytes;
  const uint32_t packets = packets_of<Packets>(bytes);
  if (is_linked(source)) [[unlikely]] {
    const uint8_t* run = nullptr;
    if (!await_linked<Packets>(slot, source, bytes, epoch, &run)) return false;
    if (run != nullptr) {
      std::memcpy(to, run, bytes);
      return true;
    }
  } else if (!await<Packets>(slot, source, epoch, packets)) {
    return false;
  }
  const Packet* const first = own_rings_ + slot;
  const uint32_t whole = bytes / kBytes;
  each_packet(
      whole, [&](size_t i) __attribute__((always_inline)) {
        const Packet packet = shared::load_packet(first + i);
        __builtin_memcpy(to + i * kBytes, &packet, kBytes);
        return true;
      });
  if (const uint32_t rest = bytes % kBytes; rest != 0 && !protocol::planted(protocol::Defect::kDroppedRest)) {
    const Packet packet = shared::load_packet(first + whole);
    std::memcpy(to + whole * kBytes, &packet, rest);
  }
  release<Packets>(slot, packets);
  return true;
}

template <bool kLinks>
template <class Packets>
bool CpuPort<kLinks>::reduce(const protocol::Sources& sources, Run own, uint8_t* to, uint32_t bytes, uint64_t epoch,
                             Run* result) {
  if (topology_.is_large()) [[unlikely]] {
    settle_what_is_replaced(own, to, bytes);
    return reduce_large<Packets>(sources, own, to, bytes, epoch, result);
  }
  if (!gather<Packets>(sources, own.data, bytes, epoch)) return false;
  settle_what_is_replaced(own, to, bytes);
  by_vectors(
      sources, bytes, [&](uint32_t vectors) { sum(sources, to, vectors); },
      [&](uint32_t first, uint32_t rest_bytes) {
        alignas(kVectorBytes) uint8_t last[kVectorBytes];
        sum(sources, last, 1);
        std::memcpy(to + first * kVectorBytes, last, rest_bytes);
      });
  release_all<Packets>(sources, bytes);
  *result = {to};
  return true;
}

template <bool kLinks>
template <class Packets>
bool CpuPort<kLinks>::node_sum(const protocol::Sources& sources, Run own, uint32_t bytes, uint64_t epoch,
                               Partial* partial) {
  if (!gather<Packets>(sources, own.data, bytes, epoch)) return false;
  by_vectors(
      sources, bytes, [&](uint32_t vectors) { reduction_->partial_sum(runs_, sources.count, partial, vectors); },
      [&](uint32_t first, uint32_t) {
        Partial last;
        reduction_->partial_sum(runs_, sources.count, &last, 1);
        std::memcpy(partial->packets + first * reduction_->parts, last.packets, reduction_->parts * kVectorBytes);
      });
  release_all<Packets>(sources, bytes);
  return true;
}

// Adds the nodes in turn, and with each combines all pairs of blocks that it completes: the order of protocol.md 10.
template <bool kLinks>
template <class Packets>
bool CpuPort<kLinks>::reduce_large(const protocol::Sources& sources, Run own, uint8_t* to, uint32_t bytes,
                                   uint64_t epoch, Run* result) {
  uint32_t blocks = 0;
  const auto combine_last = [&] {
    --blocks;
    combine(&blocks_[blocks - 1], blocks_[blocks], bytes);
  };
  for (uint32_t node = 0; node < topology_.nodes(); ++node) {
    const uint32_t first = topology_.first_of(node);
    const uint32_t size = topology_.size_of(node);
    const bool is_own = sources.own >= first && sources.own - first < size;
    const protocol::Sources of_node{sources.slot_of(first), first, size, is_own ? sources.own - first : size};
    if (!node_sum<Packets>(of_node, own, bytes, epoch, &blocks_[blocks])) return false;
    ++blocks;
    for (uint32_t nodes = node + 1; nodes % 2 == 0; nodes /= 2) combine_last();
  }
  while (blocks > 1) combine_last();
  finish(blocks_, 1, to, bytes, result);
  return true;
}

template <bool kLinks>
void CpuPort<kLinks>::finish(const Partial* sums, uint32_t count, uint8_t* to, uint32_t bytes, Run* result) {
  const uint32_t vectors = bytes / kVectorBytes;
  const uint32_t rest_bytes = bytes % kVectorBytes;
  if (rest_bytes == 0) {
    reduction_->finish(sums, count, topology_.world, to, vectors);
  } else {
    alignas(64) uint8_t whole[protocol::kRunPackets * kVectorBytes];
    reduction_->finish(sums, count, topology_.world, whole, vectors + 1);
    std::memcpy(to, whole, bytes);
  }
  *result = {to};
}

// What goes first over a link is its header: what follows then passes its slots, if it is awaited in its order.
template <bool kLinks>
bool gets_header_first(const CpuPort<kLinks>& port, uint32_t peer) {
  return protocol::kHeadersFirst || port.is_linked(peer);
}

// What ranks on other hosts are sent, and what they have sent, is taken in pieces as large as can be.
template <class Packets, bool kLinks>
bool push_whole(CpuPort<kLinks>& port, const protocol::Launch& launch, const protocol::Peers& peers,
                const uint8_t* from) {
  return port.template push_whole<Packets>(launch, peers, protocol::flat_slot<Packets>(launch, 0, launch.rank),
                                           protocol::FlatRuns{launch.topology()}.stride(), from);
}
template <class Packets, bool kLinks>
uint64_t reduce_following(CpuPort<kLinks>& port, const protocol::Launch& launch, const uint8_t* own, uint64_t j) {
  const uint64_t first = protocol::MessageRuns<Packets>::offset(j);
  if (first >= launch.bytes) return 0;
  const protocol::Sources sources{protocol::flat_slot<Packets>(launch, j, 0), 0, launch.topology().world, launch.rank};
  return port.template reduce_following<Packets>(sources, protocol::FlatRuns{launch.topology()}.stride(), own + first,
                                                 launch.recv + first, launch.bytes - first, launch.epoch);
}

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_CPU_PORT_H
