// Whether a rank may send the packets of a frame: of an epoch that is near the receiver's, for slots of the receiver's
// rings that are the sender's. A pure function.
#ifndef NVRAR_LINK_FRAME_CHECK_H
#define NVRAR_LINK_FRAME_CHECK_H

#include <cstdint>

#include "link/frame.h"
#include "protocol/ring_layout.h"

namespace nvrar::link {

// Where the packets of a frame go.
struct Place {
  uint64_t slot;
  uint64_t slots;  // from the first to the last
  protocol::PacketKind kind;
};

// `rank` receives in `epoch` what `source` sends. Returns null, or why the packets are refused.
const char* check_packets(const protocol::RingLayout& layout, uint32_t rank, uint64_t epoch, uint32_t source,
                          const FrameHead& head, Place* place) noexcept;

}  // namespace nvrar::link

#endif  // NVRAR_LINK_FRAME_CHECK_H
