// The inbox of a member with rings: the packets that ranks of other hosts send are stored into its rings as if they had
// mapped them, but for runs that a call takes from a link (runs.h).
#ifndef NVRAR_LINK_RING_INBOX_H
#define NVRAR_LINK_RING_INBOX_H

#include <atomic>
#include <string>
#include <vector>

#include "link/frame_check.h"
#include "link/group_talk.h"
#include "protocol/ring_layout.h"

namespace nvrar::link {

class RingInbox final : public Inbox {
 public:
  // Listens at the address. Throws NVRAR_INVALID_ARGUMENT or NVRAR_SYSTEM.
  RingInbox(uint32_t world, const std::string& numeric_address, uint16_t first_port, uint16_t last_port, bool encrypted)
      : talk_(world, numeric_address, first_port, last_port, encrypted) {}

  // Before connect: into what is stored what the remote ranks send.
  void open(shared::GroupSegments* segments, const protocol::RingLayout& layout) noexcept;
  // Throws what GroupTalk::connect throws.
  void connect(const Digest& secret, const std::vector<Remote>& remotes, uint64_t deadline_ns) {
    talk_.connect(secret, remotes, deadline_ns, this, LinksOwner::kThread);
  }

  GroupTalk& talk() noexcept { return talk_; }
  const GroupTalk& talk() const noexcept { return talk_; }
  Links& links() noexcept { return talk_.links(); }
  // Before a launch sends or waits. Packets are taken only for this epoch and the next.
  void enter(uint64_t epoch) noexcept { epoch_.store(epoch, std::memory_order_release); }

  Destination where(Link& from, const FrameHead& head) noexcept override;
  const char* take(Link& from, const FrameHead& head, const uint8_t* payload) noexcept override;
  void broke(uint32_t source) noexcept override { talk_.broke(source); }
  void settled() noexcept override { talk_.settled(); }

 private:
  const char* check(uint32_t source, const FrameHead& head, Place* place) const noexcept;
  const char* store(uint32_t source, const FrameHead& head, const uint8_t* payload) noexcept;

  shared::GroupSegments* segments_ = nullptr;
  protocol::RingLayout layout_{};
  std::atomic<uint64_t> epoch_{0};
  GroupTalk talk_;  // the last member: its thread ends before the others
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_RING_INBOX_H
