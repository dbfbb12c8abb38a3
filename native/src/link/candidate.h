// A connection that is not a link yet: what its two ends say until each has proved, by an HMAC over both ends' fresh
// nonces, their ranks and its own role, that it knows the group's secret. Nothing else that arrives is read before. The
// end that listens says when it has linked the other one, which else dials again.
#ifndef NVRAR_LINK_CANDIDATE_H
#define NVRAR_LINK_CANDIDATE_H

#include <cstdint>
#include <functional>
#include <string>

#include "common/handle.h"
#include "common/sha256.h"
#include "link/link_address.h"

namespace nvrar::link {

// Who a member is to the members on other hosts.
struct Identity {
  uint32_t rank;
  uint64_t group_hash;
  Digest secret;
};

struct Remote {
  uint32_t rank;
  LinkAddress address;
  // Whether it is in this process's network namespace, so that its addresses, loopback too, lead to it.
  bool shares_network = false;
  uint32_t connection = 0;  // the index of one of several connections to the rank
};

struct Connection {
  FileDescriptor socket;
  // For encryption, a key for each direction: from the group's secret, both ends' nonces and their ranks.
  Digest send_key;
  Digest receive_key;
  uint32_t index = 0;  // of several to one rank
};

constexpr uint32_t kHelloMagic = 0x4C52564E;
constexpr uint32_t kLinkNonceBytes = 32;

// From the end that dials.
struct Hello {
  uint32_t magic;
  uint32_t from;
  uint32_t to;
  uint32_t connection;  // its index
  uint64_t group_hash;
  uint8_t nonce[kLinkNonceBytes];
};
// The answer to it. What follows is the dialing end's proof, a Digest, and the last byte, from the end that listens.
struct Reply {
  uint8_t nonce[kLinkNonceBytes];
  Digest proof;
};
constexpr uint8_t kWelcome = 1;
static_assert(sizeof(Hello) == 56 && sizeof(Reply) == 64);

FileDescriptor new_link_socket(int family);

class Candidate {
 public:
  enum class State { kWaits, kLinked, kFailed };

  // Begins to connect to the remote rank.
  static Candidate dialed(const Identity& self, const Remote& remote);
  // The same by a socket that has begun to connect.
  static Candidate dialing(const Identity& self, uint32_t rank, FileDescriptor socket, uint32_t connection = 0);
  // A stranger until go_on says otherwise.
  static Candidate accepted(FileDescriptor socket, uint64_t until_ns);

  bool is_dialed() const noexcept { return until_ns_ == 0; }
  // The other end's, which an accepted connection has once it is linked.
  uint32_t rank() const noexcept { return rank_; }
  uint32_t connection() const noexcept { return hello_.connection; }
  int fd() const noexcept { return socket_.get(); }
  // Of poll(): what go_on waits for.
  short events() const noexcept;
  // Whether the end that dials has sent its proof: the other end may have linked it, and may yet say so.
  bool has_proved() const noexcept { return step_ == Step::kAwaitsWelcome; }
  // Whether it was accepted and has sent no right hello yet.
  bool awaits_hello() const noexcept { return step_ == Step::kAwaitsHello; }
  bool is_over(uint64_t now_ns) const noexcept { return until_ns_ != 0 && now_ns > until_ns_; }
  const std::string& why() const noexcept { return why_; }
  // Whether nothing listens at the address that was dialed.
  bool was_refused() const noexcept { return was_refused_; }
  // Once it is linked.
  Connection take(const Identity& self) noexcept;

  // Goes as far as possible without blocking. `expects` tells whether a rank may dial this one for a connection of that
  // index.
  State go_on(const Identity& self, const std::function<bool(uint32_t, uint32_t)>& expects);

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  enum class Step { kConnects, kAwaitsReply, kAwaitsWelcome, kAwaitsHello, kAwaitsProof, kFailed };

  Candidate(uint32_t rank, uint64_t until_ns) : rank_(rank), until_ns_(until_ns) {}

  State state() const noexcept { return step_ == Step::kFailed ? State::kFailed : State::kWaits; }
  Candidate&& fail(std::string why);
  bool send(Bytes bytes);
  template <class Message>
  bool receive(Message* message);

  uint32_t rank_;
  uint64_t until_ns_;  // 0: it was dialed
  FileDescriptor socket_;
  Step step_ = Step::kFailed;
  Hello hello_{};
  uint8_t nonce_[kLinkNonceBytes] = {};  // of the end that listens
  uint8_t room_[sizeof(Reply)];
  size_t filled_ = 0;
  std::string why_;
  bool was_refused_ = false;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_CANDIDATE_H
