// Checks that every header of src/protocol, and every template in it, compiles for a GPU, with the simplest possible
// Port: one thread without waiting. It is compiled and never run.
#include "protocol/doubling.h"
#include "protocol/element.h"
#include "protocol/fusion.h"
#include "protocol/hierarchical.h"
#include "protocol/one_shot.h"
#include "protocol/point_to_point.h"
#include "protocol/team.h"
#include "protocol/team_move.h"
#include "protocol/two_shot.h"

namespace {

using namespace nvrar::protocol;

struct PlainPort {
  __device__ uint64_t worker() const { return 0; }
  __device__ uint64_t workers() const { return 1; }

  struct Run {
    const uint8_t* data;
  };
  struct Partial {
    Packet packets[2];
  };

  Packet* rings[kMaxRanks];
  uint32_t rank;

  template <class Packets>
  __device__ Run load(const uint8_t* from, uint32_t) {
    return {from};
  }
  template <class Packets>
  __device__ void push(const Peers& peers, uint64_t slot, Run run, uint32_t bytes, uint64_t epoch) {
    for (uint32_t i = 0; i < peers.count(); ++i) {
      for (uint32_t at = 0; at < bytes; at += Packets::kPayloadBytes) {
        Packet payload{};
        payload[0] = run.data[at];
        put(peers[i], slot + at / Packets::kPayloadBytes, Packets::seal(payload, epoch));
      }
    }
  }
  template <class Packets>
  __device__ bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch) {
    Packet packet;
    if (!take<Packets>(slot, source, epoch, &packet)) return false;
    for (uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(packet[i % 4]);
    return true;
  }
  __device__ void push_marked(const Peers& peers, uint64_t slot, uint64_t mark_slot, Run run, uint32_t bytes,
                              uint64_t epoch) {
    push<MarkedPacket>(peers, slot, run, bytes, epoch);
    for (uint32_t i = 0; i < peers.count(); ++i) put(peers[i], mark_slot, MarkPacket::seal(run.data[0], epoch));
  }
  __device__ bool drain_marked(uint64_t slot, uint64_t mark_slot, uint32_t source, uint8_t* to, uint32_t,
                               uint64_t epoch) {
    Packet packet, mark;
    if (!take<MarkedPacket>(slot, source, epoch, &packet)) return false;
    if (MarkedPacket::is_in_doubt(packet) && !take<MarkPacket>(mark_slot, source, epoch, &mark)) return false;
    to[0] = static_cast<uint8_t>(MarkedPacket::restore(packet, mark, 0)[3]);
    return true;
  }
  template <class Packets>
  __device__ bool reduce(const Sources& sources, Run own, uint8_t* to, uint32_t bytes, uint64_t epoch, Run* result) {
    for (uint32_t i = 0; i < sources.count; ++i) {
      if (i != sources.own && !drain<Packets>(sources.slot_of(i), sources.first + i, to, bytes, epoch)) return false;
    }
    to[0] = static_cast<uint8_t>(to[0] + own.data[0]);
    *result = {to};
    return true;
  }
  template <class Packets>
  __device__ bool node_sum(const Sources& sources, Run own, uint32_t, uint64_t epoch, Partial* sum) {
    sum->packets[0][0] = own.data[0];
    return take<Packets>(sources.slot_of(0), sources.first, epoch, &sum->packets[1]);
  }
  template <class Packets>
  __device__ void push_partial(uint32_t peer, uint64_t slot, const Partial& partial, uint32_t, uint64_t epoch) {
    put(peer, slot, Packets::seal(partial.packets[0], epoch));
  }
  template <class Packets>
  __device__ bool take_partial(uint64_t slot, uint32_t source, uint32_t, uint64_t epoch, Partial* partial) {
    return take<Packets>(slot, source, epoch, &partial->packets[0]);
  }
  __device__ void finish(const Partial* of_nodes, uint8_t* to, uint32_t, Run* result) {
    to[0] = static_cast<uint8_t>(of_nodes[0].packets[0][0]);
    *result = {to};
  }
  __device__ void combine(Partial* sum, const Partial& upper, uint32_t) { sum->packets[0][0] += upper.packets[0][0]; }
  __device__ void round(const Partial& sum, uint8_t* to, uint32_t, Run* result) {
    to[0] = static_cast<uint8_t>(sum.packets[0][0]);
    *result = {to};
  }
  __device__ void soon_pushed(const Peers&, uint64_t) {}
  template <class Packets>
  __device__ void soon_taken(uint64_t) {}
  __device__ void put(uint32_t peer, uint64_t slot, Packet packet) { rings[peer][slot] = packet; }
  template <class Packets>
  __device__ bool take(uint64_t slot, uint32_t, uint64_t epoch, Packet* packet) {
    *packet = rings[rank][slot];
    if constexpr (Packets::kMustClear) rings[rank][slot] = Packets::empty();
    return Packets::arrived(*packet, epoch);
  }
  __device__ void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
  __device__ void sent() {}
  __device__ void sent_within_node() {}
  __device__ void differ(uint32_t) {}
};

struct PlainTransferPort {
  Packet* rings[kMaxRanks];
  uint32_t rank;

  __device__ void put(uint32_t peer, uint64_t slot, uint64_t payload, uint64_t epoch) {
    Packet packet{};
    packet[0] = static_cast<uint32_t>(payload);
    rings[peer][slot] = EpochPacket::seal(packet, epoch);
  }
  __device__ WordPacket look(uint64_t slot) {
    const Packet packet = rings[rank][slot];
    return {packet[0], packet[2]};
  }
  __device__ void took(uint64_t) {}
  __device__ uint64_t load(const uint8_t* from) { return *from; }
  __device__ uint64_t load_part(const uint8_t* from, uint32_t) { return *from; }
  __device__ void store(uint8_t* to, uint64_t word) { *to = static_cast<uint8_t>(word); }
  __device__ void store_part(uint8_t* to, uint64_t word, uint32_t) { *to = static_cast<uint8_t>(word); }
};

struct PlainTeam {
  Packet* rings[kMaxRanks];
  uint32_t own_rank;
  const uint32_t* send;
  uint32_t* recv;

  __device__ uint32_t rank() const { return own_rank; }
  template <class Visit>
  __device__ void each_tile(Visit visit) {
    visit(0);
  }
  template <class Visit>
  __device__ void each_peer(Visit visit) {
    visit(1);
  }
  template <class Visit>
  __device__ void each_source(Visit visit) {
    visit(1);
  }
  __device__ void push(uint32_t peer, uint32_t slot, uint32_t, uint32_t run) { rings[peer][slot][0] = send[run]; }
  __device__ bool gather(uint32_t source, uint32_t slot, uint32_t, uint32_t run, bool good) {
    recv[run] = rings[source][slot][0];
    return good;
  }
  __device__ bool meet(bool good) { return good; }
  __device__ void sum(uint32_t run, bool good) { recv[run] += good ? send[run] : 0; }
  __device__ void clear(uint32_t slot, uint32_t) { rings[own_rank][slot] = SentinelPacket::empty(); }
  __device__ void take_result() {}
  __device__ void give_result(uint32_t to, uint32_t slot, uint32_t run) { rings[to][slot][0] = recv[run]; }
  __device__ bool drain(uint32_t, uint32_t slot, uint32_t run) {
    recv[run] = rings[own_rank][slot][0];
    return true;
  }
  __device__ void next_tile(uint32_t) {}
};

struct PlainTeamMove : PlainTeam {
  __device__ void push(uint32_t peer, uint32_t place, uint32_t j) { rings[peer][place * kRunPackets][0] = send[j]; }
  __device__ bool drain(uint32_t, uint32_t place, uint32_t j) {
    recv[j] = rings[own_rank][place * kRunPackets][0];
    return true;
  }
  __device__ void copy(uint32_t j) { recv[j] = send[j]; }
};

template <class Packets>
__device__ bool all_movements(PlainPort& port, const Launch& launch) {
  return move_data<Movement::kAllGather, Packets>(port, launch) &&
         move_data<Movement::kAllToAll, Packets>(port, launch) &&
         move_data<Movement::kBroadcast, Packets>(port, launch);
}

template <bool kTwoShot>
__device__ bool all_of_team(PlainTeam& team, const Launch& launch) {
  const Tiles<kTwoShot> tiles{{launch.topology()}};
  send_tiles(team, tiles);
  return reduce_tiles(team, tiles, launch.layout, true);
}

template <class Packets>
__device__ bool all_sums(PlainPort& port, const Launch& launch) {
  DirectExchange exchange;
  return one_shot<Packets>(port, launch) && two_shot<Packets>(port, launch) && reduce<Packets>(port, launch) &&
         reduce_scatter<Packets>(port, launch) && hierarchical<Packets>(port, exchange, launch) &&
         hierarchical_by_doubling<Packets>(port, launch);
}

template <class Element, class Op>
__device__ typename Element::Bits combine(typename Element::Bits a, typename Element::Bits b, uint32_t world) {
  return Element::narrow(Op::finish(Op::apply(Element::widen(a), Element::widen(b)), world));
}

template <class Element>
__device__ uint64_t all_operators(uint64_t a, uint64_t b, uint32_t world) {
  using Bits = typename Element::Bits;
  const Bits x = static_cast<Bits>(a);
  const Bits y = static_cast<Bits>(b);
  uint64_t result = combine<Element, Sum>(x, y, world) ^ combine<Element, Product>(x, y, world) ^
                    combine<Element, Max>(x, y, world) ^ combine<Element, Min>(x, y, world);
  if constexpr (Element::kFloat) result ^= combine<Element, Avg>(x, y, world);
  return result;
}

}  // namespace

extern "C" __global__ void collectives(PlainPort port, Launch launch, CallSignature call, bool* done) {
  launch.header_hash = header_hash(call);
  *done = barrier(port, launch) && all_movements<EpochPacket>(port, launch) &&
          all_movements<MarkedPacket>(port, launch) && all_sums<EpochPacket>(port, launch) &&
          all_sums<SentinelPacket>(port, launch);
}

extern "C" __global__ void teams(PlainTeam team, Launch launch, bool* done) {
  *done = all_of_team<false>(team, launch) && all_of_team<true>(team, launch);
}

extern "C" __global__ void team_moves(PlainTeamMove team, Launch launch, Movement movement, bool* done) {
  const FlatRuns runs{launch.topology()};
  const Parts parts{launch, movement};
  send_parts(team, runs, parts);
  *done = take_parts(team, runs, parts);
}

extern "C" __global__ void transfers(PlainTransferPort port, PairEnd end, Transfer transfer, bool* done) {
  *done = can_push(port, end) && can_pull(port, end) && push(port, end, transfer) == Step::kMoved &&
          pull(port, end, transfer) == Step::kMoved && transfer.complete();
}

extern "C" __global__ void elements(uint64_t a, uint64_t b, uint32_t world, uint64_t* result) {
  *result = all_operators<Bfloat16>(a, b, world) ^ all_operators<Float16>(a, b, world) ^
            all_operators<Float32>(a, b, world) ^ all_operators<Float64>(a, b, world) ^
            all_operators<Int8>(a, b, world) ^ all_operators<Uint8>(a, b, world) ^ all_operators<Int32>(a, b, world) ^
            all_operators<Int64>(a, b, world);
}

extern "C" __global__ void layout(RingLayout layout, HierarchicalRuns runs, uint64_t* result) {
  *result = layout.total_bytes() + layout.sentinel_begin() + layout.credit_slot(1) +
            layout.area_runs(PacketKind::kEpoch) + runs.runs_that_fit(layout.area_runs(PacketKind::kSentinel)) +
            TwoShotRuns{layout.topology}.runs_that_fit(8) + FlatRuns{layout.topology}.runs_that_fit(8) + first_epoch();
}
