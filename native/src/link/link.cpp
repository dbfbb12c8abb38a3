#include "link/link.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace nvrar::link {
namespace {

constexpr size_t kInBytes = size_t{256} << 10;
// More than this is sent at once, so that it travels while the rest is queued.
constexpr size_t kFullBytes = size_t{64} << 10;
constexpr int kReceivesAtOnce = 4;  // so that no link keeps a thread from the others

}  // namespace

Link::Link(uint32_t peer, FileDescriptor socket) : peer_(peer), socket_(std::move(socket)), in_(kInBytes) {
  out_.reserve(2 * kFullBytes);
}

void Link::put(FrameKind kind, uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes) noexcept {
  const std::lock_guard lock(send_mutex_);
  open_frame_ = kNoFrame;
  append({bytes, kind, 0, frames_sent_, static_cast<uint32_t>(slot), epoch}, payload);
  if (out_.size() - sent_ > kFullBytes) flush_locked();
}

void Link::put_numbered(uint64_t slot, uint64_t payload, uint64_t epoch) noexcept {
  const std::lock_guard lock(send_mutex_);
  if (open_frame_ != kNoFrame && slot == next_slot_ && epoch == next_epoch_) {
    FrameHead head;
    std::memcpy(&head, out_.data() + open_frame_, sizeof head);
    if (head.bytes + sizeof payload <= kMostPayloadBytes) {
      head.bytes += static_cast<uint32_t>(sizeof payload);
      try {
        const auto* const bytes = reinterpret_cast<const uint8_t*>(&payload);
        out_.insert(out_.end(), bytes, bytes + sizeof payload);
        std::memcpy(out_.data() + open_frame_, &head, sizeof head);
        ++next_slot_;
        ++next_epoch_;
      } catch (const std::bad_alloc&) {
        dead_ = true;
      }
      return;
    }
  }
  const size_t begin = out_.size();
  append({static_cast<uint32_t>(sizeof payload), FrameKind::kNumbered, 0, frames_sent_, static_cast<uint32_t>(slot),
          epoch},
         &payload);
  open_frame_ = dead_ ? kNoFrame : begin;
  next_slot_ = slot + 1;
  next_epoch_ = epoch + 1;
}

void Link::append(const FrameHead& head, const void* payload) noexcept {
  if (dead_) return;
  try {
    const size_t begin = out_.size();
    out_.resize(begin + sizeof head + head.bytes);
    std::memcpy(out_.data() + begin, &head, sizeof head);
    if (head.bytes != 0) std::memcpy(out_.data() + begin + sizeof head, payload, head.bytes);
    ++frames_sent_;
  } catch (const std::bad_alloc&) {
    dead_ = true;
    (void)::shutdown(fd(), SHUT_RDWR);  // which receive() finds
  }
}

void Link::flush() noexcept {
  const std::lock_guard lock(send_mutex_);
  flush_locked();
}

void Link::flush_locked() noexcept {
  open_frame_ = kNoFrame;
  while (!dead_ && sent_ < out_.size()) {
    const ssize_t sent = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      sent_ += static_cast<size_t>(sent);
    } else if (sent < 0 && errno == EAGAIN) {
      break;
    } else if (sent < 0 && errno != EINTR) {
      dead_ = true;  // receive() finds why
    }
  }
  if (dead_ || sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  } else if (sent_ > kFullBytes && sent_ > out_.size() / 2) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  behind_.store(!out_.empty(), std::memory_order_relaxed);
}

void Link::end() noexcept {
  const std::lock_guard lock(send_mutex_);
  dead_ = true;
  flush_locked();
  (void)::shutdown(fd(), SHUT_RDWR);
  ended_.store(true, std::memory_order_release);
}

bool Link::is_delivered() noexcept {
  const std::lock_guard lock(send_mutex_);
  pollfd state{fd(), 0, 0};
  (void)::poll(&state, 1, 0);
  if ((state.revents & (POLLERR | POLLHUP)) != 0) return true;  // there is nobody to take it
  int unsent = 0;
  return dead_ || (out_.empty() && (::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0));
}

bool Link::receive(FrameSink* sink, bool* took) noexcept {
  for (int i = 0; i < kReceivesAtOnce; ++i) {
    const size_t room = in_.size() - filled_;
    const ssize_t got = ::recv(fd(), in_.data() + filled_, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    filled_ += static_cast<size_t>(got);
    if (!parse(sink, took)) return false;
    if (static_cast<size_t>(got) < room) return true;
  }
  return true;
}

bool Link::parse(FrameSink* sink, bool* took) noexcept {
  size_t at = 0;
  while (filled_ - at >= sizeof(FrameHead)) {
    FrameHead head;
    std::memcpy(&head, in_.data() + at, sizeof head);
    if (head.number != frames_received_ || head.bytes > kMostPayloadBytes || head.reserved != 0) return false;
    if (filled_ - at < sizeof head + head.bytes) break;
    if (sink->take(peer_, head, in_.data() + at + sizeof head) != nullptr) return false;
    *took = true;
    ++frames_received_;
    at += sizeof head + head.bytes;
  }
  filled_ -= at;
  if (at != 0 && filled_ != 0) std::memmove(in_.data(), in_.data() + at, filled_);
  return true;
}

}  // namespace nvrar::link
