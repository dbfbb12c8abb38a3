// Runs of packets that a caller awaits, taken off a link past the slots in which its inbox would store them: they are
// read and written once less. False, or a link that has ended: Link's functions of receiving.
#ifndef NVRAR_LINK_RUNS_H
#define NVRAR_LINK_RUNS_H

#include <algorithm>
#include <cstdint>

#include "link/link.h"

namespace nvrar::link {

// A run of packets as its receiver expects it; whole_bytes: of a whole run of this kind of packets.
struct WantedRun {
  uint64_t slot;
  uint64_t epoch;
  uint32_t bytes;
  uint32_t whole_bytes;
};

// Whether the rest of a frame begins with this run.
inline bool begins_with(const FrameHead& rest, const WantedRun& run) noexcept {
  return rest.kind == FrameKind::kPackets && rest.slot == run.slot && rest.epoch == run.epoch &&
         run.bytes == (rest.stride == 0 ? rest.bytes : std::min(rest.bytes, run.whole_bytes));
}

// The next run if the link is within a frame that begins with it now, and it has arrived: nearly always, but for the
// first run of a frame. Else null, and nothing has changed. Its payload can be used until the link is filled.
inline const uint8_t* take_next_run(Link& link, const WantedRun& wanted) noexcept {
  const FrameHead* const rest = link.rest();
  if (rest == nullptr || !begins_with(*rest, wanted) || link.arrived() < wanted.bytes) return nullptr;
  return link.take_part(wanted.bytes, 1);
}

// The same for any run that the link has next. Frames before it are given to the inbox. *run is null if it is not next
// or has not arrived.
bool take_run(Link& link, const WantedRun& wanted, bool* took, const uint8_t** run) noexcept;

// The whole runs that are next, if the first of them is this one and they are `stride` slots apart: *bytes of payload,
// side by side, at most `most`. Else null, and nothing has changed.
const uint8_t* take_following(Link& link, const WantedRun& wanted, uint64_t stride, uint64_t most,
                              uint64_t* bytes) noexcept;

}  // namespace nvrar::link

#endif  // NVRAR_LINK_RUNS_H
