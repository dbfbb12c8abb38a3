#include "plan.h"

#include "call.h"

namespace nvrar {
namespace {

using protocol::EpochPacket;
using protocol::PacketKind;
using protocol::SentinelPacket;

Algorithm algorithm_of(int32_t collective) noexcept {
  switch (collective) {
    case NVRAR_ALL_GATHER:
      return Algorithm::kAllGather;
    case NVRAR_BROADCAST:
      return Algorithm::kBroadcast;
    case NVRAR_BARRIER:
      return Algorithm::kBarrier;
    default:
      return Algorithm::kOneShot;
  }
}

}  // namespace

Plan make_plan(int32_t collective, uint64_t count, int32_t data_type, uint32_t world, uint64_t ring_bytes) noexcept {
  if (world == 1) return {Algorithm::kCopy, PacketKind::kEpoch, count, count == 0 ? uint64_t{0} : uint64_t{1}};
  const Algorithm algorithm = algorithm_of(collective);
  if (algorithm == Algorithm::kBarrier) return {algorithm, PacketKind::kEpoch, 0, 1};

  const uint64_t size = element_bytes(data_type);
  // Integers have no bit pattern to spare for a sentinel, and data movement must be bit-exact (protocol.md 1).
  const bool spare = data_type == NVRAR_FLOAT32 || data_type == NVRAR_FLOAT16 || data_type == NVRAR_BFLOAT16;
  const bool sentinel = algorithm == Algorithm::kOneShot && spare && count > kEpochReductionBytesMax / size;
  const PacketKind kind = sentinel ? PacketKind::kSentinel : PacketKind::kEpoch;
  const uint64_t payload_bytes = sentinel ? SentinelPacket::kPayloadBytes : EpochPacket::kPayloadBytes;
  const protocol::RingLayout layout{ring_bytes, world};
  const uint64_t per_launch = layout.vectors_per_launch(kind) * (payload_bytes / size);
  const uint64_t launches = count / per_launch + (count % per_launch != 0 ? 1 : 0);
  const int32_t choice = algorithm == Algorithm::kOneShot ? NVRAR_ALGORITHM_ONE_SHOT : NVRAR_ALGORITHM_AUTO;
  return {algorithm, kind, per_launch, launches, choice};
}

}  // namespace nvrar
