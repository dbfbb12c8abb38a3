#include "links/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "support/group.h"

namespace nvrar::test {
namespace {

bool wait_for(int fd, short events, double until) {
  pollfd polled{fd, events, 0};
  const double left = until - seconds_now();
  return left > 0 && ::poll(&polled, 1, static_cast<int>(left * 1000) + 1) > 0;
}

}  // namespace

Socket::Socket(FileDescriptor connected) : fd_(std::move(connected)) {
  if (fd_) (void)::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

Socket Socket::dial(const link::LinkAddress& address, int receive_buffer) {
  const link::SocketAddress to(address);
  FileDescriptor fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (receive_buffer != 0) {
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  EXPECT_EQ(::connect(fd.get(), to.get(), to.bytes), 0) << strerrorname_np(errno);
  return Socket(std::move(fd));
}

Socket Socket::knock(const link::LinkAddress& address) {
  const link::SocketAddress to(address);
  FileDescriptor fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  (void)::connect(fd.get(), to.get(), to.bytes);
  return Socket(std::move(fd));
}

Socket Socket::accept(int listener, double limit_seconds) {
  if (!wait_for(listener, POLLIN, seconds_now() + limit_seconds)) return {};
  return Socket(FileDescriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)));
}

bool Socket::send(const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  const double until = seconds_now() + 20;
  while (count != 0) {
    const ssize_t sent = ::send(fd(), at, count, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      count -= static_cast<size_t>(sent);
    } else if (sent < 0 && errno != EINTR && (errno != EAGAIN || !wait_for(fd(), POLLOUT, until))) {
      return false;
    }
  }
  return true;
}

std::vector<uint8_t> Socket::receive(size_t count, double limit_seconds) {
  std::vector<uint8_t> bytes(count);
  size_t filled = 0;
  const double until = seconds_now() + limit_seconds;
  while (filled < count) {
    const ssize_t got = ::recv(fd(), bytes.data() + filled, count - filled, 0);
    if (got > 0) {
      filled += static_cast<size_t>(got);
    } else if (got == 0 || (errno != EINTR && (errno != EAGAIN || !wait_for(fd(), POLLIN, until)))) {
      break;
    }
  }
  bytes.resize(filled);
  return bytes;
}

bool Socket::is_closed_there(double limit_seconds) {
  const double until = seconds_now() + limit_seconds;
  uint8_t dropped[4096];
  for (;;) {
    const ssize_t got = ::recv(fd(), dropped, sizeof dropped, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0 && errno == EAGAIN && !wait_for(fd(), POLLIN, until)) return false;
  }
}

void Socket::reset() {
  const linger at_once{1, 0};
  (void)::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

}  // namespace nvrar::test
