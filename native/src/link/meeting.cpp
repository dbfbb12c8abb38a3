#include "link/meeting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/tick_clock.h"

namespace nvrar::link {
namespace {

constexpr int kBacklog = 512;  // all ranks of a group dial at once
constexpr uint64_t kStrangerNs = 5 * kNsPerSecond;
// Besides a connection for each rank that is still to dial, which is a stranger, too, until its proof has come.
constexpr size_t kMostStrangers = 64;
constexpr int kAcceptsAtOnce = 32;  // so that a storm of strangers cannot keep the meeting from its end
constexpr uint64_t kRedialNs = kNsPerSecond / 10;
// A dial that has not led to a link by then is given up: the pauses between a system's own attempts grow much longer.
constexpr uint64_t kDialNs = 5 * kNsPerSecond;
// For how long nothing must have listened at an address that leads here before the meeting fails. A group that ends
// meanwhile has more time than it takes to tell the ranks that are linked.
constexpr uint64_t kRefusedNs = kNsPerSecond;
// One that has sent its proof, later: the other end, which may take it until its own limit, does not accept another
// dial once it has.
constexpr uint64_t kProvedNs = 2 * kStrangerNs;
constexpr useconds_t kUsPerMs = 1000;
constexpr int kLookMs = 50;  // how often the meeting asks whether it was ended

// A connection to a remote rank until there is one.
struct Awaited {
  Remote remote;
  bool is_dialed = false;  // by this rank
  bool dials = false;      // right now
  uint64_t redial_ns = 0;
  uint64_t give_up_ns = 0;
  uint64_t refused_ns = 0;  // since when all dials were refused; 0: the last one was not
  std::string why;          // the last attempt failed
};

class Meeting {
 public:
  Meeting(const Listener& listener, const Identity& self, const std::vector<Remote>& remotes,
          const std::function<void(uint32_t, Connection)>& linked)
      : listener_(listener), self_(self), linked_(linked) {
    for (const Remote& remote : remotes) {
      awaited_[{remote.rank, remote.connection}] = {remote, remote.rank < self.rank, false, 0, 0, 0, ""};
    }
  }

  void run(uint64_t deadline_ns, const std::function<bool()>& ended) {
    while (!awaited_.empty()) {
      const uint64_t now_ns = monotonic_ns();
      if (ended()) throw Error(NVRAR_ABORTED, "the group was ended while its hosts were being linked");
      if (now_ns >= deadline_ns) throw Error(NVRAR_SYSTEM, unreachable(awaited_.begin()->second));
      dial(now_ns);
      wait();
      accept(monotonic_ns());
      go_on(monotonic_ns());
    }
  }

 private:
  void dial(uint64_t now_ns) {
    for (auto& [key, awaited] : awaited_) {
      if (!awaited.is_dialed || awaited.dials || now_ns < awaited.redial_ns) continue;
      awaited.dials = true;
      awaited.give_up_ns = now_ns + kDialNs;
      candidates_.push_back(Candidate::dialed(self_, awaited.remote));
      if (candidates_.back().fd() < 0) lacks_ = "no socket can be made: " + candidates_.back().why();
    }
  }
  void wait() {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const Candidate& candidate : candidates_) polled.push_back({candidate.fd(), candidate.events(), 0});
    (void)::poll(polled.data(), polled.size(), kLookMs);
  }
  void accept(uint64_t now_ns) {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        const int error = errno;
        const bool lacks_something = error != EAGAIN && error != ECONNABORTED && error != EINTR;
        if (lacks_something) lacks_ = "a connection cannot be accepted: " + std::string(::strerrordesc_np(error));
        // Without descriptors the connection stays there, and poll would return at once.
        if (lacks_something) ::usleep(kLookMs * kUsPerMs);
        return;
      }
      lacks_.clear();
      const auto may_dial = [](const auto& awaited) { return !awaited.second.is_dialed; };
      const auto is_stranger = [](const Candidate& candidate) { return !candidate.is_dialed(); };
      const auto has_said_nothing = [](const Candidate& candidate) { return candidate.awaits_hello(); };
      const auto ranks = static_cast<size_t>(std::count_if(awaited_.begin(), awaited_.end(), may_dial));
      const auto strangers = static_cast<size_t>(std::count_if(candidates_.begin(), candidates_.end(), is_stranger));
      if (strangers >= kMostStrangers + ranks) {
        auto oldest = std::find_if(candidates_.begin(), candidates_.end(), has_said_nothing);
        if (oldest == candidates_.end()) oldest = std::find_if(candidates_.begin(), candidates_.end(), is_stranger);
        candidates_.erase(oldest);
      }
      candidates_.push_back(Candidate::accepted(std::move(socket), now_ns + kStrangerNs));
    }
  }
  void go_on(uint64_t now_ns) {
    const auto expects = [&](uint32_t rank, uint32_t connection) {
      const auto found = awaited_.find({rank, connection});
      return found != awaited_.end() && !found->second.is_dialed;
    };
    for (auto at = candidates_.begin(); at != candidates_.end();) {
      Candidate::State state = at->go_on(self_, expects);
      const Key key{at->rank(), at->connection()};
      if (state == Candidate::State::kWaits && at->is_dialed() &&
          now_ns > awaited_.at(key).give_up_ns + (at->has_proved() ? kProvedNs : 0)) {
        state = Candidate::State::kFailed;
      }
      if (state == Candidate::State::kLinked && awaited_.erase(key) != 0) {
        linked_(key.first, at->take(self_));
      } else if (state == Candidate::State::kFailed && at->is_dialed()) {
        Awaited& awaited = awaited_.at(key);
        awaited.dials = false;
        awaited.redial_ns = now_ns + kRedialNs;
        awaited.why = at->why();
        if (!at->was_refused()) {
          awaited.refused_ns = 0;
        } else if (awaited.refused_ns == 0) {
          awaited.refused_ns = now_ns;
        }
        // A rank listens before its address is known, so nothing will.
        if (awaited.refused_ns != 0 && now_ns - awaited.refused_ns >= kRefusedNs && leads_astray(awaited.remote)) {
          throw Error(NVRAR_SYSTEM, unreachable(awaited));
        }
      } else if (state == Candidate::State::kWaits && !at->is_over(now_ns)) {
        ++at;
        continue;
      }
      at = candidates_.erase(at);
    }
  }
  // Whether a rank elsewhere cannot be at its address, because that leads to this rank's own network.
  static bool leads_astray(const Remote& remote) { return !remote.shares_network && remote.address.leads_here(); }
  std::string unreachable(const Awaited& first) const {
    const std::string them = "rank " + std::to_string(first.remote.rank);
    const std::string us = "rank " + std::to_string(self_.rank);
    std::string text = first.is_dialed ? us + " could not reach " + them + " at " + first.remote.address.text() +
                                             (first.why.empty() ? ": no answer" : ": " + first.why)
                                       : them + " (" + first.remote.address.text() + ") has not reached " + us +
                                             " at " + listener_.address().text();
    uint32_t more = 0;
    uint32_t before = first.remote.rank;
    for (const auto& [key, awaited] : awaited_) {
      const uint32_t last = std::exchange(before, key.first);
      if (key.first != last && key.first != first.remote.rank) ++more;
    }
    if (more != 0) {
      text += more == 1 ? ", and 1 more rank is not linked" : ", and " + std::to_string(more) + " more are not linked";
    }
    if (!lacks_.empty()) return text + "; on rank " + std::to_string(self_.rank) + ", " + lacks_;
    if (first.remote.shares_network) {
      if (first.refused_ns == 0) return text;
      return text + "; nothing listens there: " + them + " has ended, or the address is not that of its host";
    }
    // The address that has to lead to this rank's host, or from it to the other one.
    const LinkAddress& address = first.is_dialed ? first.remote.address : listener_.address();
    if (address.is_loopback())
      return text + "; " + address.host() + " is a loopback address, which leads every host to itself";
    if (first.is_dialed && leads_astray(first.remote)) {
      return text + "; " + address.host() + " is an address of the host of " + us + ", too, and leads to itself there";
    }
    return text + "; a firewall between the hosts or an address of another network are the usual causes";
  }

  const Listener& listener_;
  const Identity& self_;
  using Key = std::pair<uint32_t, uint32_t>;  // rank, index of the connection
  std::map<Key, Awaited> awaited_;
  std::list<Candidate> candidates_;
  std::string lacks_;  // why this process cannot have one more connection
  const std::function<void(uint32_t, Connection)>& linked_;
};

}  // namespace

Listener Listener::open(const std::string& numeric_address, uint16_t first, uint16_t last) {
  Listener made;
  for (uint32_t port = first;; ++port) {
    made.address_ = LinkAddress::of(numeric_address, static_cast<uint16_t>(port));
    const SocketAddress address(made.address_);
    made.socket_ = new_link_socket(address.family());
    // Links that have ended keep their port busy for a minute otherwise, and a new group could not have it.
    const int on = 1;
    if (made.socket_) (void)::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (made.socket_ && ::bind(made.get(), address.get(), address.bytes) == 0 && ::listen(made.get(), kBacklog) == 0) {
      break;
    }
    const int error = errno;
    if (error == EADDRINUSE && port < last) continue;
    if (error == EADDRINUSE && first == 0) {
      throw Error(NVRAR_SYSTEM, "cannot listen for ranks on other hosts at " + numeric_address +
                                    ": no port of net.ipv4.ip_local_port_range is free");
    }
    const std::string ports = first == 0 ? "" : ", ports " + std::to_string(first) + " to " + std::to_string(last);
    throw Error(NVRAR_SYSTEM, "cannot listen for ranks on other hosts at " + numeric_address + ports + ": " +
                                  std::string(::strerrordesc_np(error)));
  }
  made.address_ = local_end(made.get());
  if (!made.address_.exists()) {
    throw Error(NVRAR_SYSTEM, "cannot read a socket's port: " + std::string(::strerrordesc_np(errno)));
  }
  return made;
}

void meet(const Listener& listener, const Identity& self, const std::vector<Remote>& remotes, uint64_t deadline_ns,
          const std::function<void(uint32_t, Connection)>& linked, const std::function<bool()>& ended) {
  Meeting(listener, self, remotes, linked).run(deadline_ns, ended);
}

}  // namespace nvrar::link
