// Links that one thread looks at: it waits for their sockets, and other threads can wake it.
#ifndef NVRAR_LINK_LINK_SET_H
#define NVRAR_LINK_LINK_SET_H

#include <sys/epoll.h>

#include <vector>

#include "common/handle.h"
#include "link/link.h"

namespace nvrar::link {

class LinkSet {
 public:
  static constexpr int kEventsAtOnce = 64;

  // Before all else. Throws NVRAR_SYSTEM.
  void open();
  // Throws NVRAR_SYSTEM. The link must outlive this object, or be cleared.
  void add(Link* link);
  // The link has ended, or goes to another set: its socket is not waited for any more.
  void forget(Link* link) noexcept { (void)watch(EPOLL_CTL_DEL, link, 0); }
  void clear() noexcept { links_.clear(); }
  const std::vector<Link*>& links() const noexcept { return links_; }

  // Waits until a socket has something, or takes more of what is left to send, wake() is called, or so many
  // milliseconds; -1: for ever. Returns the number of events.
  int wait(epoll_event* events, int limit_ms) noexcept;
  // Which sockets have something. Does not wait.
  int poll(epoll_event* events) noexcept;
  // wait(), when the events do not matter. Returns whether there were any.
  bool wait(int limit_ms) noexcept;
  // Ends a wait; by any thread.
  void wake() noexcept;
  // Whether wake() was called since this was asked last.
  bool was_woken() noexcept;
  int wake_fd() const noexcept { return wake_.get(); }

 private:
  // Null: the eventfd. Returns whether epoll could be told.
  bool watch(int how, Link* link, uint32_t events) noexcept;

  std::vector<Link*> links_;
  std::vector<bool> awaits_room_;  // by link, as epoll was told
  FileDescriptor epoll_;
  FileDescriptor wake_;  // an eventfd
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINK_SET_H
