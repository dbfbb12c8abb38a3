// Where what arrives on the links of a member goes. A link carries frames; what they mean, and the memory that they are
// for, is known by its inbox only.
#ifndef NVRAR_LINK_INBOX_H
#define NVRAR_LINK_INBOX_H

#include <cstdint>

#include "link/frame.h"

namespace nvrar::link {

class Link;

// Where the payload of a frame goes.
struct Destination {
  enum class Kind : uint8_t {
    // It stays in the link until take(), or until it is taken from there run by run (runs.h).
    kLink,
    // To `memory`, which is as large as the payload. It is the inbox's own and stays until take() or broke(): no end
    // of a call stops what is under way.
    kMemory,
    // Not known yet: nothing more is read, not even the link's end, until whoever looks at the link asks again. Only
    // for an inbox whose owner looks all the time: the thread of Links waits for sockets.
    kLater,
    // Nowhere: the link ends.
    kRefused,
  };
  Kind kind;
  uint8_t* memory;
  const char* why;  // it is refused

  static Destination link() noexcept { return {Kind::kLink, nullptr, nullptr}; }
  static Destination to(uint8_t* memory) noexcept { return {Kind::kMemory, memory, nullptr}; }
  static Destination later() noexcept { return {Kind::kLater, nullptr, nullptr}; }
  static Destination refused(const char* why) noexcept { return {Kind::kRefused, nullptr, why}; }
};

// One thread at a time calls it.
class Inbox {
 public:
  virtual ~Inbox() = default;
  // Asked once the head of a frame has arrived, before its payload is read.
  virtual Destination where(Link& from, const FrameHead& head) noexcept = 0;
  // The whole payload, or what was not taken as runs, has arrived at its destination. Returns null, or why it is
  // refused: then the link ends, and nothing of it was used. An answer is put on the same link.
  virtual const char* take(Link& from, const FrameHead& head, const uint8_t* payload) noexcept = 0;
  // The link to this rank has ended without a goodbye.
  virtual void broke(uint32_t source) noexcept = 0;
  // Called by the thread of the links after packets were taken: wakes the member if it waits for them.
  virtual void settled() noexcept = 0;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_INBOX_H
