#include "link/links.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/error.h"
#include "common/watched.h"
#include "control/tick_clock.h"

namespace nvrar::link {
namespace {

// How often the thread looks whether the calling thread still takes what arrives.
constexpr int kYieldToCallerMs = 1;
// How often it tries again to send what a socket did not take.
constexpr int kBehindMs = 1;
constexpr int kLooksToCatchUp = 64;  // more than a socket's buffer holds
// A call that fails because a host is cut off may wait for this.
constexpr uint64_t kGoodbyeNs = control::kNsPerSecond / 2;
constexpr useconds_t kGoodbyePollUs = 200;

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
  if (!left_) tell_all(FrameKind::kGoodbye, nullptr, 0);
  left_ = true;
  const uint64_t until_ns = control::monotonic_ns() + limit_ns;
  const auto is_delivered = [](const std::unique_ptr<Link>& link) { return link->is_delivered(); };
  while (!std::all_of(links_.begin(), links_.end(), is_delivered) && !ended() && control::monotonic_ns() < until_ns) {
    ::usleep(kGoodbyePollUs);
  }
}

void Links::connect(const Identity& self, const std::vector<Remote>& remotes, uint32_t world, bool encrypted,
                    uint64_t deadline_ns, const std::function<bool()>& ended, FrameSink* sink) {
  by_rank_.assign(world, nullptr);
  sink_ = sink;
  auto connections = meet(listener_, self, remotes, deadline_ns, ended);
  listener_.close();
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto watch = [&](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool good = epoll_ && wake_ && watch(wake_.get());
  for (auto& [rank, connection] : connections) {
    std::unique_ptr<Cipher> seals;
    std::unique_ptr<Cipher> opens;
    if (encrypted) {
      seals = std::make_unique<Cipher>(connection.send_key, true);
      opens = std::make_unique<Cipher>(connection.receive_key, false);
    }
    links_.push_back(std::make_unique<Link>(rank, std::move(connection.socket), std::move(seals), std::move(opens)));
    by_rank_[rank] = links_.back().get();
    good = good && watch(links_.back()->fd());
  }
  if (!good) throw Error(NVRAR_SYSTEM, "cannot watch links: " + std::string(::strerrordesc_np(errno)));
  try {
    const SignalsBlocked inherited;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error(NVRAR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
}

void Links::tell_all(FrameKind kind, const void* payload, uint32_t bytes, uint64_t number) noexcept {
  for (const std::unique_ptr<Link>& link : links_) {
    // A rank that reads nothing has enough questions to answer.
    if (kind != FrameKind::kAsk || !link->is_stuffed()) link->put(kind, 0, number, payload, bytes);
  }
  flush();
}

void Links::flush() noexcept {
  bool behind = false;
  for (const std::unique_ptr<Link>& link : links_) {
    link->flush();
    behind = behind || link->is_behind();
  }
  if (behind) (void)::eventfd_write(wake_.get(), 1);  // the thread goes on with it once the call has ended
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
    if (!link->has_ended() && !link->give(sink_, &took, [] { return false; })) broke(link.get());
  }
  held_ = false;
  receive_mutex_.unlock();
}

void Links::look_in_call() noexcept {
  bool took = false;
  if (hold()) look_locked(&took);
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
    look_locked(&took);
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
  if (!link->has_ended() && hold() && !link->take_run(wanted, sink_, &took, &run)) broke(link);
  return run;
}

void Links::look_locked(bool* took) noexcept {
  for (const std::unique_ptr<Link>& link : links_) {
    if (link->has_ended()) continue;
    if (link->is_behind()) link->flush();
    if (!link->receive(sink_, took)) broke(link.get());
  }
}

// The link has ended, or what came over it was refused. What came before, a goodbye perhaps, still counts.
void Links::broke(Link* link) noexcept {
  bool took = false;
  (void)link->give(sink_, &took, [] { return false; });
  link->end();
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->fd(), nullptr);
  sink_->broke(link->peer());
}

void Links::run() noexcept {
  while (!ends_.load()) {
    bool behind = false;
    for (const std::unique_ptr<Link>& link : links_) behind = behind || link->is_behind();
    epoll_event events[8];
    (void)::epoll_wait(epoll_.get(), events, 8, behind ? kBehindMs : -1);
    if (caller_takes_.load(std::memory_order_relaxed)) {
      pollfd wake{wake_.get(), POLLIN, 0};
      (void)::poll(&wake, 1, kYieldToCallerMs);
    }
    eventfd_t seen = 0;
    (void)::eventfd_read(wake_.get(), &seen);
    if (caller_takes_.load(std::memory_order_relaxed)) continue;
    bool took = false;
    {
      const std::lock_guard lock(receive_mutex_);
      look_locked(&took);
    }
    if (took) sink_->settled();
  }
}

}  // namespace nvrar::link
