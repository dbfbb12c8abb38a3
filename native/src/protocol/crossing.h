// How a launch's data crosses to nodes whose memory the GPU cannot reach (protocol.md 19). A rank stores what it sends
// into its outbox, in host memory, chunk by chunk: each by one team of workers, a block of a kernel, which then writes
// the chunk's line and rings its bell. The rank's proxy, a thread of the host, sends the chunk to the ranks that the
// line names. Their proxies store it into their inboxes, at the same offset in the part of that source, and then the
// chunk's signal, which the one team there waits for that needs it.
//
// A launch crosses once: its contributions (one-hop algorithms) or its nodes' sums (hierarchical). What crosses is
// divided into streams, each for a set of ranks, and a stream into chunks. All ranks of a group divide alike, so that a
// chunk's number and offset are the same at both ends. Every rank sends at least the first chunk of each of its streams
// in every launch, empty perhaps: it is the evidence that the rank has entered the launch (protocol.md 3), and that
// all ranks of its node have, and are in the same call. Bells and signals are epochs of 64 bits, so nothing is cleared.
//
// An Access is how a side reaches memory:
//
//   uint32_t add(uint32_t* counter, uint32_t)    returns what it was; whoever adds later sees what the caller has
//   stored void ring(uint64_t* bell, uint64_t)          a store to host memory behind all that the caller has stored or
//   seen uint64_t look(const uint64_t*)               of host memory; what was stored before the value can be loaded
#ifndef NVRAR_PROTOCOL_CROSSING_H
#define NVRAR_PROTOCOL_CROSSING_H

#include "protocol/attributes.h"
#include "protocol/packet.h"
#include "protocol/topology.h"

namespace nvrar::protocol {

constexpr uint32_t kMaxGpuNodes = 8;
constexpr uint32_t kMaxGpuWorld = kMaxGpuNodes * kMaxRanks;
constexpr uint32_t kMostChunks = 256;  // of all streams of a rank in a launch
constexpr uint32_t kMostChunkBytes = 128 << 10;
constexpr uint32_t kLeastChunkBytes = 16 << 10;

// Valid behind its bell only: stores to host memory are whole, but not together.
struct alignas(64) ChunkLine {
  uint64_t to;      // bit r: to rank r
  uint32_t offset;  // in the outbox of the epoch's parity
  uint32_t bytes;
  uint32_t hash;          // of the call
  uint32_t node_is_here;  // 1: all ranks of the sender's node are in the call
  uint64_t lines;         // how many lines the launch has, at most
  uint64_t unused[3];
  uint64_t bell;  // the epoch
};
static_assert(sizeof(ChunkLine) == 64);

// What a rank's proxy has heard from a source, in one word: a look at it crosses a bus. A source that is heard replaces
// its word of the launch before the last one, so a part of the epoch tells them apart.
struct alignas(8) SourceLine {
  uint64_t word;

  static NVRAR_HD uint64_t of(uint64_t epoch, uint32_t hash, bool node_is_here) {
    return uint64_t{hash} << 32 | (epoch << 1 & 0xFFFFFFFFu) | (node_is_here ? 1 : 0);
  }
  static NVRAR_HD bool has_entered(uint64_t word, uint64_t epoch) { return ((word ^ epoch << 1) & 0xFFFFFFFEu) == 0; }
  static NVRAR_HD uint32_t hash(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  static NVRAR_HD bool node_is_here(uint64_t word) { return (word & 1) != 0; }
};

struct CrossingPage {
  alignas(64) uint64_t epoch;  // the launch that the kernel is in; it may be one behind
};

// What crosses of the transfers between this rank and another one (point_to_point.h): the payloads of their packets, in
// the order of their numbers, through a ring for each direction. A number counts the packets so far, so a proxy that
// misses some values of it loses nothing. Here and there the kernels write one half, and the proxy the other.
struct alignas(128) TransferLine {
  uint64_t written;  // packets sent that lie in the outgoing ring
  uint64_t read;     // packets received that were taken out of the incoming ring
  uint64_t unused[6];
  uint64_t credited;  // packets sent that the peer has read
  uint64_t arrived;   // packets received that lie in the incoming ring
  uint64_t more[6];
};
static_assert(sizeof(TransferLine) == 128);
constexpr uint64_t kTransferSlots = uint64_t{16} << 10;  // of a ring, each for a payload

// Where these are in a rank's arena in host memory: [page][lines][lines of the sources][signals][outbox][inbox], all
// but the page by parity, then for each rank of another node [line of its transfers][outgoing ring][incoming ring].
struct CrossingLayout {
  uint64_t area_bytes = 0;  // of what a rank sends in a launch
  uint32_t world = 0;
  uint32_t first = 0;  // rank of the own node,
  uint32_t size = 0;   // ... which has so many

  static constexpr uint64_t kLines = 4096;
  static constexpr uint64_t kSources = kLines + uint64_t{2} * kMostChunks * sizeof(ChunkLine);
  static constexpr uint64_t kSignals = kSources + uint64_t{2} * kMaxGpuWorld * sizeof(SourceLine);

  NVRAR_HD bool is_remote(uint32_t rank) const { return rank - first >= size; }
  NVRAR_HD uint32_t remotes() const { return world - size; }
  NVRAR_HD static uint64_t line(uint64_t epoch, uint32_t chunk) {
    return kLines + ((epoch % 2) * kMostChunks + chunk) * sizeof(ChunkLine);
  }
  NVRAR_HD static uint64_t source(uint64_t epoch, uint32_t rank) {
    return kSources + ((epoch % 2) * kMaxGpuWorld + rank) * sizeof(SourceLine);
  }
  NVRAR_HD uint64_t signal(uint64_t epoch, uint32_t from, uint32_t chunk) const {
    return kSignals + (((epoch % 2) * remotes() + place(from)) * kMostChunks + chunk) * sizeof(uint64_t);
  }
  NVRAR_HD uint64_t outbox(uint64_t epoch) const { return outboxes() + epoch % 2 * area_bytes; }
  NVRAR_HD uint64_t inbox(uint64_t epoch, uint32_t from) const {
    return outboxes() + (2 + (epoch % 2) * remotes() + place(from)) * area_bytes;
  }
  NVRAR_HD uint64_t bytes() const { return transfers(0) + remotes() * kTransferBytes; }
  // Of a rank of another node.
  NVRAR_HD uint64_t transfer_line(uint32_t rank) const { return transfers(place(rank)); }
  NVRAR_HD uint64_t outgoing(uint32_t rank) const { return transfers(place(rank)) + sizeof(TransferLine); }
  NVRAR_HD uint64_t incoming(uint32_t rank) const { return outgoing(rank) + kTransferSlots * sizeof(uint64_t); }

  // The index of a rank of another node among all of them.
  NVRAR_HD uint32_t place(uint32_t rank) const { return rank < first ? rank : rank - size; }

 private:
  static constexpr uint64_t kTransferBytes = sizeof(TransferLine) + 2 * kTransferSlots * sizeof(uint64_t);

  NVRAR_HD uint64_t transfers(uint32_t place) const {
    return outboxes() + (2 + uint64_t{2} * remotes()) * area_bytes + place * kTransferBytes;
  }
  NVRAR_HD uint64_t outboxes() const {
    return kSignals + (uint64_t{2} * remotes() * kMostChunks * sizeof(uint64_t) + 4095) / 4096 * 4096;
  }
};

// Which streams a rank sends.
enum class Streams : uint32_t {
  kOne,     // stream 0 to all ranks of other nodes
  kRanks,   // stream r to rank r
  kSlices,  // stream s, of slice s, which the rank owns, to the owners of that slice in the other nodes
};

// How a launch divides what crosses; the same on all ranks of the group, but for `own_bytes` and `only`.
struct CrossingShape {
  Streams streams = Streams::kOne;
  uint32_t run_bytes = 0;     // of whole runs, as they cross
  uint32_t stride = 0;        // from a stream to the next one in the areas; a multiple of run_bytes
  uint32_t chunk_bytes = 0;   // a multiple of run_bytes
  uint32_t chunks = 1;        // of a stream
  uint32_t own_bytes = 0;     // of each of the own streams, but for slices, ...
  uint32_t only = kAllRanks;  // ... or of the one to this rank, if the others are empty
  static constexpr uint32_t kAllRanks = ~0u;
};

// Of a rank: where its arena and its counters are, as whoever uses this reaches them. `counts` are for each parity and
// stream the writers that are done with its first chunk. `sums`, an area for each parity, keeps what a rank sends of
// its node's sums, which it reads again: the outbox is across a bus.
struct CrossingMemory {
  uint8_t* arena = nullptr;
  uint32_t* counts = nullptr;
  uint8_t* sums = nullptr;
  CrossingLayout layout;

  static constexpr uint64_t kCounts = uint64_t{2} * kMaxGpuWorld;
};

// One worker's view of a launch.
template <class Access>
class Crossing {
 public:
  // runs: of the message.
  NVRAR_HD Crossing(const CrossingMemory& memory, const CrossingShape& shape, const Topology& topology, uint32_t rank,
                    uint64_t epoch, uint32_t hash, uint64_t runs)
      : memory_(memory), shape_(shape), topology_(topology), rank_(rank), epoch_(epoch), hash_(hash), runs_(runs) {}

  NVRAR_HD const CrossingShape& shape() const { return shape_; }
  NVRAR_HD bool is_remote(uint32_t rank) const { return memory_.layout.is_remote(rank); }

  // Where the run at this offset of a stream that the rank sends goes.
  NVRAR_HD uint8_t* outbox(uint32_t stream, uint32_t at) const {
    return memory_.arena + memory_.layout.outbox(epoch_) + uint64_t{stream} * shape_.stride + at;
  }
  NVRAR_HD uint8_t* own_sums(uint32_t stream, uint32_t at) const {
    return memory_.sums + epoch_ % 2 * memory_.layout.area_bytes + uint64_t{stream} * shape_.stride + at;
  }
  NVRAR_HD const uint8_t* inbox(uint32_t source, uint32_t stream, uint32_t at) const {
    return memory_.arena + memory_.layout.inbox(epoch_, source) + uint64_t{stream} * shape_.stride + at;
  }
  // The stream of what comes from a rank; not of slices.
  NVRAR_HD uint32_t stream_from() const { return shape_.streams == Streams::kRanks ? rank_ : 0; }

  // The streams that the rank sends.
  template <class Visit>
  NVRAR_HD void each_stream(Visit visit) const {
    switch (shape_.streams) {
      case Streams::kOne:
        return visit(0u);
      case Streams::kRanks:
        for (uint32_t peer = 0; peer < topology_.world; ++peer) {
          if (is_remote(peer)) visit(peer);
        }
        return;
      case Streams::kSlices: {
        const uint32_t own = topology_.node_of(rank_);
        const uint32_t size = topology_.size_of(own);
        for (uint32_t slice = rank_ - topology_.first_of(own); slice < topology_.largest; slice += size) visit(slice);
        return;
      }
    }
  }
  // The bytes of one of them.
  NVRAR_HD uint32_t bytes_of(uint32_t stream) const {
    if (shape_.streams == Streams::kSlices) {
      const uint32_t slices = topology_.largest;
      return static_cast<uint32_t>((runs_ + slices - 1 - stream) / slices) * shape_.run_bytes;
    }
    return shape_.only == CrossingShape::kAllRanks || shape_.only == stream ? shape_.own_bytes : 0;
  }
  // By one thread, once all of its team have stored what a chunk has.
  NVRAR_HD void stored(uint32_t stream, uint32_t chunk) const {
    if (chunk == 0 && memory_.layout.size > 1) return count_first(stream);
    ring(stream, chunk);
  }
  // By one thread, once the rank has seen that all of its node are in the call: the first chunk of each stream waits
  // for that, too.
  NVRAR_HD void node_is_here() const {
    each_stream([&](uint32_t stream) {
      if (bytes_of(stream) == 0) return ring(stream, 0);
      if (memory_.layout.size > 1) count_first(stream);
    });
  }

  // Waits until a chunk is there, by one thread of the team that needs it. keeps_waiting is asked after each look;
  // false: the launch has failed.
  template <class KeepsWaiting>
  NVRAR_HD bool await(uint32_t source, uint32_t stream, uint32_t chunk, KeepsWaiting keeps_waiting) const {
    const auto* const signal = reinterpret_cast<const uint64_t*>(
        memory_.arena + memory_.layout.signal(epoch_, source, stream * shape_.chunks + chunk));
    while (Access::look(signal) != epoch_) {
      if (!keeps_waiting()) return false;
    }
    return true;
  }

  // The ranks whose first chunks are this rank's evidence: of each node one that tells of all, or all.
  template <class Visit>
  NVRAR_HD void each_heard(Visit visit) const {
    const uint32_t own = topology_.node_of(rank_);
    for (uint32_t node = 0; node < topology_.nodes(); ++node) {
      if (node == own) continue;
      const uint32_t first = topology_.first_of(node);
      const uint32_t size = topology_.size_of(node);
      for (uint32_t i = 0; i < size; ++i) {
        if (shape_.streams != Streams::kSlices || shares_slice(i, size)) visit(first + i);
      }
    }
  }
  // Waits until a source has entered the launch, and with it all of its node if only some ranks there are heard.
  // *same: whether it is in the same call.
  template <class KeepsWaiting>
  NVRAR_HD bool hear(uint32_t source, bool* same, KeepsWaiting keeps_waiting) const {
    const auto* const line =
        reinterpret_cast<const SourceLine*>(memory_.arena + CrossingLayout::source(epoch_, source));
    for (;;) {
      const uint64_t word = Access::look(&line->word);
      if (SourceLine::has_entered(word, epoch_)) {
        *same = SourceLine::hash(word) == hash_;
        if (!*same || SourceLine::node_is_here(word)) return true;
      }
      if (!keeps_waiting()) return false;
    }
  }

 private:
  // Whether rank i of a node of that size owns a slice that this rank owns, too.
  NVRAR_HD bool shares_slice(uint32_t i, uint32_t size) const {
    const uint32_t own = topology_.node_of(rank_);
    const uint32_t own_size = topology_.size_of(own);
    for (uint32_t slice = rank_ - topology_.first_of(own); slice < topology_.largest; slice += own_size) {
      if (slice % size == i) return true;
    }
    return false;
  }
  NVRAR_HD uint64_t receivers(uint32_t stream) const {
    if (shape_.streams == Streams::kRanks) return uint64_t{1} << stream;
    uint64_t ranks = 0;
    const uint32_t own = topology_.node_of(rank_);
    for (uint32_t node = 0; node < topology_.nodes(); ++node) {
      if (node == own) continue;
      const uint32_t first = topology_.first_of(node);
      const uint32_t size = topology_.size_of(node);
      ranks |= shape_.streams == Streams::kOne ? ((uint64_t{1} << size) - 1) << first
                                               : uint64_t{1} << (first + stream % size);
    }
    return ranks;
  }
  NVRAR_HD uint32_t lines() const {
    const uint32_t streams = shape_.streams == Streams::kOne     ? 1
                             : shape_.streams == Streams::kRanks ? topology_.world
                                                                 : topology_.largest;
    return streams * shape_.chunks;
  }
  // The team that has stored the first chunk, and the worker that has compared the headers: the last one rings.
  NVRAR_HD void count_first(uint32_t stream) const {
    uint32_t* const counter = memory_.counts + epoch_ % 2 * kMaxGpuWorld + stream;
    if (Access::add(counter, 1) == 0) return;
    *counter = 0;  // for the launch after the next one
    ring(stream, 0);
  }
  NVRAR_HD void ring(uint32_t stream, uint32_t chunk) const {
    const uint32_t at = chunk * shape_.chunk_bytes;
    const uint32_t left = bytes_of(stream) - at;
    auto* const line =
        reinterpret_cast<ChunkLine*>(memory_.arena + CrossingLayout::line(epoch_, stream * shape_.chunks + chunk));
    line->to = receivers(stream);
    line->offset = stream * shape_.stride + at;
    line->bytes = left < shape_.chunk_bytes ? left : shape_.chunk_bytes;
    line->hash = hash_;
    line->node_is_here = chunk == 0 ? 1 : 0;
    line->lines = lines();
    Access::ring(&line->bell, epoch_);
  }

  const CrossingMemory& memory_;
  const CrossingShape& shape_;
  Topology topology_;
  uint32_t rank_;
  uint64_t epoch_;
  uint32_t hash_;
  uint64_t runs_;
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_CROSSING_H
