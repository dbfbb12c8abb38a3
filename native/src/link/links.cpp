#include "link/links.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
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
constexpr int kEventsAtOnce = LinkSet::kEventsAtOnce;
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
  wake();
  thread_.join();
}

// A socket that is closed before its peer's host has everything may take back what is under way. Meanwhile the thread
// goes on sending, and takes what arrives: a socket that is closed with something unread takes back even more.
void Links::leave(uint64_t limit_ns, const std::function<bool()>& ended) noexcept {
  for (size_t i = 0; i < owned_.size() && !left_; ++i) {
    owned_[i]->put(FrameKind::kGoodbye, 0, 0, nullptr, 0);
    owned_[i]->flush();
    if (owned_[i]->is_behind()) wake_all();
  }
  left_ = true;
  const uint64_t until_ns = monotonic_ns() + limit_ns;
  const auto is_delivered = [](const std::unique_ptr<Link>& link) { return link->is_delivered(); };
  while (!std::all_of(owned_.begin(), owned_.end(), is_delivered) && !ended() && monotonic_ns() < until_ns) {
    ::usleep(kGoodbyePollUs);
  }
}

void Links::connect(const Identity& self, const std::vector<Remote>& remotes, uint32_t world, bool encrypted,
                    uint64_t deadline_ns, const std::function<bool()>& ended, Inbox* inbox, LinksOwner owner,
                    uint32_t connections, uint32_t lanes) {
  connections_ = connections;
  by_rank_.assign(world, nullptr);
  more_.assign(size_t{world} * (connections - 1), nullptr);
  inbox_ = inbox;
  set_.open();
  cut_ = std::vector<std::atomic<bool>>(world);
  for (uint32_t i = 1; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(this));
  const auto add = [&](uint32_t rank, Connection connection) {
    make_receive_room(connection.socket.get());
    std::unique_ptr<Cipher> seals;
    std::unique_ptr<Cipher> opens;
    if (encrypted) {
      seals = std::make_unique<Cipher>(connection.send_key, true);
      opens = std::make_unique<Cipher>(connection.receive_key, false);
    }
    owned_.push_back(std::make_unique<Link>(rank, connection.index, std::move(connection.socket), std::move(seals),
                                            std::move(opens), inbox_));
    Link* const link = owned_.back().get();
    const uint32_t index = connection.index;
    (index == 0 ? by_rank_[rank] : more_[rank * (connections - 1) + index - 1]) = link;
    LinkSet& set = index % lanes == 0 ? set_ : lane(index % lanes).set();
    set.add(link);
  };
  std::vector<Remote> ends;
  for (Remote remote : remotes) {
    for (remote.connection = 0; remote.connection < connections; ++remote.connection) ends.push_back(remote);
  }
  // A rank that is linked may have to say that the group has failed. If it has just gone, it is the ranks that are
  // missing which count, until there are none.
  std::vector<Link*> gone;
  const auto look_at = [&](LinkSet& set) {
    epoll_event events[kEventsAtOnce];
    const int count = set.poll(events);
    for (int i = 0; i < count; ++i) {
      auto* const link = static_cast<Link*>(events[i].data.ptr);
      bool took = false;
      if (link == nullptr || link->receive(&took)) continue;
      set.forget(link);
      gone.push_back(link);
    }
  };
  const auto look = [&] {
    look_at(set_);
    for (const auto& lane : lanes_) look_at(lane->set());
    return ended();
  };
  meet(listener_, self, ends, deadline_ns, add, look);
  listener_.close();
  for (Link* const link : gone) {
    if (!link->has_ended()) broke(link);
  }
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
  lanes_.clear();
  set_.clear();
  owned_.clear();
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
  for (Link* const link : set_.links()) {
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
  const auto is_behind = [](const Link* link) { return link->is_behind(); };
  if (std::any_of(set_.links().begin(), set_.links().end(), is_behind)) wake();
}

void Links::hand_over() noexcept {
  end_call();
  wake();
}

// What was received is taken first: nothing would wake a thread for it.
void Links::let_go() noexcept {
  if (!held_) return;
  bool took = false;
  for (Link* const link : set_.links()) {
    if (!link->has_ended() && !link->give(&took, [] { return false; })) broke(link);
  }
  held_ = false;
  receive_mutex_.unlock();
}

bool Links::look_in_call(uint32_t end) noexcept {
  bool took = false;
  if (!hold()) return false;
  look_locked(&took, nullptr, end);
  if (any_cut_.load(std::memory_order_relaxed)) [[unlikely]]
    take_cuts();
  return took;
}

void Links::wake_all() noexcept {
  wake();
  for (const auto& lane : lanes_) lane->set().wake();
}

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
    look_at_all(&took, nullptr, kAllConnections);
  }
}

void Links::fill(uint32_t rank) noexcept {
  for (Link* const link : set_.links()) {
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

void Links::look_locked(bool* took, const Link* except, uint32_t end) noexcept {
  if (set_.links().size() <= kFewLinks) return look_at_all(took, except, end);
  for (Link* const link : set_.links()) {
    if (link == except || link->has_ended()) continue;
    if (link->is_behind()) link->flush();
    if (!link->give(took, [] { return false; })) broke(link);
  }
  epoll_event events[kEventsAtOnce];
  const int count = set_.poll(events);
  for (int i = 0; i < count; ++i) {
    auto* const link = static_cast<Link*>(events[i].data.ptr);
    const bool has_something = (events[i].events & ~uint32_t{EPOLLOUT}) != 0;
    if (link == nullptr || link == except || link->has_ended() || !has_something) continue;
    if (!link->receive(took)) broke(link);
  }
}

void Links::look_at_all(bool* took, const Link* except, uint32_t end) noexcept {
  for (Link* const link : set_.links()) {
    if (link != except && link->connection() < end) look_at(link, took);
  }
}

void Links::look_at(Link* link, bool* took) noexcept {
  if (link->has_ended()) return;
  if (link->is_behind()) link->flush();
  if (!link->receive(took)) broke(link);
}

// The link, one of this thread's, has ended, or what came over it was refused. What came before, a goodbye perhaps,
// still counts.
void Links::broke(Link* link) noexcept {
  const auto never = [] { return false; };
  bool took = false;
  (void)link->give(&took, never);
  link->end_receiving();
  set_.forget(link);
  // What the peer has sent by its other connections counts, too: why its group has failed, perhaps.
  const auto each_other = [&](auto visit) {
    for (Link* const other : set_.links()) {
      if (other != link && other->peer() == link->peer() && !other->has_ended()) visit(other);
    }
  };
  if (!link->has_goodbye()) each_other([](Link* other) { (void)other->drain(); });
  // A goodbye counts by the first connection, where it may still be under way.
  if (link->has_goodbye() && link->connection() != 0) return link->end();
  // The peer is told, too, if it is there: else it would see a link that ended and blame this rank.
  inbox_->broke(link->peer());
  link->end();
  if (link->has_goodbye()) return;
  // Without one of its connections a pair of ranks has none.
  each_other([&](Link* other) {
    other->end_receiving();
    set_.forget(other);
    other->end();
  });
  // Those of lanes end where they are looked at.
  for (const auto& lane : lanes_) {
    for (Link* const other : lane->set().links()) {
      if (other->peer() == link->peer()) other->end();
    }
  }
}

void Links::report_cut(uint32_t rank) noexcept {
  cut_[rank].store(true, std::memory_order_release);
  any_cut_.store(true, std::memory_order_release);
  wake();
}

void Links::take_cuts() noexcept {
  any_cut_.store(false, std::memory_order_seq_cst);
  for (uint32_t rank = 0; rank < cut_.size(); ++rank) {
    if (!cut_[rank].exchange(false) || by_rank_[rank]->has_ended()) continue;
    (void)by_rank_[rank]->drain();
    broke(by_rank_[rank]);
  }
}

bool Lane::look(uint32_t end) noexcept {
  bool took = false;
  for (Link* const link : set_.links()) {
    if (link->has_ended() || link->connection() >= end) continue;
    if (link->is_behind()) link->flush();
    if (link->receive(&took)) continue;
    (void)link->give(&took, [] { return false; });
    link->end_receiving();
    set_.forget(link);
    if (!link->has_goodbye()) all_->report_cut(link->peer());
  }
  return took;
}

void Links::run() noexcept {
  int pause_ms = 0;
  for (uint64_t calls = 0; !ends_.load();) {
    if (pause_ms != 0) {
      pollfd woken{set_.wake_fd(), POLLIN, 0};
      (void)::poll(&woken, 1, pause_ms);
      const uint64_t calls_now = calls_.load(std::memory_order_relaxed);
      const bool is_needed = woken.revents != 0 || calls_now == calls;
      pause_ms = is_needed ? 0 : std::min(2 * pause_ms, kLongestPauseMs);
      calls = calls_now;
    }
    epoll_event events[kEventsAtOnce];
    const int count = set_.wait(events, pause_ms == 0 ? -1 : 0);
    if (set_.was_woken()) pause_ms = 0;  // and what it is needed for may have come just now
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
