// The collectives of groups whose data crosses between nodes by chunks (crossing.h). A Port of these, beside what is in
// launch.h, has teams of workers, each of which stores and takes whole chunks, and
//
//   bool checks()                                 whether this worker exchanges the headers: it does nothing else
//   uint32_t team(), teams(), member(), members() of a worker that does not
//   bool all(bool good)                           by all members of a team: whether good is true of all; what they have
//                                                 stored is there for each of them
//   const Crossing<...>& crossing()
//   void stored(uint32_t stream, uint32_t chunk)  by all members, behind all()
//   bool await_chunk(uint32_t source, uint32_t stream, uint32_t chunk)   by one member
//   bool hear(uint32_t source, bool* same)        waits for evidence (Crossing::hear)
//   void cross(uint32_t stream, uint32_t at, Run, uint32_t bytes)        stores a run into the outbox
//   Run crossed<Packets>(uint32_t source, uint32_t stream, uint32_t at, uint32_t bytes)   the run there in the inbox
//   void cross_partial<Packets>(stream, at, const Partial&, bytes), void crossed_partial<Packets>(source, stream, at,
//   bytes, Partial*)                              the same for sums of nodes
//   void store(uint8_t* to, Run, uint32_t bytes)  to user memory
//   bool reduce_crossed<Packets>(Sources, Run own, at, uint8_t* to, uint32_t bytes, uint64_t epoch)
//                                                 as Port::reduce, with the runs of other nodes from the inbox
//   bool cross_chunk<Packets>(launch, uint32_t chunk), bool reduce_chunk<Packets>(launch, const uint8_t* own, chunk)
//                                                 does the worker's runs of a chunk at once, if it can
#ifndef NVRAR_PROTOCOL_CROSSING_STEPS_H
#define NVRAR_PROTOCOL_CROSSING_STEPS_H

#include "protocol/call_header.h"
#include "protocol/crossing.h"
#include "protocol/data_movement.h"

namespace nvrar::protocol {

// The headers of the node, then what tells of the other nodes.
template <class Port>
NVRAR_HD bool exchange_crossing_headers(Port& port, const Launch& launch) {
  const Peers peers = Peers::of_node(launch);
  const Packet header = header_packet(launch.header_hash, launch.epoch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    port.put(peers[i], RingLayout::header_slot(launch.epoch, peers.self), header);
  }
  port.sent_within_node();
  bool same = true;
  for (uint32_t i = 0; i < peers.count(); ++i) {
    Packet packet;
    const uint64_t slot = RingLayout::header_slot(launch.epoch, peers[i] - peers.first);
    if (!port.template take<EpochPacket>(slot, peers[i], launch.epoch, &packet)) return false;
    if (is_same_call(packet, launch.header_hash)) continue;
    port.differ(peers[i]);
    same = false;
  }
  if (!same) return false;
  port.node_is_here();
  bool came = true;
  port.crossing().each_heard([&](uint32_t source) {
    bool is_same = true;
    came = came && port.hear(source, &is_same);
    if (came && !is_same) port.differ(source);
    same = same && is_same;
  });
  if (!came || !same || port.crossing().shape().streams != Streams::kSlices) return came && same;
  // Of two ranks that share several slices, the chunks of those that are empty are awaited by nobody else.
  const Topology& topology = launch.topology();
  const uint32_t own = topology.node_of(launch.rank);
  port.crossing().each_stream([&](uint32_t slice) {
    if (port.crossing().bytes_of(slice) != 0) return;
    for (uint32_t node = 0; node < topology.nodes(); ++node) {
      const uint32_t owner = topology.first_of(node) + slice % topology.size_of(node);
      if (node != own) came = came && port.await_chunk(owner, slice, 0);
    }
  });
  return came;
}

// The runs of a chunk that this worker does: visit(run, offset in the stream).
template <class Port, class Visit>
NVRAR_HD void each_run_of_chunk(Port& port, uint64_t runs, uint32_t chunk, Visit visit) {
  const CrossingShape& shape = port.crossing().shape();
  const uint32_t of_a_chunk = shape.chunk_bytes / shape.run_bytes;
  const uint64_t first = uint64_t{chunk} * of_a_chunk;
  const uint64_t end = first + of_a_chunk < runs ? first + of_a_chunk : runs;
  for (uint64_t j = first + port.member(); j < end; j += port.members()) {
    visit(j, static_cast<uint32_t>(j) * shape.run_bytes);
  }
}
template <class Port, class Visit>
NVRAR_HD void each_own_chunk(Port& port, uint32_t chunks, Visit visit) {
  for (uint32_t chunk = port.team(); chunk < chunks; chunk += port.teams()) visit(chunk);
}
NVRAR_HD uint32_t chunks_of(const CrossingShape& shape, uint64_t bytes) {
  return static_cast<uint32_t>((bytes + shape.chunk_bytes - 1) / shape.chunk_bytes);
}

// Which parts of `send` a rank sends in a launch of one hop.
struct FlatSends {
  bool to_all = false;  // the message
  bool parts = false;   // to each rank its part
  uint32_t to = ~0u;    // the message to this rank only; ~0: not
};

template <class Packets, class Port>
NVRAR_HD void send_flat(Port& port, const Launch& launch, const FlatSends& sends) {
  const auto& crossing = port.crossing();
  const MessageRuns<Packets> runs{launch.bytes};
  each_own_chunk(port, chunks_of(crossing.shape(), runs.count() * Packets::kRunBytes), [&](uint32_t chunk) {
    if (!sends.to_all || !port.template cross_chunk<Packets>(launch, chunk)) {
      each_run_of_chunk(port, runs.count(), chunk, [&](uint64_t j, uint32_t at) {
        const uint32_t bytes = runs.length(j);
        const auto send = [&](uint32_t peer, const uint8_t* from) {
          const auto run = port.template load<Packets>(from + runs.offset(j), bytes);
          if (crossing.is_remote(peer)) {
            port.template cross<Packets>(peer, at, run, bytes);
          } else {
            push_loaded_run<Packets>(port, launch, Peers::one(peer), j, run, bytes);
          }
        };
        if (sends.to_all) {
          const Peers peers = Peers::of_node(launch);
          for (uint32_t i = 0; i < peers.count(); ++i) send(peers[i], launch.send);
          port.template cross<Packets>(0, at, port.template load<Packets>(launch.send + runs.offset(j), bytes), bytes);
          return;
        }
        if (!sends.parts) return send(sends.to, launch.send);
        for (uint32_t hop = 1; hop < launch.topology().world; ++hop) {
          const uint32_t peer = (launch.rank + hop) % launch.topology().world;
          send(peer, launch.send + peer * launch.send_stride_bytes);
        }
      });
    }
    (void)port.all(true);
    crossing.each_stream([&](uint32_t stream) {
      if (crossing.bytes_of(stream) != 0) port.stored(stream, chunk);
    });
  });
  port.sent_within_node();
}

// Waits for a chunk of each of these sources that are in other nodes, for the whole team.
template <class Port, class Wants>
NVRAR_HD bool await_chunks(Port& port, const Launch& launch, uint32_t chunk, Wants wants) {
  bool came = true;
  if (port.member() == 0) {
    for (uint32_t source = 0; came && source < launch.topology().world; ++source) {
      const bool is_awaited = port.crossing().is_remote(source) && wants(source);
      if (is_awaited) came = port.await_chunk(source, port.crossing().stream_from(), chunk);
    }
  }
  return port.all(came);
}

// Sums all ranks' contributions into recv; `own` is this rank's.
template <class Packets, class Port>
NVRAR_HD bool reduce_crossed_message(Port& port, const Launch& launch, const uint8_t* own) {
  const MessageRuns<Packets> runs{launch.bytes};
  bool good = true;
  each_own_chunk(port, chunks_of(port.crossing().shape(), runs.count() * Packets::kRunBytes), [&](uint32_t chunk) {
    good = good && await_chunks(port, launch, chunk, [](uint32_t) { return true; });
    if (!good) return;
    if (port.template reduce_chunk<Packets>(launch, own, chunk)) return;
    each_run_of_chunk(port, runs.count(), chunk, [&](uint64_t j, uint32_t at) {
      const uint32_t bytes = runs.length(j);
      const Sources sources{flat_slot<Packets>(launch, j, 0), 0, launch.topology().world, launch.rank};
      const auto own_run = port.template load<Packets>(own + runs.offset(j), bytes);
      good = good && port.template reduce_crossed<Packets>(sources, own_run, at, launch.recv + runs.offset(j), bytes,
                                                           launch.epoch);
    });
    good = port.all(good);
  });
  return good;
}

template <class Packets, class Port>
NVRAR_HD bool crossing_one_hop_sum(Port& port, const Launch& launch, bool is_one_shot, bool is_reduce) {
  if (port.checks()) return exchange_crossing_headers(port, launch);
  FlatSends sends;
  sends.to_all = is_one_shot;
  sends.parts = !is_one_shot && !is_reduce;
  if (is_reduce) sends.to = launch.root;
  if (!is_reduce || launch.rank != launch.root) send_flat<Packets>(port, launch, sends);
  if (is_reduce && launch.rank != launch.root) return true;
  return reduce_crossed_message<Packets>(port, launch,
                                         launch.send + (sends.parts ? launch.rank * launch.send_stride_bytes : 0));
}

template <Movement kMovement, class Packets, class Port>
NVRAR_HD bool crossing_move(Port& port, const Launch& launch) {
  if (port.checks()) return exchange_crossing_headers(port, launch);
  const Parts parts{launch, kMovement};
  FlatSends sends;
  sends.to_all = parts.sends_one();
  sends.parts = !parts.sends_one();
  if (parts.sends()) send_flat<Packets>(port, launch, sends);
  if (parts.takes_from(launch.rank)) {
    port.copy(parts.to_store(launch.rank), parts.to_send(launch.rank), launch.bytes);
  }
  const MessageRuns<Packets> runs{launch.bytes};
  const auto& crossing = port.crossing();
  bool good = true;
  each_own_chunk(port, chunks_of(crossing.shape(), runs.count() * Packets::kRunBytes), [&](uint32_t chunk) {
    good = good && await_chunks(port, launch, chunk, [&](uint32_t source) { return parts.takes_from(source); });
    if (!good) return;
    for (uint32_t hop = 1; hop < launch.topology().world; ++hop) {
      const uint32_t source = (launch.rank + hop) % launch.topology().world;
      if (!parts.takes_from(source)) continue;
      each_run_of_chunk(port, runs.count(), chunk, [&](uint64_t j, uint32_t at) {
        uint8_t* const to = parts.to_store(source) + runs.offset(j);
        const uint32_t bytes = runs.length(j);
        if (crossing.is_remote(source)) {
          port.template store<Packets>(to, port.template crossed<Packets>(source, crossing.stream_from(), at, bytes),
                                       bytes);
        } else {
          good = good && drain_run<Packets>(port, launch, source, j, to, bytes);
        }
      });
    }
    good = port.all(good);
  });
  return good;
}

// The hierarchical all-reduce: an owner's sums go to the owners in all other nodes at once.
template <class Packets, class Port>
NVRAR_HD bool crossing_hierarchical(Port& port, const Launch& launch) {
  if (port.checks()) return exchange_crossing_headers(port, launch);
  constexpr PacketKind kKind = Packets::kKind;
  const auto& crossing = port.crossing();
  const CrossingShape& shape = crossing.shape();
  const Topology& topology = launch.topology();
  const uint32_t node = topology.node_of(launch.rank);
  const Peers node_peers = Peers::of_node(launch);
  const HierarchicalRuns slices{topology, launch.partial_parts};
  const MessageRuns<Packets> runs{launch.bytes};
  const auto slot = [&](Hop hop, uint64_t run) { return launch.layout.slot(kKind, launch.epoch, hop, run); };

  each_run_of(port, runs.count(), slices.slices(), [&](uint64_t j) {
    const uint32_t owner = slices.owner(j, node);
    if (owner == launch.rank) return true;
    port.template push<Packets>(Peers::one(owner), slot(Hop::kData, slices.data_run(j, node, launch.rank)),
                                port.template load<Packets>(launch.send + runs.offset(j), runs.length(j)),
                                runs.length(j), launch.epoch);
    return true;
  });
  port.sent_within_node();

  // The chunks of own slices: visit(slice, chunk, rows), whose row i is run i * slices + slice.
  const auto each_sum = [&](auto visit) {
    uint32_t before = 0;
    crossing.each_stream([&](uint32_t slice) {
      const uint32_t chunks = chunks_of(shape, crossing.bytes_of(slice));
      const uint64_t rows = crossing.bytes_of(slice) / shape.run_bytes;
      for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        if ((before + chunk) % port.teams() == port.team()) visit(slice, chunk, rows);
      }
      before += chunks;
    });
  };
  bool good = true;
  each_sum([&](uint32_t slice, uint32_t chunk, uint64_t rows) {
    if (!good) return;
    each_run_of_chunk(port, rows, chunk, [&](uint64_t row, uint32_t at) {
      const uint64_t j = row * slices.slices() + slice;
      const uint32_t bytes = runs.length(j);
      const uint64_t first = slices.data_run(j, node, topology.first_of(node));
      const Sources sources{slot(Hop::kData, first), node_peers.first, node_peers.size, node_peers.self};
      const auto own = port.template load<Packets>(launch.send + runs.offset(j), bytes);
      typename Port::Partial sum;
      good = good && port.template node_sum<Packets>(sources, own, bytes, launch.epoch, &sum);
      if (good) port.template cross_partial<Packets>(slice, at, sum, bytes);
    });
    good = port.all(good);
    if (good) port.stored(slice, chunk);
  });
  each_sum([&](uint32_t slice, uint32_t chunk, uint64_t rows) {
    if (!good) return;
    if (port.member() == 0) {
      for (uint32_t other = 0; good && other < topology.nodes(); ++other) {
        if (other != node) good = port.await_chunk(slices.owner(slice, other), slice, chunk);
      }
    }
    good = port.all(good);
    if (!good) return;
    each_run_of_chunk(port, rows, chunk, [&](uint64_t row, uint32_t at) {
      const uint64_t j = row * slices.slices() + slice;
      const uint32_t bytes = runs.length(j);
      typename Port::Partial of_nodes[kMaxRanks];
      for (uint32_t other = 0; other < topology.nodes(); ++other) {
        // The own one is read where it was stored for the others.
        port.template crossed_partial<Packets>(
            other == node ? launch.rank : slices.owner(slice, other), slice, at, bytes,
            &of_nodes[planted(Defect::kSwappedNodes) ? (other + 1) % topology.nodes() : other]);
      }
      typename Port::Run result;
      port.finish(of_nodes, launch.recv + runs.offset(j), bytes, &result);
      port.template push<Packets>(node_peers, slot(Hop::kResult, slices.result_run(j)), result, bytes, launch.epoch);
    });
    good = port.all(good);
  });
  if (!good) return false;
  port.sent_within_node();
  return each_run_of(port, runs.count(), slices.slices(), [&](uint64_t j) {
    const uint32_t owner = slices.owner(j, node);
    if (owner == launch.rank) return true;
    return port.template drain<Packets>(slot(Hop::kResult, slices.result_run(j)), owner, launch.recv + runs.offset(j),
                                        runs.length(j), launch.epoch);
  });
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_CROSSING_STEPS_H
