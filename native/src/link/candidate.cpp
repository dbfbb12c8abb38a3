#include "link/candidate.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "common/random.h"

namespace nvrar::link {
namespace {

// What an HMAC is for.
constexpr char kDials[] = "nvrar link: the end that dials";
constexpr char kListens[] = "nvrar link: the end that listens";
constexpr char kKeyOfDialer[] = "nvrar link: the key of what the end that dials sends";
constexpr char kKeyOfListener[] = "nvrar link: the key of what the end that listens sends";

std::string reason(int error) { return std::string(::strerrordesc_np(error)); }

template <class Value>
Bytes bytes_of(const Value& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

Digest proof(const Identity& self, const char* role, const Hello& hello, const uint8_t* nonce) {
  return hmac_sha256(
      self.secret,
      {{reinterpret_cast<const uint8_t*>(role), std::strlen(role)}, bytes_of(hello), {nonce, kLinkNonceBytes}});
}

void set(int fd, int level, int name, int value) noexcept { (void)::setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

// An accepted connection has the settings of the socket that listens.
FileDescriptor new_link_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return socket;
  set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  return socket;
}

Candidate Candidate::dialed(const Identity& self, const Remote& remote) {
  const SocketAddress address(remote.address);
  FileDescriptor socket = new_link_socket(address.family());
  const bool begun = socket && (::connect(socket.get(), address.get(), address.bytes) == 0 || errno == EINPROGRESS);
  const int error = errno;
  Candidate made = dialing(self, remote.rank, std::move(socket), remote.connection);
  made.was_refused_ = !begun && error == ECONNREFUSED;
  return begun ? std::move(made) : made.fail(reason(error));
}

Candidate Candidate::dialing(const Identity& self, uint32_t rank, FileDescriptor socket, uint32_t connection) {
  Candidate made(rank, 0);
  made.socket_ = std::move(socket);
  made.hello_ = {kHelloMagic, self.rank, rank, connection, self.group_hash, {}};
  random_bytes(made.hello_.nonce, kLinkNonceBytes);
  made.step_ = Step::kConnects;
  return made;
}

Candidate Candidate::accepted(FileDescriptor socket, uint64_t until_ns) {
  Candidate made(kNobody, until_ns);
  made.socket_ = std::move(socket);
  made.step_ = Step::kAwaitsHello;
  return made;
}

Connection Candidate::take(const Identity& self) noexcept {
  const Digest of_dialer = proof(self, kKeyOfDialer, hello_, nonce_);
  const Digest of_listener = proof(self, kKeyOfListener, hello_, nonce_);
  return {std::move(socket_), is_dialed() ? of_dialer : of_listener, is_dialed() ? of_listener : of_dialer,
          hello_.connection};
}

short Candidate::events() const noexcept { return step_ == Step::kConnects ? POLLOUT : POLLIN; }

Candidate::State Candidate::go_on(const Identity& self, const std::function<bool(uint32_t, uint32_t)>& expects) {
  while (step_ != Step::kFailed) {
    switch (step_) {
      case Step::kConnects: {
        pollfd connects{fd(), POLLOUT, 0};
        if (::poll(&connects, 1, 0) == 0) return State::kWaits;
        int error = 0;
        socklen_t size = sizeof error;
        (void)::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);
        was_refused_ = error == ECONNREFUSED;
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
        std::memcpy(nonce_, reply.nonce, kLinkNonceBytes);
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
        if (hello_.magic != kHelloMagic || hello_.group_hash != self.group_hash || hello_.to != self.rank ||
            !expects(hello_.from, hello_.connection)) {
          return fail("a stranger").state();
        }
        Reply reply;
        random_bytes(nonce_, kLinkNonceBytes);
        std::memcpy(reply.nonce, nonce_, kLinkNonceBytes);
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

Candidate&& Candidate::fail(std::string why) {
  why_ = std::move(why);
  step_ = Step::kFailed;
  return std::move(*this);
}

// So little fits into the buffer of a new socket.
bool Candidate::send(Bytes bytes) {
  const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  (void)fail(sent < 0 ? reason(errno) : "a new connection does not take a greeting");
  return false;
}

// Receives a message of fixed size, and no byte of what follows it. False: it is not complete yet, or failed.
template <class Message>
bool Candidate::receive(Message* message) {
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

}  // namespace nvrar::link
