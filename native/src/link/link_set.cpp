#include "link/link_set.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "common/error.h"

namespace nvrar::link {
namespace {

void require(bool is_watched) {
  if (!is_watched) throw Error(NVRAR_SYSTEM, "cannot watch links: " + std::string(::strerrordesc_np(errno)));
}

}  // namespace

void LinkSet::open() {
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  require(epoll_ && wake_ && watch(EPOLL_CTL_ADD, nullptr, EPOLLIN));
}

void LinkSet::add(Link* link) {
  links_.push_back(link);
  awaits_room_.push_back(false);
  require(watch(EPOLL_CTL_ADD, link, EPOLLIN));
}

bool LinkSet::watch(int how, Link* link, uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.ptr = link;
  return ::epoll_ctl(epoll_.get(), how, link == nullptr ? wake_.get() : link->fd(), &event) == 0;
}

int LinkSet::wait(epoll_event* events, int limit_ms) noexcept {
  // Has epoll name the links that are behind once their sockets take more.
  for (size_t i = 0; i < links_.size(); ++i) {
    const bool awaits = links_[i]->is_behind();
    if (awaits == awaits_room_[i]) continue;
    awaits_room_[i] = awaits;
    (void)watch(EPOLL_CTL_MOD, links_[i], awaits ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  return ::epoll_wait(epoll_.get(), events, kEventsAtOnce, limit_ms);
}

int LinkSet::poll(epoll_event* events) noexcept { return ::epoll_wait(epoll_.get(), events, kEventsAtOnce, 0); }

bool LinkSet::wait(int limit_ms) noexcept {
  epoll_event events[kEventsAtOnce];
  const int count = wait(events, limit_ms);
  if (count > 0) (void)was_woken();
  return count > 0;
}

void LinkSet::wake() noexcept { (void)::eventfd_write(wake_.get(), 1); }

bool LinkSet::was_woken() noexcept {
  eventfd_t seen = 0;
  return ::eventfd_read(wake_.get(), &seen) == 0;
}

}  // namespace nvrar::link
