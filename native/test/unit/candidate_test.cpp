// One end of a handshake, step by step.
#include "link/candidate.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

namespace nvrar::test {
namespace {

using link::Candidate;
using link::Identity;
using link::LinkAddress;
using link::SocketAddress;

constexpr Identity kSelf{1, 7, {}};

// A listener whose queue is full, so that a connection takes a second longer, until accept_all() makes room.
class FullListener {
 public:
  FullListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const SocketAddress any(LinkAddress::of("127.0.0.1", 0));
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    if (::bind(socket_.get(), any.get(), any.bytes) != 0 || ::listen(socket_.get(), 0) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      ADD_FAILURE() << "no listener";
    }
    address_ = LinkAddress::of("127.0.0.1", ntohs(bound.sin_port));
    for (int i = 0; i < 4; ++i) {
      fillers_.push_back(link::new_link_socket(AF_INET));
      const SocketAddress to(address_);
      (void)::connect(fillers_.back().get(), to.get(), to.bytes);
    }
  }
  const LinkAddress& address() const { return address_; }
  void accept_all() {
    fillers_.clear();
    while (FileDescriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC))) continue;
  }

 private:
  FileDescriptor socket_;
  LinkAddress address_{};
  std::vector<FileDescriptor> fillers_;
};

TEST(Candidate, WaitsForAConnectionThatIsUnderWay) {
  FullListener listener;
  Candidate candidate = Candidate::dialed(kSelf, {0, listener.address()});
  const auto nobody = [](uint32_t, uint32_t) { return false; };
  for (int looks = 0; looks < 3; ++looks) {
    ASSERT_EQ(candidate.go_on(kSelf, nobody), Candidate::State::kWaits) << candidate.why();
    ASSERT_EQ(candidate.events(), POLLOUT);
  }
  listener.accept_all();
  pollfd connected{candidate.fd(), POLLOUT, 0};
  ASSERT_EQ(::poll(&connected, 1, 10'000), 1);
  EXPECT_EQ(candidate.go_on(kSelf, nobody), Candidate::State::kWaits) << candidate.why();
  EXPECT_EQ(candidate.events(), POLLIN) << "the greeting is under way";
}

TEST(Candidate, SaysWhyAConnectionFailed) {
  LinkAddress address;
  {
    const FullListener gone;
    address = gone.address();
  }
  Candidate candidate = Candidate::dialed(kSelf, {0, address});
  pollfd refused{candidate.fd(), POLLOUT, 0};
  (void)::poll(&refused, 1, 10'000);
  EXPECT_EQ(candidate.go_on(kSelf, [](uint32_t, uint32_t) { return false; }), Candidate::State::kFailed);
  EXPECT_EQ(candidate.why(), "Connection refused");
}

}  // namespace
}  // namespace nvrar::test
