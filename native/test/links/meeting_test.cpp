// How links come about while others disturb: strangers at a rank's port, ranks that come late or never, ends of the
// meeting.
#include "link/meeting.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "common/error.h"
#include "common/tick_clock.h"
#include "links/socket.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

using link::Identity;
using link::LinkAddress;
using link::Listener;
using link::Remote;

constexpr uint64_t kGroup = 0x1234567890ABCDEF;
constexpr size_t kHelloBytes = 56;
constexpr size_t kReplyBytes = 64;
constexpr size_t kProofBytes = 32;

Digest secret(uint8_t which) {
  Digest digest;
  digest.fill(which);
  return digest;
}

Identity rank_of_group(uint32_t rank) { return {rank, kGroup, secret(7)}; }

// What a stranger who knows all but the secret can send first.
std::vector<uint8_t> hello(uint32_t from, uint32_t to, uint64_t group = kGroup) {
  std::vector<uint8_t> bytes(kHelloBytes, 0x5A);
  const uint32_t words[4] = {0x4C52564E, from, to, 0};
  std::memcpy(bytes.data(), words, sizeof words);
  std::memcpy(bytes.data() + sizeof words, &group, sizeof group);
  return bytes;
}

std::vector<uint8_t> noise(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

Listener listener_here() { return Listener::open("127.0.0.1", 0, 0); }

struct Outcome {
  std::map<uint32_t, link::Connection> links;
  std::string error;
  double seconds = 0;
};

// One rank's meeting, in a thread.
class Party {
 public:
  Party(const Listener& listener, const Identity& self, std::vector<Remote> remotes, uint64_t limit_ms = 20'000)
      : outcome_(std::async(std::launch::async, [this, &listener, self, remotes, limit_ms] {
          Outcome outcome;
          const double begin = seconds_now();
          try {
            const auto linked = [&](uint32_t rank, link::Connection connection) {
              outcome.links.emplace(rank, std::move(connection));
            };
            link::meet(listener, self, remotes, monotonic_ns() + limit_ms * kMs, linked,
                       [this] { return ended_.load(); });
          } catch (const Error& error) {
            outcome.error = std::to_string(error.status()) + " " + error.what();
          }
          outcome.seconds = seconds_now() - begin;
          return outcome;
        })) {}
  ~Party() { end(); }
  void end() { ended_ = true; }
  bool is_over(double limit_seconds) {
    return outcome_.wait_for(std::chrono::duration<double>(limit_seconds)) == std::future_status::ready;
  }
  Outcome result() { return outcome_.get(); }

 private:
  std::atomic<bool> ended_{false};
  std::future<Outcome> outcome_;
};

// Small messages leave at once, and a peer that vanishes is noticed.
void expect_settings(int fd) {
  int on = 0;
  socklen_t bytes = sizeof on;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
  EXPECT_NE(on, 0);
  EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &bytes), 0);
  EXPECT_NE(on, 0);
}

// Both ends are of one connection.
void expect_linked(const link::Connection& a, const link::Connection& b) {
  ASSERT_TRUE(a.socket && b.socket);
  EXPECT_EQ(a.send_key, b.receive_key);
  EXPECT_EQ(a.receive_key, b.send_key);
  EXPECT_NE(a.send_key, a.receive_key);
  expect_settings(a.socket.get());
  expect_settings(b.socket.get());
  Socket one(FileDescriptor(::dup(a.socket.get())));
  Socket two(FileDescriptor(::dup(b.socket.get())));
  const std::vector<uint8_t> sent = noise(100, 1);
  EXPECT_TRUE(one.send(sent));
  EXPECT_EQ(two.receive(sent.size()), sent);
  EXPECT_TRUE(two.send(sent));
  EXPECT_EQ(one.receive(sent.size()), sent);
}

// Rank 0, which listens, and rank 1, which dials it when the test lets it.
class MeetingOfTwo : public ::testing::Test {
 protected:
  void SetUp() override { begin(); }
  void begin() { zero_.emplace(listener_, rank_of_group(0), std::vector<Remote>{{1, other_.address()}}); }
  Socket stranger() { return Socket::dial(listener_.address()); }
  void expect_both_link() {
    Party one(other_, rank_of_group(1), {{0, listener_.address()}});
    const Outcome a = zero_->result();
    const Outcome b = one.result();
    ASSERT_EQ(a.error + b.error, "");
    expect_linked(a.links.at(1), b.links.at(0));
    zero_.reset();
  }

  Listener listener_ = listener_here();
  Listener other_ = listener_here();
  std::optional<Party> zero_;
};

TEST_F(MeetingOfTwo, LinksThem) { expect_both_link(); }

TEST(Meeting, LinksEightRanksOverIpv6) {
  std::vector<Listener> listeners;
  try {
    for (int rank = 0; rank < 8; ++rank) listeners.push_back(Listener::open("::1", 0, 0));
  } catch (const Error&) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  std::vector<std::unique_ptr<Party>> parties;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    std::vector<Remote> remotes;
    for (uint32_t peer = 0; peer < 8; ++peer) {
      if (peer != rank) remotes.push_back({peer, listeners[peer].address()});
    }
    parties.push_back(std::make_unique<Party>(listeners[rank], rank_of_group(rank), remotes));
  }
  std::vector<Outcome> outcomes;
  for (auto& party : parties) outcomes.push_back(party->result());
  for (uint32_t a = 0; a < 8; ++a) {
    ASSERT_EQ(outcomes[a].error, "");
    for (uint32_t b = 0; b < a; ++b) expect_linked(outcomes[a].links.at(b), outcomes[b].links.at(a));
  }
}

TEST_F(MeetingOfTwo, SurvivesGarbage) {
  std::vector<Socket> strangers;
  for (uint32_t i = 0; i < 40; ++i) {
    strangers.push_back(stranger());
    (void)strangers.back().send(noise(1 + 37 * i, i));
  }
  for (size_t i = 2; i < strangers.size(); ++i) EXPECT_TRUE(strangers[i].is_closed_there()) << i;
  expect_both_link();
}

TEST_F(MeetingOfTwo, SurvivesConnectionsThatSayNothingOrHalfAHello) {
  std::vector<Socket> strangers;
  for (int i = 0; i < 50; ++i) {
    strangers.push_back(stranger());
    const std::vector<uint8_t> whole = hello(1, 0);
    if (i % 2 == 0) (void)strangers.back().send(whole.data(), whole.size() - 1);
  }
  expect_both_link();
  for (Socket& socket : strangers) EXPECT_TRUE(socket.is_closed_there());
}

// Only the link of a peer has room for a large message.
TEST_F(MeetingOfTwo, TakesLittleFromConnectionsThatAreNotAccepted) {
  constexpr size_t kBytes = 64 << 10;
  constexpr size_t kStrangers = 8;
  size_t taken = 0;
  const std::vector<uint8_t> bytes = noise(kBytes, 1);
  std::vector<Socket> strangers;
  for (size_t i = 0; i < kStrangers; ++i) {
    strangers.push_back(stranger());
    // What this end's own buffer takes does not count.
    const int own = 4 << 10;
    ASSERT_EQ(::setsockopt(strangers.back().fd(), SOL_SOCKET, SO_SNDBUF, &own, sizeof own), 0);
    ssize_t sent = 0;
    while ((sent = ::send(strangers.back().fd(), bytes.data(), kBytes, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
      taken += static_cast<size_t>(sent);
    }
  }
  EXPECT_LT(taken, kStrangers * (512 << 10));
  strangers.clear();
  expect_both_link();
}

TEST_F(MeetingOfTwo, EndsAStrangersConnectionAfterAFewSeconds) {
  Socket socket = stranger();
  const double begin = seconds_now();
  EXPECT_TRUE(socket.is_closed_there());
  EXPECT_GT(seconds_now() - begin, 4);
  EXPECT_LT(seconds_now() - begin, 7);
  expect_both_link();
}

TEST_F(MeetingOfTwo, SurvivesAFloodOfAThousandConnections) {
  const size_t before = open_descriptors();
  std::atomic<bool> over{false};
  std::thread flood([&] {
    std::vector<Socket> strangers;
    for (int i = 0; i < 1000; ++i) strangers.push_back(Socket::knock(listener_.address()));
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  expect_both_link();
  over = true;
  flood.join();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(MeetingOfTwo, KeepsFewStrangersAtATime) {
  const size_t before = open_descriptors();
  std::vector<Socket> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger());
  // Those that the meeting keeps have two ends here.
  const double until = seconds_now() + 4;
  size_t kept = ~size_t{0};
  while (kept > 65 && seconds_now() < until) kept = open_descriptors() - before - strangers.size();
  EXPECT_LE(kept, 65u) << "64 and one for rank 1";
  expect_both_link();
}

TEST_F(MeetingOfTwo, RefusesAHelloForAnotherRankOrGroupOrOfARankThatDoesNotDial) {
  for (const auto& bytes :
       {hello(1, 1), hello(1, 2), hello(0, 0), hello(2, 0), hello(~0u, 0), hello(1, 0, kGroup + 1)}) {
    Socket socket = stranger();
    ASSERT_TRUE(socket.send(bytes));
    EXPECT_TRUE(socket.receive(kReplyBytes).empty());
  }
  expect_both_link();
}

TEST_F(MeetingOfTwo, RefusesADialerWithAWrongSecret) {
  Socket socket = stranger();
  ASSERT_TRUE(socket.send(hello(1, 0)));
  EXPECT_EQ(socket.receive(kReplyBytes).size(), kReplyBytes);
  ASSERT_TRUE(socket.send(noise(kProofBytes, 3)));
  EXPECT_TRUE(socket.is_closed_there());
  Party liar(other_, {1, kGroup, secret(8)}, {{0, listener_.address()}}, 500);
  const std::string error = liar.result().error;
  EXPECT_TRUE(contains(error, "what listens there does not know the group's secret")) << error;
  expect_both_link();
}

// Without roles in the proofs, what the listening end proves could be given back to it.
TEST_F(MeetingOfTwo, RefusesItsOwnProof) {
  Socket socket = stranger();
  ASSERT_TRUE(socket.send(hello(1, 0)));
  const std::vector<uint8_t> reply = socket.receive(kReplyBytes);
  ASSERT_EQ(reply.size(), kReplyBytes);
  ASSERT_TRUE(socket.send(reply.data() + kReplyBytes - kProofBytes, kProofBytes));
  EXPECT_TRUE(socket.is_closed_there());
  expect_both_link();
}

TEST(Meeting, ADialerRefusesItsOwnHelloAsAnAnswer) {
  const Listener own = listener_here();
  const Listener false_zero = listener_here();
  Party one(own, rank_of_group(1), {{0, false_zero.address()}}, 1000);
  Socket socket = Socket::accept(false_zero.get());
  std::vector<uint8_t> greeting = socket.receive(kHelloBytes);
  ASSERT_EQ(greeting.size(), kHelloBytes);
  greeting.resize(kReplyBytes, 0);
  ASSERT_TRUE(socket.send(greeting));
  EXPECT_TRUE(socket.is_closed_there());
  EXPECT_TRUE(contains(one.result().error, "does not know the group's secret"));
}

// Stands between rank 1 and rank 0 and passes on what they say.
class Relay {
 public:
  explicit Relay(const LinkAddress& to) : to_(to) {}
  const LinkAddress& address() const { return listener_.address(); }
  // Until rank 1 has proved who it is. `before_proof` is called with that proof in hand.
  template <class BeforeProof>
  void pass(BeforeProof before_proof, double seconds_before_dialing = 0) {
    from_one_ = Socket::accept(listener_.get());
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_before_dialing));
    to_zero_ = Socket::dial(to_);
    said_ = from_one_.receive(kHelloBytes);
    ASSERT_TRUE(to_zero_.send(said_));
    ASSERT_TRUE(from_one_.send(to_zero_.receive(kReplyBytes)));
    const std::vector<uint8_t> proof = from_one_.receive(kProofBytes);
    said_.insert(said_.end(), proof.begin(), proof.end());
    before_proof();
    (void)to_zero_.send(proof);
  }
  // All that either end says, until both have ended.
  void pass_rest(const std::atomic<bool>& over) {
    while (!over) {
      (void)from_one_.send(to_zero_.receive(4096, 0.005));
      (void)to_zero_.send(from_one_.receive(4096, 0.005));
    }
  }
  void close() {
    from_one_.close();
    to_zero_.close();
  }
  const std::vector<uint8_t>& said() const { return said_; }

 private:
  const LinkAddress to_;
  Listener listener_ = listener_here();
  Socket from_one_;
  Socket to_zero_;
  std::vector<uint8_t> said_;  // by rank 1
};

TEST_F(MeetingOfTwo, RefusesWhatARankSaidInAnEarlierMeeting) {
  Relay relay(listener_.address());
  std::atomic<bool> over{false};
  {
    Party one(other_, rank_of_group(1), {{0, relay.address()}});
    std::thread relaying([&] {
      relay.pass([] {});
      relay.pass_rest(over);
    });
    EXPECT_EQ(zero_->result().error + one.result().error, "");
    over = true;
    relaying.join();
  }
  begin();
  Socket socket = stranger();
  ASSERT_EQ(relay.said().size(), kHelloBytes + kProofBytes);
  ASSERT_TRUE(socket.send(relay.said()));
  EXPECT_TRUE(socket.is_closed_there());
  EXPECT_FALSE(zero_->is_over(0.1));
  expect_both_link();
}

// A rank that dials must know that the other end has linked it. Here a flood makes rank 0 drop the connection while
// rank 1's proof is on its way.
TEST_F(MeetingOfTwo, DialsAgainIfItsProofDidNotArrive) {
  Relay relay(listener_.address());
  Party one(other_, rank_of_group(1), {{0, relay.address()}});
  std::vector<Socket> strangers;
  relay.pass([&] {
    for (int i = 0; i < 100; ++i) {
      strangers.push_back(stranger());
      (void)strangers.back().send(hello(1, 0));  // those that say nothing would be dropped first
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  EXPECT_FALSE(zero_->is_over(0.1));
  relay.close();
  strangers.clear();
  std::atomic<bool> over{false};
  std::thread relaying([&] {
    relay.pass([] {});
    relay.pass_rest(over);
  });
  const Outcome a = zero_->result();
  const Outcome b = one.result();
  EXPECT_EQ(a.error + b.error, "");
  if (a.links.count(1) + b.links.count(0) == 2) expect_linked(a.links.at(1), b.links.at(0));
  over = true;
  relaying.join();
}

// Rank 0 comes when rank 1's dial is nearly given up, and links the connection that brings the proof: another would be
// a stranger's then.
TEST_F(MeetingOfTwo, DoesNotGiveAConnectionUpOnceItsProofIsOnItsWay) {
  Relay relay(listener_.address());
  Party one(other_, rank_of_group(1), {{0, relay.address()}}, 12'000);
  std::atomic<bool> over{false};
  std::thread relaying([&] {
    relay.pass([] { std::this_thread::sleep_for(std::chrono::milliseconds(600)); }, 4.6);
    relay.pass_rest(over);
  });
  const Outcome a = zero_->result();
  const Outcome b = one.result();
  EXPECT_EQ(a.error + b.error, "");
  if (a.links.count(1) + b.links.count(0) == 2) expect_linked(a.links.at(1), b.links.at(0));
  over = true;
  relaying.join();
}

// The proof of one connection is worth nothing on another.
TEST_F(MeetingOfTwo, LinksARankOnce) {
  Listener third = listener_here();
  Party zero(listener_, rank_of_group(0), {{1, other_.address()}, {2, third.address()}});
  zero_.reset();
  Party one(other_, rank_of_group(1), {{0, listener_.address()}});
  const Outcome b = one.result();
  ASSERT_EQ(b.error, "");
  Socket again = stranger();
  ASSERT_TRUE(again.send(hello(1, 0)));
  EXPECT_TRUE(again.receive(kReplyBytes).empty()) << "rank 1 is linked already";
  Party two(third, rank_of_group(2), {{0, listener_.address()}});
  const Outcome a = zero.result();
  const Outcome c = two.result();
  ASSERT_EQ(a.error + c.error, "");
  expect_linked(a.links.at(1), b.links.at(0));
  expect_linked(a.links.at(2), c.links.at(0));
}

// A large group, or a loaded host: many ranks dial at once, and each takes its time for every answer.
TEST(Meeting, LinksManyRanksThatAnswerSlowly) {
  constexpr uint32_t kRanks = 200;
  constexpr double kAnswerSeconds = 0.3;
  constexpr double kRedialSeconds = 0.1;
  const Listener listener = listener_here();
  std::vector<Remote> remotes;
  for (uint32_t rank = 1; rank <= kRanks; ++rank) remotes.push_back({rank, listener.address()});
  struct Dialer {
    std::optional<link::Candidate> dial;
    double next = 0;
    bool is_linked = false;
  };
  std::atomic<bool> over{false};
  std::thread dialing([&] {
    std::vector<Dialer> dialers(kRanks);
    std::vector<link::Connection> links;
    while (!over) {
      for (uint32_t i = 0; i < kRanks; ++i) {
        Dialer& dialer = dialers[i];
        const double now = seconds_now();
        if (dialer.is_linked || now < dialer.next) continue;
        const Identity self = rank_of_group(i + 1);
        dialer.next = now + kAnswerSeconds;
        if (!dialer.dial.has_value()) {
          dialer.dial.emplace(link::Candidate::dialed(self, {0, listener.address()}));
          continue;
        }
        const auto state = dialer.dial->go_on(self, [](uint32_t, uint32_t) { return false; });
        if (state == link::Candidate::State::kWaits) continue;
        dialer.is_linked = state == link::Candidate::State::kLinked;
        if (dialer.is_linked) links.push_back(dialer.dial->take(self));
        dialer.dial.reset();
        dialer.next = now + kRedialSeconds;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  Party zero(listener, rank_of_group(0), remotes, 12'000);
  const Outcome outcome = zero.result();
  over = true;
  dialing.join();
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.links.size(), kRanks);
  EXPECT_LT(outcome.seconds, 6);
}

TEST(Meeting, SaysWhichRankHasNotComeAndWhere) {
  const Listener listener = listener_here();
  const Listener nobody = listener_here();
  Party zero(listener, rank_of_group(0), {{1, nobody.address()}, {2, nobody.address()}}, 300);
  const Outcome outcome = zero.result();
  EXPECT_EQ(outcome.error,
            std::to_string(NVRAR_SYSTEM) + " rank 1 (" + nobody.address().text() + ") has not reached rank 0 at " +
                listener.address().text() +
                ", and 1 more rank is not linked; 127.0.0.1 is a loopback address, which leads every host to itself");
  EXPECT_GT(outcome.seconds, 0.29);
  EXPECT_LT(outcome.seconds, 2.0);
}

// Soon, but not before a group that has failed has told those that it is linked to: whoever listens there is on this
// host, and nothing does.
TEST(Meeting, SaysWhichRankItCouldNotReachAndWhy) {
  const Listener listener = listener_here();
  LinkAddress gone = listener_here().address();  // which nobody listens at any more
  Party one(listener, rank_of_group(1), {{0, gone}});
  const Outcome outcome = one.result();
  EXPECT_EQ(outcome.error, std::to_string(NVRAR_SYSTEM) + " rank 1 could not reach rank 0 at " + gone.text() +
                               ": Connection refused; 127.0.0.1 is a loopback address, which leads every host to "
                               "itself");
  EXPECT_GT(outcome.seconds, 0.9);
  EXPECT_LT(outcome.seconds, 5.0);
}

// To containers of one network, its loopback leads as well as any other address.
TEST(Meeting, DoesNotBlameTheAddressOfARankOfItsOwnNetwork) {
  const Listener listener = listener_here();
  const Listener nobody = listener_here();
  const LinkAddress gone = listener_here().address();
  Party one(listener, rank_of_group(1), {{0, gone, true}}, 1500);
  Party zero(nobody, rank_of_group(0), {{1, listener.address(), true}}, 300);
  EXPECT_EQ(zero.result().error, std::to_string(NVRAR_SYSTEM) + " rank 1 (" + listener.address().text() +
                                     ") has not reached rank 0 at " + nobody.address().text());
  const Outcome outcome = one.result();
  EXPECT_EQ(
      outcome.error,
      std::to_string(NVRAR_SYSTEM) + " rank 1 could not reach rank 0 at " + gone.text() +
          ": Connection refused; nothing listens there: rank 0 has ended, or the address is not that of its host");
  EXPECT_GT(outcome.seconds, 1.4);
}

// A limit of this process, and no firewall, keeps the other rank out.
TEST(Meeting, SaysThatItHasNoDescriptorForARankThatDials) {
  const Listener listener = listener_here();
  const Listener nobody = listener_here();
  const Socket dialing = Socket::dial(listener.address());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Party zero(listener, rank_of_group(0), {{1, nobody.address()}}, 300);
  const Outcome outcome = zero.result();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(outcome.error, std::to_string(NVRAR_SYSTEM) + " rank 1 (" + nobody.address().text() +
                               ") has not reached rank 0 at " + listener.address().text() +
                               "; on rank 0, a connection cannot be accepted: Too many open files");
}

// A port whose backlog is full drops what comes, as a firewall does. A connection may take longer to come about than
// the meeting looks at once.
TEST(Meeting, IsPatientWithAConnectionThatIsNotAnswered) {
  const FileDescriptor full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  LinkAddress address = LinkAddress::of("127.0.0.1", 0);
  link::SocketAddress bound(address);
  socklen_t size = sizeof bound.storage;
  ASSERT_EQ(::bind(full.get(), bound.get(), bound.bytes), 0);
  ASSERT_EQ(::listen(full.get(), 0), 0);
  ASSERT_EQ(::getsockname(full.get(), reinterpret_cast<sockaddr*>(&bound.storage), &size), 0);
  address.port = ntohs(reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port);
  Socket only = Socket::dial(address);
  const Listener listener = listener_here();
  Party one(listener, rank_of_group(1), {{0, address}}, 400);
  EXPECT_TRUE(contains(one.result().error, address.text() + ": no answer; 127.0.0.1 is a loopback address"));

  // Once there is room, the connection that is under way is the one that comes.
  Party later(listener, rank_of_group(1), {{0, address}}, 10'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  Socket first = Socket::accept(full.get());
  Socket dialed = Socket::accept(full.get());
  EXPECT_EQ(dialed.receive(kHelloBytes).size(), kHelloBytes);
  EXPECT_FALSE(Socket::accept(full.get(), 0.3)) << "it dialed more than once";
  later.end();
}

TEST(Meeting, EndsAtOnceWhenItIsEnded) {
  const Listener listener = listener_here();
  const Listener nobody = listener_here();
  Party zero(listener, rank_of_group(0), {{1, nobody.address()}});
  EXPECT_FALSE(zero.is_over(0.1));
  const double begin = seconds_now();
  zero.end();
  EXPECT_EQ(zero.result().error,
            std::to_string(NVRAR_ABORTED) + " the group was ended while its hosts were being linked");
  EXPECT_LT(seconds_now() - begin, 1.5);
}

TEST(Meeting, LeavesNoDescriptorWhenItFails) {
  const Listener listener = listener_here();
  const LinkAddress gone = listener_here().address();
  const size_t before = open_descriptors();
  {
    Party two(listener, rank_of_group(2), {{0, gone}, {1, gone}, {3, gone}}, 300);
    std::vector<Socket> strangers;
    for (int i = 0; i < 20; ++i) strangers.push_back(Socket::dial(listener.address()));
    EXPECT_NE(two.result().error, "");
  }
  EXPECT_EQ(open_descriptors(), before);
}

// A group can be made again at once at the ports that it had.
TEST(Meeting, TakesThePortsOfLinksThatHaveJustEnded) {
  uint16_t port = 0;
  {
    const Listener zero = listener_here();
    const Listener one = listener_here();
    port = zero.address().port;
    Party a(zero, rank_of_group(0), {{1, one.address()}});
    Party b(one, rank_of_group(1), {{0, zero.address()}});
    Outcome linked = a.result();
    Outcome other = b.result();
    ASSERT_EQ(linked.error + other.error, "");
    linked.links.clear();  // the end that closes first keeps the port busy for a minute
    Socket last(std::move(other.links.at(0).socket));
    EXPECT_TRUE(last.is_closed_there());
  }
  EXPECT_EQ(Listener::open("127.0.0.1", port, port).address().port, port);
}

}  // namespace
}  // namespace nvrar::test
