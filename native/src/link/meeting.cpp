#include "link/meeting.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>

#include "common/error.h"
#include "common/random.h"
#include "control/tick_clock.h"

namespace nvrar::link {
namespace {

using control::kNsPerSecond;
using control::monotonic_ns;

constexpr uint32_t kMagic = 0x4C52564E;
constexpr uint32_t kNonceBytes = 32;
// What an HMAC is for.
constexpr char kDials[] = "nvrar link: the end that dials";
constexpr char kListens[] = "nvrar link: the end that listens";
constexpr char kKeyOfDialer[] = "nvrar link: the key of what the end that dials sends";
constexpr char kKeyOfListener[] = "nvrar link: the key of what the end that listens sends";
constexpr uint8_t kWelcome = 1;  // the last byte of the meeting, from the end that listens

constexpr int kBacklog = 128;
constexpr uint64_t kStrangerNs = 5 * kNsPerSecond;
constexpr size_t kMostStrangers = 64;
constexpr uint64_t kRedialNs = kNsPerSecond / 10;
constexpr useconds_t kUsPerMs = 1000;
constexpr int kLookMs = 50;  // how often the meeting asks whether it was ended

// From the end that dials.
struct Hello {
  uint32_t magic;
  uint32_t from;
  uint32_t to;
  uint32_t reserved;
  uint64_t group_hash;
  uint8_t nonce[kNonceBytes];
};
// The answer to it.
struct Reply {
  uint8_t nonce[kNonceBytes];
  Digest proof;
};
static_assert(sizeof(Hello) == 56 && sizeof(Reply) == 64);

std::string reason(int error) { return std::string(::strerrordesc_np(error)); }

template <class Value>
Bytes bytes_of(const Value& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

Digest proof(const Identity& self, const char* role, const Hello& hello, const uint8_t* nonce) {
  return hmac_sha256(
      self.secret,
      {{reinterpret_cast<const uint8_t*>(role), std::strlen(role)}, bytes_of(hello), {nonce, kNonceBytes}});
}

void set(int fd, int level, int name, int value) { (void)::setsockopt(fd, level, name, &value, sizeof value); }

void make_link(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

FileDescriptor new_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// A connection that is not a link yet.
class Candidate {
 public:
  enum class State { kWaits, kLinked, kFailed };

  static Candidate dialed(const Identity& self, const Remote& remote) {
    Candidate made(remote.rank, 0);
    const SocketAddress address(remote.address);
    made.socket_ = new_socket(address.family());
    if (!made.socket_) return made.fail(reason(errno));
    made.hello_ = {kMagic, self.rank, remote.rank, 0, self.group_hash, {}};
    random_bytes(made.hello_.nonce, kNonceBytes);
    if (::connect(made.socket_.get(), address.get(), address.bytes) != 0 && errno != EINPROGRESS) {
      return made.fail(reason(errno));
    }
    made.step_ = Step::kConnects;
    return made;
  }
  static Candidate accepted(FileDescriptor socket, uint64_t until_ns) {
    Candidate made(kNobody, until_ns);
    made.socket_ = std::move(socket);
    made.step_ = Step::kAwaitsHello;
    return made;
  }

  bool is_dialed() const noexcept { return until_ns_ == 0; }
  uint32_t rank() const noexcept { return rank_; }
  int fd() const noexcept { return socket_.get(); }
  short events() const noexcept { return step_ == Step::kConnects ? POLLOUT : POLLIN; }
  bool is_over(uint64_t now_ns) const noexcept { return until_ns_ != 0 && now_ns > until_ns_; }
  const std::string& why() const noexcept { return why_; }
  Connection take(const Identity& self) noexcept {
    const Digest of_dialer = proof(self, kKeyOfDialer, hello_, nonce_);
    const Digest of_listener = proof(self, kKeyOfListener, hello_, nonce_);
    return {std::move(socket_), is_dialed() ? of_dialer : of_listener, is_dialed() ? of_listener : of_dialer};
  }

  // `expects` tells whether a rank may dial this one.
  State go_on(const Identity& self, const std::function<bool(uint32_t)>& expects) {
    while (step_ != Step::kFailed) {
      switch (step_) {
        case Step::kConnects: {
          pollfd connects{fd(), POLLOUT, 0};
          if (::poll(&connects, 1, 0) == 0) return State::kWaits;
          int error = 0;
          socklen_t size = sizeof error;
          (void)::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);
          if (error != 0) return fail(reason(error)).state();
          if (!send(bytes_of(hello_))) return State::kFailed;
          step_ = Step::kAwaitsReply;
          break;
        }
        case Step::kAwaitsReply: {
          Reply reply;
          if (!receive(&reply)) return state();
          if (!equal_digests(reply.proof, proof(self, kListens, hello_, reply.nonce))) {
            return fail("what listens there does not know the group's secret").state();
          }
          std::memcpy(nonce_, reply.nonce, kNonceBytes);
          if (!send(proof(self, kDials, hello_, nonce_))) return State::kFailed;
          step_ = Step::kAwaitsWelcome;
          break;
        }
        case Step::kAwaitsWelcome: {
          uint8_t welcome = 0;
          if (!receive(&welcome)) return state();
          if (welcome != kWelcome) return fail("what listens there has not linked this rank").state();
          return State::kLinked;
        }
        case Step::kAwaitsHello: {
          if (!receive(&hello_)) return state();
          if (hello_.magic != kMagic || hello_.group_hash != self.group_hash || hello_.to != self.rank ||
              !expects(hello_.from)) {
            return fail("a stranger").state();
          }
          Reply reply;
          random_bytes(nonce_, kNonceBytes);
          std::memcpy(reply.nonce, nonce_, kNonceBytes);
          reply.proof = proof(self, kListens, hello_, nonce_);
          if (!send(bytes_of(reply))) return State::kFailed;
          step_ = Step::kAwaitsProof;
          break;
        }
        case Step::kAwaitsProof: {
          Digest theirs;
          if (!receive(&theirs)) return state();
          if (!equal_digests(theirs, proof(self, kDials, hello_, nonce_))) return fail("a stranger").state();
          if (!send(bytes_of(kWelcome))) return State::kFailed;
          rank_ = hello_.from;
          return State::kLinked;
        }
        case Step::kFailed:
          break;
      }
    }
    return State::kFailed;
  }

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  enum class Step { kConnects, kAwaitsReply, kAwaitsWelcome, kAwaitsHello, kAwaitsProof, kFailed };

  Candidate(uint32_t rank, uint64_t until_ns) : rank_(rank), until_ns_(until_ns) {}

  State state() const noexcept { return step_ == Step::kFailed ? State::kFailed : State::kWaits; }
  Candidate&& fail(std::string why) {
    why_ = std::move(why);
    step_ = Step::kFailed;
    return std::move(*this);
  }
  // So little fits into the buffer of a new socket.
  bool send(Bytes bytes) {
    const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes.size())) return true;
    (void)fail(sent < 0 ? reason(errno) : "a new connection does not take a greeting");
    return false;
  }
  // Receives a message of fixed size, and no byte of what follows it. False: it is not complete yet, or failed.
  template <class Message>
  bool receive(Message* message) {
    while (filled_ < sizeof *message) {
      const ssize_t got = ::recv(fd(), room_ + filled_, sizeof *message - filled_, 0);
      if (got > 0) {
        filled_ += static_cast<size_t>(got);
      } else if (got == 0) {
        (void)fail("the connection was closed there");
        return false;
      } else if (errno == EAGAIN) {
        return false;
      } else if (errno != EINTR) {
        (void)fail(reason(errno));
        return false;
      }
    }
    std::memcpy(message, room_, sizeof *message);
    filled_ = 0;
    return true;
  }

  uint32_t rank_;
  uint64_t until_ns_;  // 0: it was dialed
  FileDescriptor socket_;
  Step step_ = Step::kFailed;
  Hello hello_{};
  uint8_t nonce_[kNonceBytes] = {};  // of the end that listens
  uint8_t room_[sizeof(Reply)];
  size_t filled_ = 0;
  std::string why_;
};

// A remote rank until there is a link to it.
struct Awaited {
  Remote remote;
  bool is_dialed = false;  // by this rank
  bool dials = false;      // right now
  uint64_t redial_ns = 0;
  std::string why;  // the last attempt failed
};

class Meeting {
 public:
  Meeting(const Listener& listener, const Identity& self, const std::vector<Remote>& remotes)
      : listener_(listener), self_(self) {
    for (const Remote& remote : remotes) awaited_[remote.rank] = {remote, remote.rank < self.rank, false, 0, ""};
  }

  std::map<uint32_t, Connection> run(uint64_t deadline_ns, const std::function<bool()>& ended) {
    while (!awaited_.empty()) {
      const uint64_t now_ns = monotonic_ns();
      if (ended()) throw Error(NVRAR_ABORTED, "the group was ended while its hosts were being linked");
      if (now_ns >= deadline_ns) throw Error(NVRAR_SYSTEM, unreachable());
      dial(now_ns);
      wait();
      accept(monotonic_ns());
      go_on(monotonic_ns());
    }
    return std::move(links_);
  }

 private:
  void dial(uint64_t now_ns) {
    for (auto& [rank, awaited] : awaited_) {
      if (!awaited.is_dialed || awaited.dials || now_ns < awaited.redial_ns) continue;
      awaited.dials = true;
      candidates_.push_back(Candidate::dialed(self_, awaited.remote));
    }
  }
  void wait() {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const Candidate& candidate : candidates_) polled.push_back({candidate.fd(), candidate.events(), 0});
    (void)::poll(polled.data(), polled.size(), kLookMs);
  }
  void accept(uint64_t now_ns) {
    for (;;) {
      FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        // Without descriptors the connection stays there, and poll would return at once.
        if (errno == EMFILE || errno == ENFILE) ::usleep(kLookMs * kUsPerMs);
        return;
      }
      const auto is_stranger = [](const Candidate& candidate) { return !candidate.is_dialed(); };
      if (static_cast<size_t>(std::count_if(candidates_.begin(), candidates_.end(), is_stranger)) >= kMostStrangers) {
        candidates_.erase(std::find_if(candidates_.begin(), candidates_.end(), is_stranger));  // the oldest
      }
      candidates_.push_back(Candidate::accepted(std::move(socket), now_ns + kStrangerNs));
    }
  }
  void go_on(uint64_t now_ns) {
    const auto expects = [&](uint32_t rank) {
      const auto found = awaited_.find(rank);
      return found != awaited_.end() && !found->second.is_dialed;
    };
    for (auto at = candidates_.begin(); at != candidates_.end();) {
      const Candidate::State state = at->go_on(self_, expects);
      const uint32_t rank = at->rank();
      if (state == Candidate::State::kLinked && awaited_.erase(rank) != 0) {
        Connection& link = links_.emplace(rank, at->take(self_)).first->second;
        make_link(link.socket.get());
      } else if (state == Candidate::State::kFailed && at->is_dialed()) {
        Awaited& awaited = awaited_.at(rank);
        awaited.dials = false;
        awaited.redial_ns = now_ns + kRedialNs;
        awaited.why = at->why();
      } else if (state == Candidate::State::kWaits && !at->is_over(now_ns)) {
        ++at;
        continue;
      }
      at = candidates_.erase(at);
    }
  }
  std::string unreachable() const {
    const Awaited& first = awaited_.begin()->second;
    const std::string them = "rank " + std::to_string(first.remote.rank);
    const std::string us = "rank " + std::to_string(self_.rank);
    std::string text = first.is_dialed ? us + " could not reach " + them + " at " + first.remote.address.text() +
                                             (first.why.empty() ? ": no answer" : ": " + first.why)
                                       : them + " (" + first.remote.address.text() + ") has not reached " + us +
                                             " at " + listener_.address().text();
    if (awaited_.size() > 1) text += ", nor are " + std::to_string(awaited_.size() - 1) + " more ranks linked";
    return text + "; a firewall between the hosts or an address of another network are the usual causes";
  }

  const Listener& listener_;
  const Identity& self_;
  std::map<uint32_t, Awaited> awaited_;
  std::list<Candidate> candidates_;
  std::map<uint32_t, Connection> links_;
};

}  // namespace

Listener Listener::open(const std::string& numeric_address, uint16_t first, uint16_t last) {
  Listener made;
  for (uint32_t port = first;; ++port) {
    made.address_ = LinkAddress::of(numeric_address, static_cast<uint16_t>(port));
    const SocketAddress address(made.address_);
    made.socket_ = new_socket(address.family());
    // Links that have ended keep their port busy for a minute otherwise, and a new group could not have it.
    set(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (made.socket_ && ::bind(made.get(), address.get(), address.bytes) == 0 && ::listen(made.get(), kBacklog) == 0) {
      break;
    }
    const int error = errno;
    if (error == EADDRINUSE && port < last) continue;
    const std::string ports = first == 0 ? "" : ", ports " + std::to_string(first) + " to " + std::to_string(last);
    throw Error(NVRAR_SYSTEM,
                "cannot listen for ranks on other hosts at " + numeric_address + ports + ": " + reason(error));
  }
  SocketAddress bound(made.address_);
  socklen_t size = sizeof bound.storage;
  if (::getsockname(made.get(), reinterpret_cast<sockaddr*>(&bound.storage), &size) != 0) {
    throw Error(NVRAR_SYSTEM, "cannot read a socket's port: " + reason(errno));
  }
  made.address_.port = ntohs(bound.family() == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port
                                                        : reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port);
  return made;
}

std::map<uint32_t, Connection> meet(const Listener& listener, const Identity& self, const std::vector<Remote>& remotes,
                                    uint64_t deadline_ns, const std::function<bool()>& ended) {
  return Meeting(listener, self, remotes).run(deadline_ns, ended);
}

}  // namespace nvrar::link
