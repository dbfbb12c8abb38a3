// What a link carries: frames, each a head and its payload. All members run the same build, which connecting checks, so
// the structs travel as they are.
#ifndef NVRAR_LINK_FRAME_H
#define NVRAR_LINK_FRAME_H

#include <cstdint>

#include "protocol/crossing.h"

namespace nvrar::link {

enum class FrameKind : uint16_t {
  kPackets = 1,   // the payload of packets of one epoch, for the slots from `slot` on, `stride` apart run by run
  kNumbered = 2,  // the same for packets whose epochs are `epoch`, `epoch` + 1 and so on
  kAsk = 3,       // asks for kState; `epoch` is the number of the question, or 0
  kState = 4,     // what the sender is doing; `epoch` is that of the question which this answers, or 0
  kPoison = 5,    // the sender's group has failed
  kGoodbye = 6,   // the sender has left the group; the end of the link is no failure
  kChunk = 7,     // of what a rank sends to other nodes in a launch (protocol/crossing.h); `slot` is its number
};

constexpr bool is_data(FrameKind kind) noexcept {
  return kind == FrameKind::kPackets || kind == FrameKind::kNumbered || kind == FrameKind::kChunk;
}

struct FrameHead {
  uint32_t bytes;  // of the payload
  FrameKind kind;
  uint16_t stride;  // from a run's first slot to the next run's; 0: all packets lie side by side
  uint32_t number;  // of this frame on its link: the first is 0
  uint32_t slot;
  uint64_t epoch;
  // Of a chunk. In other frames they keep the payload of large messages aligned to vectors, which are summed where they
  // were received.
  uint32_t offset = 0;  // in the source's part of the receiver's inbox
  uint32_t hash = 0;    // of the source's call (protocol/call_header.h)
};
static_assert(sizeof(FrameHead) == 32);

// No frame but a chunk has more payload; a run has up to 512 bytes.
constexpr uint32_t kMostPayloadBytes = 16384;
constexpr uint32_t most_payload_bytes(FrameKind kind) noexcept {
  return kind == FrameKind::kChunk ? protocol::kMostChunkBytes : kMostPayloadBytes;
}

}  // namespace nvrar::link

#endif  // NVRAR_LINK_FRAME_H
