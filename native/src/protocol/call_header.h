// The header packet: the evidence that protocol.md 3 requires (every rank has entered this epoch, so no rank runs
// ahead) and the check of protocol.md 13. A launch consumes data only after it has both.
//
// In a group of up to kMaxRanks ranks every rank sends a header to every other one, except in hierarchical all-reduces
// on the CPU (hierarchical.h). In a larger group evidence passes through the nodes, in three hops. Each rank sends a
// header to its node. A rank that has the headers of its whole node tells its share of the other nodes: of two nodes,
// one rank of each tells one rank of the other. A rank that has the headers of its share of the nodes tells its node.
// So a rank has, from itself or a rank of its node, the header of every node, which that node sent after all of its
// ranks had entered.
#ifndef NVRAR_PROTOCOL_CALL_HEADER_H
#define NVRAR_PROTOCOL_CALL_HEADER_H

#include "protocol/launch.h"

namespace nvrar::protocol {

struct CallSignature {
  uint64_t sequence;  // the call's number in its communicator: a rank one call off differs
  int32_t collective;
  int32_t data_type;
  int32_t op;
  int32_t root;
  uint64_t count;  // elements of the whole call, not of the launch
  uint32_t algorithm;
  PacketKind packet_kind;
  uint64_t elements_per_launch;
  // Of a fused all-reduce, else 0.
  int32_t fusion = 0;
  uint32_t hidden = 0;
  uint32_t eps_bits = 0;
  // Of an all-gather of a top-k's keys, else 0.
  uint32_t top_k = 0;
  uint32_t rows = 0;
  uint32_t first_row = 0;
  int32_t value_type = 0;
};

NVRAR_HD uint32_t hash_step(uint32_t hash, uint32_t word) {  // murmur3's block step
  word *= 0xCC9E2D51u;
  word = (word << 15) | (word >> 17);
  hash ^= word * 0x1B873593u;
  hash = (hash << 13) | (hash >> 19);
  return hash * 5u + 0xE6546B64u;
}

NVRAR_HD uint32_t header_hash(const CallSignature& call) {
  uint32_t hash = 0;
  hash = hash_step(hash, static_cast<uint32_t>(call.sequence));
  hash = hash_step(hash, static_cast<uint32_t>(call.sequence >> 32));
  hash = hash_step(hash, static_cast<uint32_t>(call.collective));
  hash = hash_step(hash, static_cast<uint32_t>(call.data_type));
  if (!planted(Defect::kHashWithoutOp)) hash = hash_step(hash, static_cast<uint32_t>(call.op));
  hash = hash_step(hash, static_cast<uint32_t>(call.root));
  if (!planted(Defect::kHashWithoutCount)) {
    hash = hash_step(hash, static_cast<uint32_t>(call.count));
    hash = hash_step(hash, static_cast<uint32_t>(call.count >> 32));
  }
  hash = hash_step(hash, call.algorithm);
  hash = hash_step(hash, static_cast<uint32_t>(call.packet_kind));
  hash = hash_step(hash, static_cast<uint32_t>(call.elements_per_launch));
  hash = hash_step(hash, static_cast<uint32_t>(call.elements_per_launch >> 32));
  if (call.fusion != 0) {
    hash = hash_step(hash, static_cast<uint32_t>(call.fusion));
    hash = hash_step(hash, call.hidden);
    hash = hash_step(hash, call.eps_bits);
  }
  if (call.top_k != 0) {
    hash = hash_step(hash, call.top_k);
    hash = hash_step(hash, call.rows);
    hash = hash_step(hash, call.first_row);
    hash = hash_step(hash, static_cast<uint32_t>(call.value_type));
  }
  hash ^= hash >> 16;
  hash *= 0x85EBCA6Bu;
  hash ^= hash >> 13;
  hash *= 0xC2B2AE35u;
  return hash ^ (hash >> 16);
}

NVRAR_HD Packet header_packet(uint32_t hash, uint64_t epoch) {
  Packet payload{};
  payload[0] = hash;
  return EpochPacket::seal(payload, epoch);
}
// Of a rank that has the headers of its node: it tells of all ranks there.
NVRAR_HD Packet node_header_packet(uint32_t hash, uint64_t epoch) {
  Packet payload{};
  payload[0] = hash;
  payload[1] = 1;
  return EpochPacket::seal(payload, epoch);
}
// Whether the rank that sent this header is in the same call.
NVRAR_HD bool is_same_call(const Packet& header, uint32_t hash) { return header[0] == hash; }

// Headers follow the data, but over links. On a host with total store order, a header then shows that the data has
// arrived, too, so a receiver that shares its core with the sender wakes only once. Nothing may depend on this order:
// device memory does not keep it, and a test build sends the headers first.
#if defined(NVRAR_TEST_ADVERSE)
constexpr bool kHeadersFirst = true;
#else
constexpr bool kHeadersFirst = false;
#endif

enum class HeadersOf { kAll, kNode, kOtherNodes };

// Whether in a hierarchical all-reduce the headers of other nodes come from the owners there (hierarchical.h). Kernels,
// for which all ranks are equally near, save nothing by that.
#if defined(__CUDACC__)
constexpr bool kOwnersTell = false;
#else
constexpr bool kOwnersTell = true;
#endif

// The ranks to which a rank sends a header at once.
template <HeadersOf kOf>
NVRAR_HD Peers header_peers(const Launch& launch) {
  const bool within_node = launch.topology().is_large() || (kOwnersTell && kOf == HeadersOf::kNode);
  return within_node ? Peers::of_node(launch) : Peers::all(launch);
}

// The rank whose header has the first slot.
NVRAR_HD uint32_t first_header(const Launch& launch) {
  return launch.topology().is_large() ? Peers::of_node(launch).first : 0;
}

// Whether a peer gets its header before the data. A Port for which this may be says so by a function of this name.
template <class Port>
NVRAR_HD constexpr bool gets_header_first(const Port&, uint32_t) {
  return kHeadersFirst;
}

// first: to the peers that get it before the data; else to the others.
template <HeadersOf kOf, class Port>
NVRAR_HD void send_headers(Port& port, const Launch& launch, bool first) {
  if (port.worker() != 0) return;
  const Peers peers = header_peers<kOf>(launch);
  const uint64_t slot = RingLayout::header_slot(launch.epoch, launch.rank - first_header(launch));
  const Packet packet = header_packet(launch.header_hash, launch.epoch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    if (gets_header_first(port, peers[i]) == first) port.put(peers[i], slot, packet);
  }
}

// The header of a rank that is in another call.
template <class Port>
NVRAR_HD void note_difference(Port& port, const Launch& launch, uint32_t source, const Packet& header) {
  if (!kOwnersTell || header[1] == 0) {
    port.differ(source);
    return;
  }
  const uint32_t node = launch.topology().node_of(source);
  for (uint32_t i = 0; i < launch.topology().size_of(node); ++i) port.differ(launch.topology().first_of(node) + i);
}

// The rank of a node that tells one rank of the other node, and hears from it.
NVRAR_HD uint32_t teller_of(const Topology& topology, uint32_t node, uint32_t other) {
  return topology.first_of(node) + other % topology.size_of(node);
}

// The other nodes that this rank tells and hears from, and which rank of each.
template <class Visit>
NVRAR_HD bool each_node_told(const Launch& launch, Visit visit) {
  const Topology& topology = launch.topology();
  const uint32_t own = topology.node_of(launch.rank);
  const uint32_t step = topology.size_of(own);
  for (uint32_t node = launch.rank - topology.first_of(own); node < topology.nodes(); node += step) {
    if (node != own && !visit(node, teller_of(topology, node, own))) return false;
  }
  return true;
}

// The second and third hop of the evidence in a group of more than kMaxRanks ranks.
template <class Port>
NVRAR_LARGE bool relay_headers(Port& port, const Launch& launch) {
  const Topology& topology = launch.topology();
  const uint32_t own = topology.node_of(launch.rank);
  const Packet packet = node_header_packet(launch.header_hash, launch.epoch);
  each_node_told(launch, [&](uint32_t, uint32_t peer) {
    port.put(peer, RingLayout::node_header_slot(launch.epoch, own), packet);
    return true;
  });
  port.sent();
  bool same = true;
  const bool came = each_node_told(launch, [&](uint32_t node, uint32_t peer) {
    Packet theirs;
    if (!port.template take<EpochPacket>(RingLayout::node_header_slot(launch.epoch, node), peer, launch.epoch,
                                         &theirs)) {
      return false;
    }
    if (is_same_call(theirs, launch.header_hash)) return true;
    note_difference(port, launch, peer, theirs);
    same = false;
    return true;
  });
  if (!came || !same) return false;
  const Peers peers = Peers::of_node(launch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    port.put(peers[i], RingLayout::last_header_slot(launch.epoch, peers.self), packet);
  }
  port.sent();
  for (uint32_t i = 0; i < peers.count(); ++i) {
    const uint64_t slot = RingLayout::last_header_slot(launch.epoch, peers[i] - peers.first);
    Packet theirs;
    if (!port.template take<EpochPacket>(slot, peers[i], launch.epoch, &theirs)) return false;
  }
  return true;
}

// One worker checks for all workers, because a rank has exited a launch only when all its workers have. It checks all
// headers even if one differs, so that every rank is told of every difference.
template <HeadersOf kOf = HeadersOf::kAll, class Port>
NVRAR_HD bool check_headers(Port& port, const Launch& launch) {
  if (planted(Defect::kNoHeaderWait) || port.worker() != 0) return true;
  bool same = true;
  const Peers peers = header_peers<kOf>(launch);
  const Peers node = Peers::of_node(launch);
  const uint32_t first = first_header(launch);
  for (uint32_t i = 0; i < peers.count(); ++i) {
    const uint32_t source = peers[i];
    const bool in_node = source >= node.first && source - node.first < node.size;
    if (kOf != HeadersOf::kAll && in_node != (kOf == HeadersOf::kNode)) continue;
    Packet packet;
    const uint64_t slot = RingLayout::header_slot(launch.epoch, source - first);
    if (!port.template take<EpochPacket>(slot, source, launch.epoch, &packet)) return false;
    if (!is_same_call(packet, launch.header_hash)) {
      note_difference(port, launch, source, packet);
      same = false;
    }
  }
  if (!launch.topology().is_large() || !same || planted(Defect::kNodeEvidence)) return same;
  return kOf == HeadersOf::kNode || relay_headers(port, launch);
}

// The sending half of a launch: `send_data`, which pushes this rank's data, and the headers. It completes before the
// caller's first poll (protocol.md 11). kNode: the data is for this node, and more for other nodes follows.
template <HeadersOf kOf = HeadersOf::kAll, class Port, class SendData>
NVRAR_HD void send_phase(Port& port, const Launch& launch, SendData send_data) {
  if (planted(Defect::kPollsFirst)) (void)check_headers(port, launch);
  send_headers<kOf>(port, launch, true);
  send_data();
  send_headers<kOf>(port, launch, false);
  if (kOf == HeadersOf::kNode) {
    port.sent_within_node();
  } else {
    port.sent();
  }
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_CALL_HEADER_H
