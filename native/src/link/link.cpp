#include "link/link.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace nvrar::link {
namespace {

// Little enough that it is still in a core's own cache when it is summed, and that this begins before all of a message
// is there.
constexpr size_t kReceiveBytes = size_t{32} << 10;
// More than this is sent at once, so that it travels while the rest is queued.
constexpr size_t kFullBytes = size_t{64} << 10;
// A message of at most this size is copied, which takes less time than sending it from two places.
constexpr size_t kCopiedBytes = size_t{4} << 10;
constexpr uint64_t kMostStride = 0xFFFF;  // that a head can name
constexpr size_t kStuffedBytes = size_t{256} << 10;
constexpr int kReceivesAtOnce = 4;  // so that no link keeps a thread from the others

// An encrypted record: the bytes of its content, the content, the tag. Frames may span records.
constexpr size_t kMostRecordBytes = size_t{16} << 10;
using RecordHead = uint32_t;
constexpr size_t kRecordExtraBytes = sizeof(RecordHead) + Cipher::kTagBytes;

}  // namespace

Link::Link(uint32_t peer, FileDescriptor socket, std::unique_ptr<Cipher> seals, std::unique_ptr<Cipher> opens)
    : peer_(peer),
      socket_(std::move(socket)),
      local_(local_end(socket_.get())),
      remote_(remote_end(socket_.get())),
      seals_(std::move(seals)),
      out_(2 * kFullBytes),
      sealed_(seals_ == nullptr ? 1 : 2 * kFullBytes),
      opens_(std::move(opens)),
      in_(2 * kReceiveBytes),
      unread_(opens_ == nullptr ? 1 : 2 * kReceiveBytes) {}

void Link::put(FrameKind kind, uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes) noexcept {
  const std::lock_guard lock(send_mutex_);
  open_frame(kind, slot, epoch, payload, bytes);
  open_frame_ = kNoFrame;  // it never grows
  if (out_.size() > kFullBytes && !is_behind()) flush_locked();
}

void Link::put_run(uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes, uint32_t whole_bytes) noexcept {
  const std::lock_guard lock(send_mutex_);
  if (open_frame_ != kNoFrame) {
    FrameHead head;
    std::memcpy(&head, out_.at(open_frame_), sizeof head);
    const bool is_second = head.kind == FrameKind::kPackets && head.stride == 0 && run_bytes_ != 0;
    if (is_second && slot > head.slot && slot - head.slot <= kMostStride) {
      next_slot_ = slot;
      head.stride = static_cast<uint16_t>(slot - head.slot);
    }
    const bool fits = head.kind == FrameKind::kPackets && head.stride != 0 && slot == next_slot_ &&
                      epoch == head.epoch && bytes <= run_bytes_;
    if (fits && grow(&head, payload, bytes)) {
      next_slot_ += head.stride;
      if (bytes < run_bytes_) run_bytes_ = 0;
      return;
    }
  }
  if (out_.size() > kFullBytes && !is_behind()) flush_locked();
  open_frame(FrameKind::kPackets, slot, epoch, payload, bytes);
  run_bytes_ = bytes == whole_bytes ? bytes : 0;
}

void Link::lend(const Message& message) noexcept {
  const std::lock_guard lock(send_mutex_);
  settle_locked();
  open_frame_ = kNoFrame;
  if (seals_ == nullptr) {
    borrow(message);
    if (message.bytes <= kCopiedBytes) settle_locked();
    return;
  }
  for (uint64_t at = 0; at < message.bytes; at += kFullBytes) {
    Message part = message;
    part.payload += at;
    part.slot += at / message.run_bytes * message.stride;
    part.bytes = std::min<uint64_t>(message.bytes - at, kFullBytes);
    borrow(part);
    settle_locked();
    if (out_.size() > kFullBytes && !is_behind()) flush_locked();
  }
}

void Link::borrow(const Message& message) noexcept {
  if (dead_) return;
  loan_.begin(message, frames_sent_);
  frames_sent_ += loan_.frames();
  lent_end_ = message.payload + message.bytes;
  needed_.store(message.payload, std::memory_order_relaxed);
}

void Link::settle() noexcept {
  if (needed_.load(std::memory_order_acquire) == lent_end_) return;
  const std::lock_guard lock(send_mutex_);
  settle_locked();
}

void Link::settle_locked() noexcept {
  if (loan_.empty()) return;
  try {
    while (!loan_.empty() && !dead_) {
      Pieces pieces;
      loan_.show(&pieces);
      for (size_t i = 0; i < pieces.count; ++i) {
        const iovec& piece = pieces.at[i];
        std::memcpy(out_.room(piece.iov_len), piece.iov_base, piece.iov_len);
        out_.added(piece.iov_len);
        loan_.sent(piece.iov_len);
      }
    }
  } catch (const std::bad_alloc&) {
    give_up();
  }
  loan_.sent(loan_.bytes());
  needed_.store(lent_end_, std::memory_order_release);
}

void Link::put_numbered(uint64_t slot, uint64_t payload, uint64_t epoch) noexcept {
  const std::lock_guard lock(send_mutex_);
  if (open_frame_ != kNoFrame) {
    FrameHead head;
    std::memcpy(&head, out_.at(open_frame_), sizeof head);
    const bool fits = head.kind == FrameKind::kNumbered && slot == next_slot_ && epoch == next_epoch_;
    if (fits && grow(&head, &payload, sizeof payload)) {
      ++next_slot_;
      ++next_epoch_;
      return;
    }
  }
  open_frame(FrameKind::kNumbered, slot, epoch, &payload, sizeof payload);
  next_slot_ = slot + 1;
  next_epoch_ = epoch + 1;
}

void Link::open_frame(FrameKind kind, uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes) noexcept {
  settle_locked();
  const size_t begin = out_.size();
  append({bytes, kind, 0, frames_sent_, static_cast<uint32_t>(slot), epoch}, payload);
  open_frame_ = dead_ ? kNoFrame : begin;
}

// Adds to the open frame, whose new head this is. Returns whether it had room.
bool Link::grow(FrameHead* head, const void* payload, uint32_t bytes) noexcept {
  if (head->bytes + bytes > kMostPayloadBytes) return false;
  head->bytes += bytes;
  try {
    std::memcpy(out_.room(bytes), payload, bytes);
    out_.added(bytes);
    std::memcpy(out_.at(open_frame_), head, sizeof *head);
  } catch (const std::bad_alloc&) {
    give_up();
  }
  return true;
}

void Link::append(const FrameHead& head, const void* payload) noexcept {
  if (dead_) return;
  try {
    uint8_t* const room = out_.room(sizeof head + head.bytes);
    std::memcpy(room, &head, sizeof head);
    if (head.bytes != 0) std::memcpy(room + sizeof head, payload, head.bytes);
    out_.added(sizeof head + head.bytes);
    ++frames_sent_;
  } catch (const std::bad_alloc&) {
    give_up();
  }
}

void Link::give_up() noexcept {
  dead_ = true;
  open_frame_ = kNoFrame;
  (void)::shutdown(fd(), SHUT_RDWR);  // which receive() finds
}

void Link::flush() noexcept {
  const std::lock_guard lock(send_mutex_);
  flush_locked();
}

void Link::flush_locked() noexcept {
  open_frame_ = kNoFrame;
  if (seals_ != nullptr && !dead_) seal();
  ByteQueue& queue = seals_ != nullptr ? sealed_ : out_;
  while (!dead_ && !(queue.empty() && loan_.empty())) {
    const ssize_t sent = send_some(queue);
    if (sent > 0) {
      const size_t of_queue = std::min(static_cast<size_t>(sent), queue.size());
      queue.taken(of_queue);
      loan_.sent(static_cast<size_t>(sent) - of_queue);
      if (!loan_.empty()) needed_.store(loan_.needed(), std::memory_order_release);
    } else if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
      break;
    } else if (sent < 0 && errno != EINTR) {
      give_up();
    }
  }
  if (dead_) {
    out_.clear();
    sealed_.clear();
    loan_.sent(loan_.bytes());
  }
  if (loan_.empty()) needed_.store(lent_end_, std::memory_order_release);
  behind_.store(!(queue.empty() && loan_.empty()), std::memory_order_relaxed);
}

ssize_t Link::send_some(const ByteQueue& queue) noexcept {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (loan_.empty()) return ::send(fd(), queue.data(), queue.size(), kFlags);
  Pieces pieces;
  if (!queue.empty()) pieces.at[pieces.count++] = {const_cast<uint8_t*>(queue.data()), queue.size()};
  loan_.show(&pieces);
  msghdr message{};
  message.msg_iov = pieces.at.data();
  message.msg_iovlen = pieces.count;
  return ::sendmsg(fd(), &message, kFlags);
}

void Link::seal() noexcept {
  try {
    while (!out_.empty()) {
      const size_t bytes = std::min(out_.size(), kMostRecordBytes);
      uint8_t* const record = sealed_.room(bytes + kRecordExtraBytes);
      const auto head = static_cast<RecordHead>(bytes);
      std::memcpy(record, &head, sizeof head);
      if (!seals_->seal(out_.data(), bytes, record + sizeof head)) return give_up();
      sealed_.added(bytes + kRecordExtraBytes);
      out_.taken(bytes);
    }
  } catch (const std::bad_alloc&) {
    give_up();
  }
}

void Link::end() noexcept {
  const std::lock_guard lock(send_mutex_);
  give_up();
  flush_locked();
}

bool Link::is_stuffed() noexcept {
  const std::lock_guard lock(send_mutex_);
  return out_.size() + sealed_.size() + loan_.bytes() > kStuffedBytes;
}

bool Link::is_delivered() noexcept {
  const std::lock_guard lock(send_mutex_);
  pollfd state{fd(), 0, 0};
  (void)::poll(&state, 1, 0);
  if ((state.revents & (POLLERR | POLLHUP)) != 0) return true;  // there is nobody to take it
  int unsent = 0;
  return dead_ ||
         (out_.empty() && sealed_.empty() && loan_.empty() && (::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0));
}

bool Link::receive(FrameSink* sink, bool* took) noexcept {
  const auto never = [] { return false; };
  if (!give(sink, took, never)) return false;  // what a caller has left
  bool more = true;
  for (int i = 0; more && i < kReceivesAtOnce; ++i) {
    if (!fill(&more) || !give(sink, took, never)) return false;
  }
  return true;
}

bool Link::fill(bool* more) noexcept {
  drop_run();
  *more = false;
  ByteQueue& queue = opens_ != nullptr ? unread_ : in_;
  try {
    ssize_t got = 0;
    do {
      got = ::recv(fd(), queue.room(kReceiveBytes), kReceiveBytes, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    queue.added(static_cast<size_t>(got));
    *more = static_cast<size_t>(got) == kReceiveBytes;
    return opens_ == nullptr || open();
  } catch (const std::bad_alloc&) {
    return refuse("more than this rank has memory for");
  }
}

bool Link::open() {
  while (unread_.size() >= sizeof(RecordHead)) {
    RecordHead bytes = 0;
    std::memcpy(&bytes, unread_.data(), sizeof bytes);
    if (bytes == 0 || bytes > kMostRecordBytes) return refuse("an encrypted record of an impossible size");
    if (unread_.size() < bytes + kRecordExtraBytes) break;
    if (!opens_->open(unread_.data() + sizeof bytes, bytes, in_.room(bytes))) {
      return refuse("an encrypted record that is not the sender's next one");
    }
    in_.added(bytes);
    unread_.taken(bytes + kRecordExtraBytes);
  }
  return true;
}

bool Link::next_head(FrameHead* head) noexcept {
  drop_run();
  if (refused() != nullptr) return false;
  if (!has_head_) {
    if (in_.size() < sizeof head_) return false;
    std::memcpy(&head_, in_.data(), sizeof head_);
    if (head_.number != frames_received_) return refuse("a frame out of its turn");
    const bool has_stride = head_.stride != 0 && head_.kind != FrameKind::kPackets;
    if (head_.bytes > kMostPayloadBytes || has_stride) return refuse("a frame with an impossible head");
    in_.taken(sizeof head_);
    has_head_ = true;
  }
  *head = head_;
  return true;
}

bool Link::has_frame() noexcept {
  FrameHead head{};
  return next_head(&head) && in_.size() >= head.bytes;
}

bool Link::give_frame(FrameSink* sink, bool* took) noexcept {
  FrameHead head{};
  (void)next_head(&head);
  *took = *took || head.kind == FrameKind::kPackets || head.kind == FrameKind::kNumbered;
  if (const char* const why = sink->take(*this, head, in_.data())) return refuse(why);
  in_.taken(head.bytes);
  end_frame();
  return true;
}

bool Link::take_run(const WantedRun& wanted, FrameSink* sink, bool* took, const uint8_t** run) noexcept {
  *run = nullptr;
  FrameHead head{};
  while (next_head(&head)) {
    const bool goes_on = head.kind == FrameKind::kPackets && head.slot == wanted.slot && head.epoch == wanted.epoch &&
                         wanted.bytes == (head.stride == 0 ? head.bytes : std::min(head.bytes, wanted.whole_bytes));
    if (!goes_on) {
      if (!has_frame()) break;
      if (!give_frame(sink, took)) return false;
      continue;
    }
    if (!is_checked_) {
      if (const char* const why = sink->check(*this, head)) return refuse(why);
      is_checked_ = true;
    }
    if (in_.size() < wanted.bytes) break;
    *run = in_.data();
    run_in_use_ = wanted.bytes;
    runs_in_use_ = 1;
    const size_t arrived = std::min<size_t>(in_.size(), head.bytes);
    following_ = {wanted.slot + head.stride, wanted.epoch, head.stride,
                  head.stride == 0 ? 0 : static_cast<uint32_t>(arrived - wanted.bytes)};
    break;
  }
  return refused() == nullptr;
}

const uint8_t* Link::take_following(const WantedRun& wanted, uint64_t stride, uint64_t most, uint64_t* bytes) noexcept {
  const bool is_next = run_in_use_ != 0 && wanted.bytes == wanted.whole_bytes && wanted.slot == following_.slot &&
                       wanted.epoch == following_.epoch && stride == following_.stride;
  *bytes = is_next ? std::min<uint64_t>(most, following_.bytes) / wanted.bytes * wanted.bytes : 0;
  if (*bytes == 0) return nullptr;
  use_up_run();
  run_in_use_ = static_cast<uint32_t>(*bytes);
  runs_in_use_ = run_in_use_ / wanted.bytes;
  following_.slot += runs_in_use_ * stride;
  following_.bytes -= run_in_use_;
  return in_.data();
}

void Link::drop_run() noexcept {
  if (run_in_use_ == 0) return;
  use_up_run();
  run_in_use_ = 0;
  if (head_.bytes == 0) end_frame();
}

// All of its payload has been taken.
void Link::end_frame() noexcept {
  ++frames_received_;
  has_head_ = is_checked_ = false;
}

}  // namespace nvrar::link
