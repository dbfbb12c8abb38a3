// A member and the ranks of its group that are on other hosts: the links to them, and what ranks tell each other beside
// the data: what they are doing, that the group has failed, that they leave. What the remote ranks are doing is kept in
// the control blocks that stand for theirs.
#ifndef NVRAR_LINK_GROUP_TALK_H
#define NVRAR_LINK_GROUP_TALK_H

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "link/inbox.h"
#include "link/links.h"
#include "shared/group_segments.h"

namespace nvrar::link {

class GroupTalk {
 public:
  // Listens at the address. Throws NVRAR_INVALID_ARGUMENT or NVRAR_SYSTEM.
  GroupTalk(uint32_t world, const std::string& numeric_address, uint16_t first_port, uint16_t last_port, bool encrypted)
      : encrypted_(encrypted), known_(world), answered_(world), links_(numeric_address, first_port, last_port) {}

  const LinkAddress& address() const noexcept { return links_.address(); }
  // Before connect: `segments` has the control blocks that stand for those of the remote ranks.
  void open(shared::GroupSegments* segments) noexcept { segments_ = segments; }
  // Links this member to the remote ranks, whose frames go to the inbox. Throws Error; if the group has failed
  // meanwhile, the ranks that could be linked have been told.
  void connect(const Digest& secret, const std::vector<Remote>& remotes, uint64_t deadline_ns, Inbox* inbox,
               LinksOwner owner, uint32_t connections = 1, uint32_t lanes = 1);

  Links& links() noexcept { return links_; }
  const Links& links() const noexcept { return links_; }
  // Tells all remote ranks what this one is doing, and that the group has failed.
  void tell(const shared::Poison& poison) noexcept;
  // Tells all remote ranks what this one was doing last, before it leaves a group that has failed.
  void tell_last() noexcept;
  // Asks these ranks, and those for which they wait, as far as it is known, what they are doing.
  void ask(const RankSet& awaited) noexcept;
  // Asks all remote ranks what they are doing, and waits for the answers, at most so long, and not once the group
  // fails.
  void learn(uint64_t limit_ns) noexcept;

  nvrar_link link_of(uint32_t rank) const noexcept;

  // Of a frame that is no data (Inbox::take), and of a link that has ended (Inbox::broke).
  const char* take(Link& from, const FrameHead& head, const uint8_t* payload) noexcept;
  void broke(uint32_t source) noexcept;
  // Wakes the member if it waits.
  void settled() noexcept;

 private:
  // The payload of FrameKind::kPoison.
  struct Failure {
    uint64_t word;
    RankSet ranks;
  };
  // What a rank tells of itself.
  struct State {
    RankSet waits_for;
    uint64_t looked_ago_ns;
    nvrar_call call;
  };

  State own_state() const noexcept;
  void note(uint32_t source, const State& state) noexcept;

  const bool encrypted_;
  shared::GroupSegments* segments_ = nullptr;
  struct Known {
    nvrar_call call;
    uint64_t number;  // in the flight record that stands for the rank's
  };
  std::vector<Known> known_;  // by rank
  std::atomic<uint64_t> asked_{0};
  std::vector<std::atomic<uint64_t>> answered_;  // by rank: the last question
  Links links_;                                  // the last member: its thread ends before the others
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_GROUP_TALK_H
