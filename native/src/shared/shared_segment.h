// A member's shared memory, which its peers map: the control block, then the rings. It has no name in any file system,
// so nothing is left behind however the process ends.
#ifndef NVRAR_SHARED_SHARED_SEGMENT_H
#define NVRAR_SHARED_SHARED_SEGMENT_H

#include "common/handle.h"
#include "protocol/ring_layout.h"
#include "shared/control_block.h"

namespace nvrar::shared {

// The address by which a peer finds the segment. The nonce identifies it, because the pid or the file descriptor may
// mean something else in the peer's namespace.
struct SegmentAddress {
  int32_t pid;
  int32_t fd;
  uint64_t bytes;
  uint8_t nonce[kNonceBytes];
};

class SharedSegment {
 public:
  SharedSegment() = default;
  // Checks for room, reserves the memory, and fills the rings, if there are any, with empty slots. Throws NVRAR_SYSTEM.
  // sharers: the ranks that reserve memory of this host at the same time.
  static SharedSegment create(const protocol::RingLayout* rings, uint32_t rank, uint32_t sharers, uint64_t group_hash);
  // populated: whether its pages are mapped at once, so that no call meets a page fault. Throws NVRAR_SYSTEM if this
  // process cannot map the segment: the peer is on another host, or is not visible, or the file at that address is not
  // this group's.
  static SharedSegment map_peer(const SegmentAddress& address, uint32_t rank, uint64_t group_hash, bool populated);

  // Maps only the control block of a member's segment, and only to read it: for who is in no group. Throws as map_peer.
  static SharedSegment map_to_look(const SegmentAddress& address, uint32_t rank, uint64_t group_hash);

  // Stands for the segment of a rank on another host: memory of this process alone, without rings, that holds what is
  // known of that rank. Throws NVRAR_SYSTEM.
  static SharedSegment of_remote(uint32_t rank, uint64_t group_hash);

  SegmentAddress address() const noexcept;
  // Of map_to_look: may only be read.
  ControlBlock& control() const noexcept { return *reinterpret_cast<ControlBlock*>(mapping_.base()); }
  protocol::Packet* rings() const noexcept {
    return reinterpret_cast<protocol::Packet*>(mapping_.base() + kControlBytes);
  }

 private:
  static SharedSegment map(const SegmentAddress& address, uint32_t rank, uint64_t group_hash, bool populated,
                           bool to_look);

  FileDescriptor file_;  // the owner keeps it open, because peers open it through /proc
  Mapping mapping_;
};

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_SHARED_SEGMENT_H
