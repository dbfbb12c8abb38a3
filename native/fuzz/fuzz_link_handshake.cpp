// Fuzzes both ends of a handshake. A stranger without the group's secret makes honest ends dial and listen as it likes,
// gives each any bytes, also what others have said and what it can forge, in any order and any pieces. An end is linked
// only to an end of the right rank with which it agrees on every byte: the stranger did no more than carry them.
#include <fuzzer/FuzzedDataProvider.h>
#include <nvrar.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <vector>

#include "link/candidate.h"
#include "property.h"

namespace nvrar::fuzz {
namespace {

using link::Candidate;
using link::Hello;
using link::Identity;
using link::Reply;

constexpr uint32_t kWorld = 3;
constexpr size_t kMostEnds = 6;
constexpr size_t kProofBytes = sizeof(Digest);
const Digest kSecret{1, 2, 3};
constexpr uint64_t kGroupHash = 0x1122334455667788;
constexpr std::array<const char*, 2> kRoles{"nvrar link: the end that dials", "nvrar link: the end that listens"};

using Text = std::vector<uint8_t>;

bool begins_alike(const Text& a, const Text& b, size_t from, size_t to) {
  return a.size() >= to && b.size() >= to &&
         std::equal(a.begin() + static_cast<ptrdiff_t>(from), a.begin() + static_cast<ptrdiff_t>(to),
                    b.begin() + static_cast<ptrdiff_t>(from));
}

struct End {
  Identity self;
  bool dials;
  uint32_t peer;  // of the end that dials
  FileDescriptor far;
  Candidate candidate;
  Candidate::State state = Candidate::State::kWaits;
  Text said{};
  Text heard{};  // all that was given to it

  static End made(uint32_t rank, bool dials, uint32_t peer) {
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
            "a pair of sockets can be made");
    const Identity self{rank, kGroupHash, kSecret};
    FileDescriptor near(ends[1]);
    return {self, dials, peer, FileDescriptor(ends[0]),
            dials ? Candidate::dialing(self, peer, std::move(near)) : Candidate::accepted(std::move(near), 1)};
  }

  bool expects(uint32_t rank) const { return rank > self.rank && rank < kWorld; }
  size_t handshake_bytes() const { return dials ? sizeof(Reply) + sizeof link::kWelcome : sizeof(Hello) + kProofBytes; }

  // False if this end has yet to read what it heard before: hundreds of small pieces fill a socket.
  bool hear(const Text& text) {
    if (state != Candidate::State::kWaits || text.empty()) return true;
    const ssize_t sent = ::send(far.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return false;
    require(sent == static_cast<ssize_t>(text.size()), "a socket takes an attempt");
    heard.insert(heard.end(), text.begin(), text.end());
    return true;
  }
  void go_on() {
    if (state != Candidate::State::kWaits) return;
    state = candidate.go_on(self, [this](uint32_t rank, uint32_t) { return expects(rank); });
    uint8_t room[256];
    const ssize_t got = ::recv(far.get(), room, sizeof room, 0);
    if (got > 0) said.insert(said.end(), room, room + got);
    require_reticent();
  }
  void require_reticent() const {
    const size_t most = dials ? sizeof(Hello) + (heard.size() >= sizeof(Reply) ? kProofBytes : 0)
                              : (heard.size() >= sizeof(Hello) ? sizeof(Reply) : 0) +
                                    (heard.size() >= handshake_bytes() ? sizeof link::kWelcome : 0);
    require(said.size() <= most, "an end says no more than its part");
    if (!dials && !said.empty()) {
      Hello hello;
      std::memcpy(&hello, heard.data(), sizeof hello);
      require(hello.magic == link::kHelloMagic && hello.group_hash == kGroupHash && hello.to == self.rank &&
                  expects(hello.from),
              "an end answers only a greeting for it");
    }
    require((state == Candidate::State::kFailed) == !candidate.why().empty(), "a failure has a reason");
    if (state == Candidate::State::kFailed) require_sentence(candidate.why().c_str());
  }
  void require_left_alone() const {
    int unread = 0;
    require(::ioctl(candidate.fd(), FIONREAD, &unread) == 0, "a socket's bytes can be counted");
    require(static_cast<size_t>(unread) == heard.size() - handshake_bytes(),
            "what follows a handshake is left to the link");
  }
};

// Whether the two said to each other what they heard, until the end that listens was sure or, if `half`, the other one.
bool have_talked(const End& dialer, const End& listener, bool half) {
  return dialer.dials && !listener.dials && dialer.peer == listener.self.rank &&
         begins_alike(dialer.said, listener.heard, 0, sizeof(Hello)) &&
         begins_alike(listener.said, dialer.heard, 0, sizeof(Reply)) &&
         (half || begins_alike(dialer.said, listener.heard, sizeof(Hello), sizeof(Hello) + kProofBytes));
}

class Stranger {
 public:
  void run(FuzzedDataProvider& input) {
    while (input.remaining_bytes() != 0) {
      if (ends_.empty() || (ends_.size() < kMostEnds && input.ConsumeIntegralInRange(0, 3) == 0)) {
        const auto rank = input.ConsumeIntegralInRange<uint32_t>(0, kWorld - 1);
        const auto peer = input.ConsumeIntegralInRange<uint32_t>(0, kWorld - 1);
        ends_.push_back(End::made(rank, peer < rank, peer));
        go_on(ends_.back());
      } else {
        End& to = any(input);
        const Text said = text(input, to);
        if (!to.hear(said)) {
          go_on(to);
          require(to.hear(said), "an end that waits has read all that it heard");
        }
        if (input.ConsumeBool()) go_on(to);
      }
    }
    for (End& end : ends_) go_on(end);
  }

 private:
  End& any(FuzzedDataProvider& input) {
    return *std::next(ends_.begin(),
                      input.ConsumeIntegralInRange<ptrdiff_t>(0, static_cast<ptrdiff_t>(ends_.size()) - 1));
  }
  void go_on(End& end) {
    if (end.state != Candidate::State::kWaits) return;
    end.go_on();
    if (end.state != Candidate::State::kLinked) return;
    const bool knows_the_other = std::any_of(ends_.begin(), ends_.end(), [&](const End& other) {
      return end.dials ? have_talked(end, other, true) && end.candidate.rank() == other.self.rank
                       : have_talked(other, end, false) && end.candidate.rank() == other.self.rank;
    });
    require(knows_the_other, "an end is linked only to one that has the secret");
    end.require_left_alone();
  }

  Text text(FuzzedDataProvider& input, const End& to) {
    const End& from = any(input);
    switch (input.ConsumeIntegralInRange(0, 4)) {
      case 0:  // anything
        return input.ConsumeBytes<uint8_t>(input.ConsumeIntegralInRange<size_t>(0, 100));
      case 1: {  // all that an end said since it was last carried there
        const size_t first = from.dials ? sizeof(Hello) : sizeof(Reply);
        const size_t begin = to.heard.size() >= first ? std::min(first, from.said.size()) : 0;
        return Text(from.said.begin() + static_cast<ptrdiff_t>(begin), from.said.end());
      }
      case 2: {  // a piece of what an end said
        const auto begin = input.ConsumeIntegralInRange<size_t>(0, from.said.size());
        const auto count = input.ConsumeIntegralInRange<size_t>(0, from.said.size() - begin);
        return Text(from.said.begin() + static_cast<ptrdiff_t>(begin),
                    from.said.begin() + static_cast<ptrdiff_t>(begin + count));
      }
      case 3:
        return greeting(input);
      default:
        return forged(input, from, to);
    }
  }
  static Text greeting(FuzzedDataProvider& input) {
    Hello hello{link::kHelloMagic, input.ConsumeIntegralInRange<uint32_t>(0, kWorld), 0, 0, kGroupHash, {}};
    hello.to = input.ConsumeIntegralInRange<uint32_t>(0, kWorld);
    if (input.ConsumeProbability<float>() < 0.1F) hello.group_hash = input.ConsumeIntegral<uint64_t>();
    if (input.ConsumeProbability<float>() < 0.1F) hello.magic = input.ConsumeIntegral<uint32_t>();
    return bytes_of(hello);
  }
  // With another secret, over whatever is known.
  static Text forged(FuzzedDataProvider& input, const End& from, const End& to) {
    Digest secret{};
    if (input.ConsumeBool()) secret = kSecret;
    secret[input.ConsumeIntegralInRange<size_t>(0, secret.size() - 1)] ^= 0x80;
    const char* const role = input.PickValueInArray(kRoles);
    Text hello = to.dials ? to.said : to.heard;
    hello.resize(sizeof(Hello));
    Text nonce = input.ConsumeBool() ? from.said : to.said;
    nonce.resize(link::kLinkNonceBytes);
    const Digest proof = hmac_sha256(secret, {{reinterpret_cast<const uint8_t*>(role), std::strlen(role)},
                                              {hello.data(), hello.size()},
                                              {nonce.data(), nonce.size()}});
    Text text;
    if (to.dials) text = nonce;
    text.insert(text.end(), proof.begin(), proof.end());
    return text;
  }
  template <class Value>
  static Text bytes_of(const Value& value) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
    return Text(bytes, bytes + sizeof value);
  }

  std::list<End> ends_;
};

// Else nothing that is required above would mean anything.
bool honest_ends_are_linked() {
  End dialer = End::made(1, true, 0);
  End listener = End::made(0, false, 1);
  dialer.go_on();
  listener.hear(dialer.said);
  listener.go_on();
  dialer.hear(listener.said);
  dialer.go_on();
  listener.hear(Text(dialer.said.begin() + sizeof(Hello), dialer.said.end()));
  listener.go_on();
  dialer.hear({link::kWelcome});
  dialer.go_on();
  return dialer.state == Candidate::State::kLinked && listener.state == Candidate::State::kLinked &&
         have_talked(dialer, listener, false) && listener.candidate.rank() == 1;
}

}  // namespace
}  // namespace nvrar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool honest = nvrar::fuzz::honest_ends_are_linked();
  nvrar::fuzz::require(honest, "honest ends are linked");
  FuzzedDataProvider input(data, size);
  nvrar::fuzz::Stranger().run(input);
  return 0;
}
