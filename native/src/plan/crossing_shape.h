// How a launch on GPUs of several hosts divides what crosses between them (protocol/crossing.h).
#ifndef NVRAR_PLAN_CROSSING_SHAPE_H
#define NVRAR_PLAN_CROSSING_SHAPE_H

#include "call/algorithm.h"
#include "plan/launch_shape.h"
#include "protocol/crossing.h"
#include "protocol/launch.h"

namespace nvrar {

// Of a whole run of packets of this kind.
constexpr uint32_t run_bytes_of(protocol::PacketKind kind) noexcept {
  return kind == protocol::PacketKind::kEpoch ? protocol::EpochPacket::kRunBytes : protocol::SentinelPacket::kRunBytes;
}

// The most runs of a message that a launch can have: what crosses fits into an area.
uint64_t most_crossing_runs(Algorithm algorithm, protocol::PacketKind kind, const protocol::Topology& topology,
                            uint32_t partial_parts, uint64_t area_bytes) noexcept;
// The division of a launch of so many bytes, without what is the rank's own. threads: of a rank's proxy, the same on
// all ranks.
protocol::CrossingShape crossing_shape_of(Algorithm algorithm, protocol::PacketKind kind,
                                          const protocol::Topology& topology, uint32_t partial_parts, uint64_t bytes,
                                          uint32_t threads) noexcept;
// What this rank sends of it.
void give_own_part(protocol::CrossingShape* shape, Algorithm algorithm, const protocol::Launch& launch) noexcept;
// A block for each chunk, as far as that makes a launch faster, and one for the headers.
LaunchShape crossing_launch_shape(const protocol::CrossingShape& shape, const KernelShape& kernel, uint32_t most_blocks,
                                  const TunedShape& tuned) noexcept;

}  // namespace nvrar

#endif  // NVRAR_PLAN_CROSSING_SHAPE_H
