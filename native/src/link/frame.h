// What a link carries: frames, each a head and its payload. All members run the same build, which connecting checks, so
// the structs travel as they are.
#ifndef NVRAR_LINK_FRAME_H
#define NVRAR_LINK_FRAME_H

#include <cstdint>

namespace nvrar::link {

enum class FrameKind : uint16_t {
  kPackets = 1,   // the payload of packets of one epoch, for the slots from `slot` on, `stride` apart run by run
  kNumbered = 2,  // the same for packets whose epochs are `epoch`, `epoch` + 1 and so on
  kAsk = 3,       // asks for kState; `epoch` is the number of the question, or 0
  kState = 4,     // what the sender is doing; `epoch` is that of the question which this answers, or 0
  kPoison = 5,    // the sender's group has failed
  kGoodbye = 6,   // the sender has left the group; the end of the link is no failure
};

struct FrameHead {
  uint32_t bytes;  // of the payload
  FrameKind kind;
  uint16_t stride;  // from a run's first slot to the next run's; 0: all packets lie side by side
  uint32_t number;  // of this frame on its link: the first is 0
  uint32_t slot;
  uint64_t epoch;
  uint64_t unused = 0;  // keeps those of large messages aligned to vectors, which are summed where they were received
};
static_assert(sizeof(FrameHead) == 32);

// No frame has more payload; a run has up to 512 bytes.
constexpr uint32_t kMostPayloadBytes = 16384;

class Link;

// Takes what arrives on the links of a member, but for runs that are taken from a link itself, and which it checks. One
// thread at a time calls it.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Returns null, or why a frame of packets is refused: then the link ends, and nothing of the frame was used.
  virtual const char* check(Link& from, const FrameHead& head) noexcept = 0;
  // The same for any frame, which it takes. An answer is put on the same link.
  virtual const char* take(Link& from, const FrameHead& head, const uint8_t* payload) noexcept = 0;
  // The link to this rank has ended without a goodbye.
  virtual void broke(uint32_t source) noexcept = 0;
  // Called by the thread of the links after packets were taken: wakes the member if it waits for them.
  virtual void settled() noexcept = 0;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_FRAME_H
