// The rows of a fused all-reduce, and the order in which their squares are added (protocol.md 18). Compiled for host
// and device.
//
// A row of h consists of words of four bytes, adjacent words make a part, adjacent parts a run, and lane i adds the
// runs i, i + kRowLanes, i + 2 * kRowLanes, ... Within parts and runs, and of the lanes, adjacent sums are combined as
// a balanced binary tree.
#ifndef NVRAR_PROTOCOL_FUSION_H
#define NVRAR_PROTOCOL_FUSION_H

#include <stdint.h>

#include "protocol/attributes.h"

namespace nvrar::protocol {

// The elements of a row are a multiple of this, so that rows of any type consist of whole packets.
constexpr uint32_t kHiddenStep = 8;

constexpr uint32_t kPartWords = 32;
constexpr uint32_t kPartBytes = kPartWords * 4;
constexpr uint32_t kRunParts = 4;
constexpr uint32_t kRowLanes = 32;

// The last part may be shorter than the others.
NVRAR_HD constexpr uint32_t parts_of(uint32_t row_bytes) { return (row_bytes + kPartBytes - 1) / kPartBytes; }

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_FUSION_H
