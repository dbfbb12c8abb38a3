#include "plan/crossing_shape.h"

#include <algorithm>

namespace nvrar {
namespace {

using protocol::CrossingShape;
using protocol::PacketKind;
using protocol::Streams;

Streams streams_of(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::kHierarchical:
      return Streams::kSlices;
    case Algorithm::kReduce:
    case Algorithm::kReduceScatter:
    case Algorithm::kAllToAll:
      return Streams::kRanks;
    default:
      return Streams::kOne;
  }
}

uint32_t count_of(Streams streams, const protocol::Topology& topology) noexcept {
  return streams == Streams::kOne ? 1 : streams == Streams::kRanks ? topology.world : topology.largest;
}

uint64_t round_up(uint64_t bytes, uint64_t to) noexcept { return (bytes + to - 1) / to * to; }

}  // namespace

uint64_t most_crossing_runs(Algorithm algorithm, PacketKind kind, const protocol::Topology& topology,
                            uint32_t partial_parts, uint64_t area_bytes) noexcept {
  const Streams streams = streams_of(algorithm);
  const uint64_t of_a_stream = area_bytes / count_of(streams, topology);
  const uint64_t run_bytes = run_bytes_of(kind);
  return streams == Streams::kSlices ? of_a_stream / (run_bytes * partial_parts) * topology.largest
                                     : of_a_stream / run_bytes;
}

CrossingShape crossing_shape_of(Algorithm algorithm, PacketKind kind, const protocol::Topology& topology,
                                uint32_t partial_parts, uint64_t message_bytes, uint32_t threads) noexcept {
  CrossingShape shape;
  shape.streams = streams_of(algorithm);
  shape.run_bytes = run_bytes_of(kind);
  uint64_t bytes = round_up(message_bytes, shape.run_bytes);
  if (shape.streams == Streams::kSlices) {
    const uint32_t slices = topology.largest;
    const uint64_t rows = (bytes / shape.run_bytes + slices - 1) / slices;
    shape.run_bytes *= partial_parts;
    bytes = rows * shape.run_bytes;
  }
  // Several chunks travel at once, one for each thread, as long as each is worth its system calls. A thread that is
  // alone does better with few: while it sends one, the kernel takes the one before.
  const uint32_t streams = count_of(shape.streams, topology);
  const uint64_t worth_a_call = threads == 1 ? 2 * protocol::kLeastChunkBytes : protocol::kLeastChunkBytes;
  const uint64_t wanted = std::clamp<uint64_t>(bytes / std::max(threads, 2u), worth_a_call, protocol::kMostChunkBytes);
  const uint64_t least = (bytes + protocol::kMostChunks / streams - 1) / (protocol::kMostChunks / streams);
  shape.chunk_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(round_up(std::max(wanted, least), shape.run_bytes),
                                               protocol::kMostChunkBytes / shape.run_bytes * shape.run_bytes));
  shape.chunks = std::max(static_cast<uint32_t>((bytes + shape.chunk_bytes - 1) / shape.chunk_bytes), 1u);
  shape.stride = static_cast<uint32_t>(bytes);
  return shape;
}

void give_own_part(CrossingShape* shape, Algorithm algorithm, const protocol::Launch& launch) noexcept {
  shape->own_bytes = static_cast<uint32_t>(launch.bytes);
  if (algorithm == Algorithm::kReduce) shape->only = launch.root;
  const bool sends =
      algorithm != Algorithm::kBarrier && (algorithm != Algorithm::kBroadcast || launch.rank == launch.root);
  if (!sends) shape->own_bytes = 0;
}

LaunchShape crossing_launch_shape(const CrossingShape& shape, const KernelShape& kernel, uint32_t most_blocks,
                                  const TunedShape& tuned) noexcept {
  constexpr uint32_t kMostTeams = 64;
  // Of one stream. Each takes a chunk at a time: with fewer the first chunks are full sooner, and cross meanwhile.
  constexpr uint32_t kMostTeamsOfOne = 12;
  const uint32_t of_a_chunk = shape.chunk_bytes / shape.run_bytes;
  uint32_t teams =
      std::min({shape.chunks * (shape.streams == Streams::kSlices ? 2 : 1), most_blocks - kernel.more_blocks,
                shape.streams == Streams::kOne ? kMostTeamsOfOne : kMostTeams});
  if (tuned.blocks != 0) teams = std::min(teams, tuned.blocks);
  LaunchShape result;
  result.tiles_per_block = std::min(kernel.max_tiles, of_a_chunk);
  if (tuned.tiles != 0) result.tiles_per_block = std::min(kernel.max_tiles, tuned.tiles);
  result.blocks = teams + kernel.more_blocks;
  result.threads = result.tiles_per_block * kernel.threads_per_tile;
  result.single = false;
  return result;
}

}  // namespace nvrar
