// A member's memory, which its peers map: control block, then rings. It has no name in any file system, so nothing
// stays behind however the process ends.
#ifndef NVRAR_CONTROL_SHARED_SEGMENT_H
#define NVRAR_CONTROL_SHARED_SEGMENT_H

#include "common/handle.h"
#include "control/control_block.h"
#include "protocol/ring_layout.h"

namespace nvrar::control {

// How a peer finds the segment. The nonce decides: a number of a process or a descriptor may mean something else there.
struct SegmentAddress {
  int32_t pid;
  int32_t fd;
  uint64_t bytes;
  uint8_t nonce[kNonceBytes];
};

class SharedSegment {
 public:
  SharedSegment() = default;
  // Checks for room, reserves, and fills the rings, if there are to be any, with empty slots. Throws NVRAR_SYSTEM.
  static SharedSegment create(const protocol::RingLayout* rings, uint32_t rank, uint32_t world, uint64_t group_hash);
  // Throws NVRAR_SYSTEM if the segment cannot be reached from here: the peer is on another host, or hidden, or what is
  // at that address is not this group's.
  static SharedSegment map_peer(const SegmentAddress& address, uint32_t rank, uint64_t group_hash);

  SegmentAddress address() const noexcept;
  ControlBlock& control() const noexcept { return *reinterpret_cast<ControlBlock*>(mapping_.base()); }
  protocol::Packet* rings() const noexcept {
    return reinterpret_cast<protocol::Packet*>(mapping_.base() + kControlBytes);
  }

 private:
  FileDescriptor file_;  // held by the owner for as long as it lives: peers open it through /proc
  Mapping mapping_;
};

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_SHARED_SEGMENT_H
