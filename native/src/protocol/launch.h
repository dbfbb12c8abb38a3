// The arguments of one launch, and the interface through which its steps reach a backend. The steps in this folder are
// templates on a Port and work on runs. A run is the payload of up to kRunPackets packets of one kind, `bytes` long,
// which the port holds in registers or leaves in memory.
//
//   Run load<Packets>(const uint8_t* from, uint32_t bytes)       user memory, any alignment
//   void push<Packets>(Peers, uint64_t slot, Run, uint32_t bytes, uint64_t epoch)
//                                                  seals the run and stores it into each peer's slots from `slot` on,
//                                                  one atomic store per packet
//   bool drain<Packets>(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch)
//                                                  waits for a run in own slots, empties them if their packet kind
//                                                  requires it, and stores the payload; false: the launch has failed,
//                                                  return at once
//   bool drain<Packets>(slot, source, to, bytes, epoch, Run* run)   the same, and the run can be pushed on; not on GPUs
//   void push_marked(Peers, uint64_t slot, uint64_t mark_slot, Run, uint32_t bytes, uint64_t epoch)
//   bool drain_marked(uint64_t slot, uint64_t mark_slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch)
//                                                  the same for a run of marked packets, whose mark, if it needs one
//                                                  (packet.h), goes through mark_slot; of ports of GPUs only
//   bool reduce<Packets>(Sources, Run own, uint8_t* to, uint32_t bytes, uint64_t epoch, Run* result)
//                                                  waits for a run of every source, combines them in the order of sums
//                                                  (protocol.md 10), stores the rounded result and also returns it
//   bool node_sum<Packets>(Sources, Run own, uint32_t bytes, uint64_t epoch, Partial*)
//                                                  the same for the ranks of a node, but the sum stays in the
//                                                  accumulator's type
//   void push_partial<Packets>(uint32_t peer, uint64_t slot, const Partial&, uint32_t bytes, uint64_t epoch)
//   bool take_partial<Packets>(uint64_t slot, uint32_t source, uint32_t bytes, uint64_t epoch, Partial*)
//   void finish(const Partial* of_nodes, uint8_t* to, uint32_t bytes, Run* result)
//                                                  combines the nodes' sums and rounds
//   void combine(Partial* sum, const Partial& upper, uint32_t bytes)
//                                                  adds the sum of the nodes behind those of *sum
//   void round(const Partial& sum, uint8_t* to, uint32_t bytes, Run* result)
//                                                  rounds the sum of all nodes
//   void soon_pushed(Peers, uint64_t slot), void soon_taken<Packets>(uint64_t slot)
//                                                  hints: a run will be pushed there, or taken from there, kAhead
//                                                  iterations later
//   void put(uint32_t peer, uint64_t slot, Packet), bool take<Packets>(uint64_t slot, uint32_t source, uint64_t epoch,
//   Packet*)                                       one packet
//   void copy(uint8_t* to, const uint8_t* from, uint64_t bytes)
//   void sent()                                    all packets of a phase have been sent: wakes sleeping peers
//   void sent_within_node()                        the same, but packets to other nodes may travel with those of the
//                                                  next phase, unless this rank has to wait before it
//   void differ(uint32_t source)                   the header of that rank belongs to another call
//   uint64_t worker(), uint64_t workers()          several workers may run a rank's launch at once, each with a port
//                                                  of its own; worker w does run j of a message if j mod workers is w
//                                                  (each_run_of: j / together mod workers). If all ranks have the same
//                                                  number of workers, a worker waits only for the same worker of the
//                                                  other ranks. copy is called for all of the bytes: each worker copies
//                                                  its share
//
// The port knows the type and the operator of a reduction.
#ifndef NVRAR_PROTOCOL_LAUNCH_H
#define NVRAR_PROTOCOL_LAUNCH_H

#include <cstddef>

#include "protocol/ring_layout.h"

namespace nvrar::protocol {

// In iterations of a loop over runs: enough to fetch a run's cache lines from another core, but few enough that they
// are still cached when they are used.
constexpr uint32_t kAhead = 2;

struct Launch {
  RingLayout layout;
  uint32_t rank;
  uint64_t epoch;        // the first launch of a group has epoch 1
  uint32_t header_hash;  // call_header.h
  uint32_t root;         // broadcast, reduce
  const uint8_t* send;
  uint8_t* recv;
  uint64_t bytes;              // payload from one source to one destination in this launch
  uint64_t send_stride_bytes;  // from one destination's part of send to the next one's
  uint64_t recv_stride_bytes;  // from one source's part of recv to the next one's
  uint32_t partial_parts;      // packets that the partial sums of one packet take (HierarchicalRuns)

  NVRAR_HD const Topology& topology() const { return layout.topology; }
};
// Kernels get it from the host, and two compilers lay it out.
static_assert(sizeof(Topology) == 16 && offsetof(RingLayout, may_span) == 24 && sizeof(RingLayout) == 32);
static_assert(offsetof(Launch, send) == 56 && offsetof(Launch, partial_parts) == 96 && sizeof(Launch) == 104);

// The ranks [first, first + size) without first + self. They begin with the one after self, so that not all ranks start
// with the same peer.
struct Peers {
  uint32_t first;
  uint32_t size;
  uint32_t self;

  static NVRAR_HD Peers all(const Launch& launch) { return {0, launch.topology().world, launch.rank}; }
  static NVRAR_HD Peers of_node(const Launch& launch) {
    const uint32_t node = launch.topology().node_of(launch.rank);
    const uint32_t first = launch.topology().first_of(node);
    return {first, launch.topology().size_of(node), launch.rank - first};
  }
  static NVRAR_HD Peers one(uint32_t peer) { return {peer, 2, 1}; }
  NVRAR_HD uint32_t count() const { return size - 1; }
  NVRAR_HD uint32_t operator[](uint32_t i) const {
    const uint32_t next = self + 1 + i;
    return first + (next < size ? next : next - size);
  }
};

// The runs of the ranks [first, first + count), which lie side by side in own slots from `slot` on. The slots of `own`
// are unused.
struct Sources {
  uint64_t slot;
  uint32_t first;
  uint32_t count;
  uint32_t own;

  NVRAR_HD uint64_t slot_of(uint32_t i) const { return slot + uint64_t{i} * kRunPackets; }
};

// The index of the source whose contribution is added in this turn of a sum: the order of the ranks (protocol.md 10).
NVRAR_HD uint32_t source_in_turn(uint32_t turn, uint32_t own) {
  if (!planted(Defect::kOwnFirst)) return turn;
  return turn == 0 ? own : turn == own ? 0 : turn;
}

// A hint: the runs that lie `ahead` slots behind those of `sources` will be summed kAhead iterations later.
template <class Packets, class Port>
NVRAR_HD void soon_reduced(Port& port, const Sources& sources, uint64_t ahead) {
  for (uint32_t i = 0; i < sources.count; ++i) {
    if (i != sources.own) port.template soon_taken<Packets>(sources.slot_of(i) + ahead);
  }
}

// The runs of a message of `bytes` bytes.
template <class Packets>
struct MessageRuns {
  uint64_t bytes;
  NVRAR_HD uint64_t count() const { return (bytes + Packets::kRunBytes - 1) / Packets::kRunBytes; }
  static NVRAR_HD uint64_t offset(uint64_t j) { return j * Packets::kRunBytes; }
  NVRAR_HD uint32_t length(uint64_t j) const {
    const uint64_t left = bytes - offset(j);
    return static_cast<uint32_t>(left < Packets::kRunBytes ? left : Packets::kRunBytes);
  }
};

// Calls visit(j) for the runs of this worker until one returns false. Every `together` consecutive runs belong to one
// worker.
template <class Port, class Visit>
NVRAR_HD bool each_run_of(Port& port, uint64_t runs, uint32_t together, Visit visit) {
  for (uint64_t first = port.worker() * together; first < runs; first += port.workers() * together) {
    const uint64_t end = first + together < runs ? first + together : runs;
    for (uint64_t j = first; j < end; ++j) {
      if (!visit(j)) return false;
    }
  }
  return true;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_LAUNCH_H
