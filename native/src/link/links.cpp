#include "link/links.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/error.h"
#include "common/tick_clock.h"
#include "common/watched.h"

namespace nvrar::link {
namespace {

// How long the thread leaves the links to a member that makes calls, before it looks whether it still does: the longer,
// the longer it has. What arrives would wake the thread otherwise, which takes a small call an eighth of its time.
constexpr int kFirstPauseMs = 1;
constexpr int kLongestPauseMs = 4;
constexpr int kEventsAtOnce = 64;
// So many links are read sooner than the kernel says which of them have something.
constexpr size_t kFewLinks = 8;
constexpr int kReceiveRoomBytes = 1 << 20;  // the message of a launch with the default ring_bytes
constexpr int kLooksToCatchUp = 64;         // more than a socket's buffer holds
// A call that fails because a host is cut off may wait for this.
constexpr uint64_t kGoodbyeNs = kNsPerSecond / 2;
constexpr useconds_t kGoodbyePollUs = 200;

// The kernel makes room for so much, which stays when the limit does not. By itself it makes room for what is read in a
// round trip: too little for a message whose sender does not wait until it is read. SO_RCVBUF would end the kernel's
// own adjustments. Not before a peer has proved who it is: strangers could fill it.
void make_receive_room(int fd) noexcept {
  for (const int bytes : {kReceiveRoomBytes, 1}) (void)::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

}  // namespace

Links::Links(const std::string& numeric_address, uint16_t first_port, uint16_t last_port)
    : listener_(Listener::open(numeric_address, first_port, last_port)) {}

Links::~Links() {
  if (!thread_.joinable()) return;
  leave(kGoodbyeNs, [] { return false; });
  ends_.store(true);
  (void)::eventfd_write(wake_.get(), 1);
  thread_.join();
}

// A socket that is closed before its peer's host has everything may take back what is under way. Meanwhile the thread
// goes on sending, and takes what arrives: a socket that is closed with something unread takes back even more.
void Links::leave(uint64_t limit_ns, const std::function<bool()>& ended) noexcept {
  for (size_t i = 0; i < links_.size() && !left_; ++i) {
    links_[i]->put(FrameKind::kGoodbye, 0, 0, nullptr, 0);
    links_[i]->flush();
    if (links_[i]->is_behind()) wake();
  }
  left_ = true;
  const uint64_t until_ns = monotonic_ns() + limit_ns;
  const auto is_delivered = [](const std::unique_ptr<Link>& link) { return link->is_delivered(); };
  while (!std::all_of(links_.begin(), links_.end(), is_delivered) && !ended() && monotonic_ns() < until_ns) {
    ::usleep(kGoodbyePollUs);
  }
}

void Links::connect(const Identity& self, const std::vector<Remote>& remotes, uint32_t world, bool encrypted,
                    uint64_t deadline_ns, const std::function<bool()>& ended, Inbox* inbox, LinksOwner owner,
                    uint32_t connections) {
  connections_ = connections;
  by_rank_.assign(world, nullptr);
  more_.assign(size_t{world} * (connections - 1), nullptr);
  inbox_ = inbox;
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto require = [](bool is_watched) {
    if (!is_watched) throw Error(NVRAR_SYSTEM, "cannot watch links: " + std::string(::strerrordesc_np(errno)));
  };
  require(epoll_ && wake_ && watch(EPOLL_CTL_ADD, nullptr, EPOLLIN));
  const auto add = [&](uint32_t rank, Connection connection) {
    make_receive_room(connection.socket.get());
    std::unique_ptr<Cipher> seals;
    std::unique_ptr<Cipher> opens;
    if (encrypted) {
      seals = std::make_unique<Cipher>(connection.send_key, true);
      opens = std::make_unique<Cipher>(connection.receive_key, false);
    }
    links_.push_back(
        std::make_unique<Link>(rank, std::move(connection.socket), std::move(seals), std::move(opens), inbox_));
    Link* const link = links_.back().get();
    const uint32_t index = connection.index;
    (index == 0 ? by_rank_[rank] : more_[rank * (connections - 1) + index - 1]) = link;
    require(watch(EPOLL_CTL_ADD, link, EPOLLIN));
  };
  std::vector<Remote> ends;
  for (Remote remote : remotes) {
    for (remote.connection = 0; remote.connection < connections; ++remote.connection) ends.push_back(remote);
  }
  // A rank that is linked may have to say that the group has failed. If it has just gone, it is the ranks that are
  // missing which count, until there are none.
  std::vector<Link*> gone;
  const auto look = [&] {
    epoll_event events[kEventsAtOnce];
    const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
    for (int i = 0; i < count; ++i) {
      auto* const link = static_cast<Link*>(events[i].data.ptr);
      bool took = false;
      if (link == nullptr || link->receive(&took)) continue;
      (void)watch(EPOLL_CTL_DEL, link, 0);
      gone.push_back(link);
    }
    return ended();
  };
  meet(listener_, self, ends, deadline_ns, add, look);
  listener_.close();
  for (Link* const link : gone) {
    if (!link->has_ended()) broke(link);
  }
  awaits_room_.assign(links_.size(), false);
  if (owner == LinksOwner::kCaller) return;
  try {
    const SignalsBlocked inherited;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error(NVRAR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
}

void Links::give_up() noexcept {
  if (left_) listener_.close();
  links_.clear();
  by_rank_.assign(by_rank_.size(), nullptr);
  more_.assign(more_.size(), nullptr);
}

void Links::tell(uint32_t rank, FrameKind kind, const void* payload, uint32_t bytes, uint64_t number) noexcept {
  Link* link = by_rank_[rank];
  // While the connections come about, another one may be the first.
  for (uint32_t i = 1; link == nullptr && i < connections_; ++i) link = to(rank, i);
  if (link == nullptr) return;
  // A rank that reads nothing has enough questions to answer.
  if (kind == FrameKind::kAsk && link->is_stuffed()) return;
  link->put(kind, 0, number, payload, bytes);
  link->flush();
  if (link->is_behind()) wake();  // its thread goes on with it
}

void Links::tell_all(FrameKind kind, const void* payload, uint32_t bytes, uint64_t number) noexcept {
  for (uint32_t rank = 0; rank < by_rank_.size(); ++rank) {
    tell(rank, kind, payload, bytes, number);
  }
}

void Links::flush() noexcept {
  if (flush_in_call()) wake();  // its thread goes on with it
}

bool Links::flush_in_call() noexcept {
  bool behind = false;
  for (const std::unique_ptr<Link>& link : links_) {
    link->flush();
    behind = behind || link->is_behind();
  }
  return behind;
}

void Links::end_call() noexcept {
  if (is_wanted_.load(std::memory_order_relaxed)) [[unlikely]] {
    is_wanted_.store(false, std::memory_order_relaxed);
    look_in_call();
  }
  let_go();
  caller_takes_.store(false, std::memory_order_relaxed);
  const auto is_behind = [](const std::unique_ptr<Link>& link) { return link->is_behind(); };
  if (std::any_of(links_.begin(), links_.end(), is_behind)) (void)::eventfd_write(wake_.get(), 1);
}

void Links::hand_over() noexcept {
  end_call();
  (void)::eventfd_write(wake_.get(), 1);
}

// What was received is taken first: nothing would wake a thread for it.
void Links::let_go() noexcept {
  if (!held_) return;
  bool took = false;
  for (const std::unique_ptr<Link>& link : links_) {
    if (!link->has_ended() && !link->give(&took, [] { return false; })) broke(link.get());
  }
  held_ = false;
  receive_mutex_.unlock();
}

bool Links::look_in_call() noexcept {
  bool took = false;
  if (hold()) look_locked(&took);
  return took;
}

bool Links::wait(int limit_ms) noexcept {
  watch_room();
  epoll_event events[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, limit_ms);
  eventfd_t seen = 0;
  (void)::eventfd_read(wake_.get(), &seen);
  return count > 0;
}

void Links::wake() noexcept { (void)::eventfd_write(wake_.get(), 1); }

bool Links::look() noexcept {
  const std::unique_lock lock(receive_mutex_, std::try_to_lock);
  bool took = false;
  if (lock.owns_lock()) look_locked(&took);
  return took;
}

void Links::catch_up() noexcept {
  if (!held_) receive_mutex_.lock();
  held_ = true;
  bool took = true;
  for (int i = 0; took && i < kLooksToCatchUp; ++i) {
    took = false;
    look_at_all(&took, nullptr);
  }
}

void Links::fill(uint32_t rank) noexcept {
  for (const std::unique_ptr<Link>& link : links_) {
    if (link->is_behind()) link->flush();
  }
  Link* const link = by_rank_[rank];
  bool more = false;
  if (!link->has_ended() && hold() && !link->fill(&more)) broke(link);
}

const uint8_t* Links::take_run(uint32_t rank, const WantedRun& wanted) noexcept {
  Link* const link = by_rank_[rank];
  const uint8_t* run = nullptr;
  bool took = false;
  if (!link->has_ended() && hold() && !link::take_run(*link, wanted, &took, &run)) broke(link);
  return run;
}

void Links::fill_and_look(uint32_t rank) noexcept {
  fill(rank);
  bool took = false;
  if (hold()) look_locked(&took, by_rank_[rank]);
}

void Links::look_locked(bool* took, const Link* except) noexcept {
  if (links_.size() <= kFewLinks) return look_at_all(took, except);
  for (const std::unique_ptr<Link>& link : links_) {
    if (link.get() == except || link->has_ended()) continue;
    if (link->is_behind()) link->flush();
    if (!link->give(took, [] { return false; })) broke(link.get());
  }
  epoll_event events[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    auto* const link = static_cast<Link*>(events[i].data.ptr);
    const bool has_something = (events[i].events & ~uint32_t{EPOLLOUT}) != 0;
    if (link == nullptr || link == except || link->has_ended() || !has_something) continue;
    if (!link->receive(took)) broke(link);
  }
}

void Links::look_at_all(bool* took, const Link* except) noexcept {
  for (const std::unique_ptr<Link>& link : links_) {
    if (link.get() != except) look_at(link.get(), took);
  }
}

void Links::look_at(Link* link, bool* took) noexcept {
  if (link->has_ended()) return;
  if (link->is_behind()) link->flush();
  if (!link->receive(took)) broke(link);
}

// The link has ended, or what came over it was refused. What came before, a goodbye perhaps, still counts.
void Links::broke(Link* link) noexcept {
  bool took = false;
  (void)link->give(&took, [] { return false; });
  link->end_receiving();
  (void)watch(EPOLL_CTL_DEL, link, 0);
  // What the peer has sent by its other connections counts, too: why its group has failed, perhaps.
  for (uint32_t i = 0; i < connections_ && !link->has_goodbye(); ++i) {
    Link* const other = to(link->peer(), i);
    if (other != nullptr && !other->has_ended()) (void)other->receive(&took);
  }
  // The peer is told, too, if it is there: else it would see a link that ended and blame this rank.
  inbox_->broke(link->peer());
  link->end();
  if (link->has_goodbye()) return;
  // Without one of its connections a pair of ranks has none.
  for (const std::unique_ptr<Link>& other : links_) {
    if (other->peer() != link->peer() || other->has_ended()) continue;
    other->end_receiving();
    (void)watch(EPOLL_CTL_DEL, other.get(), 0);
    other->end();
  }
}

bool Links::watch(int how, Link* link, uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.ptr = link;
  return ::epoll_ctl(epoll_.get(), how, link == nullptr ? wake_.get() : link->fd(), &event) == 0;
}

void Links::watch_room() noexcept {
  for (size_t i = 0; i < links_.size(); ++i) {
    const bool awaits = links_[i]->is_behind();
    if (awaits == awaits_room_[i]) continue;
    awaits_room_[i] = awaits;
    (void)watch(EPOLL_CTL_MOD, links_[i].get(), awaits ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void Links::run() noexcept {
  int pause_ms = 0;
  for (uint64_t calls = 0; !ends_.load();) {
    if (pause_ms != 0) {
      pollfd wake{wake_.get(), POLLIN, 0};
      (void)::poll(&wake, 1, pause_ms);
      const uint64_t calls_now = calls_.load(std::memory_order_relaxed);
      const bool is_needed = wake.revents != 0 || calls_now == calls;
      pause_ms = is_needed ? 0 : std::min(2 * pause_ms, kLongestPauseMs);
      calls = calls_now;
    }
    watch_room();
    epoll_event events[kEventsAtOnce];
    const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, pause_ms == 0 ? -1 : 0);
    eventfd_t seen = 0;
    if (::eventfd_read(wake_.get(), &seen) == 0) pause_ms = 0;  // and what it is needed for may have come just now
    if (caller_takes_.load(std::memory_order_relaxed)) {
      if (count > 0) is_wanted_.store(true, std::memory_order_relaxed);
      pause_ms = std::max(pause_ms, kFirstPauseMs);
      continue;
    }
    bool took = false;
    {
      const std::lock_guard lock(receive_mutex_);
      for (int i = 0; i < count; ++i) {
        if (events[i].data.ptr != nullptr) look_at(static_cast<Link*>(events[i].data.ptr), &took);
      }
    }
    if (took) inbox_->settled();
  }
}

}  // namespace nvrar::link
