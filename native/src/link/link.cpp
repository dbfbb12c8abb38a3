#include "link/link.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "common/tick_clock.h"

namespace nvrar::link {
namespace {

// Little enough that it is still in a core's own cache when it is summed, and that this begins before all of a message
// is there.
constexpr size_t kReceiveBytes = size_t{32} << 10;
// Of payloads that go to memory of the inbox, so much is read with their heads and copied, which takes less time than
// another system call. The rest is read to where it goes.
constexpr size_t kReceiveWithHeadBytes = sizeof(FrameHead) + (size_t{4} << 10);
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

Link::Link(uint32_t peer, uint32_t connection, FileDescriptor socket, std::unique_ptr<Cipher> seals,
           std::unique_ptr<Cipher> opens, Inbox* inbox)
    : peer_(peer),
      connection_(connection),
      socket_(std::move(socket)),
      local_(local_end(socket_.get())),
      remote_(remote_end(socket_.get())),
      seals_(std::move(seals)),
      out_(2 * kFullBytes),
      sealed_(seals_ == nullptr ? 1 : 2 * kFullBytes),
      inbox_(inbox),
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
  if (message.kind == FrameKind::kChunk && (seals_ != nullptr || message.bytes == 0)) {
    append({static_cast<uint32_t>(message.bytes), message.kind, 0, frames_sent_, static_cast<uint32_t>(message.slot),
            message.epoch, message.offset, message.hash},
           message.payload);
    return;
  }
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

bool Link::receive(bool* took) noexcept {
  const auto never = [] { return false; };
  if (!give(took, never)) return false;  // what a caller has left
  bool more = true;
  for (int i = 0; more && i < kReceivesAtOnce; ++i) {
    if (!fill(&more) || !give(took, never)) return false;
  }
  return true;
}

bool Link::drain() noexcept {
  // More than the buffers of both ends hold.
  constexpr int kMostFills = 4096;
  bool took = false;
  bool more = true;
  for (int i = 0; more && i < kMostFills; ++i) {
    if (!fill(&more) || !give(&took, [] { return false; })) return false;
  }
  return true;
}

bool Link::fill(bool* more) noexcept {
  *more = false;
  if (place_ == Destination::Kind::kLater && !find_frame()) return refused() == nullptr;
  ByteQueue& queue = opens_ != nullptr ? unread_ : in_;
#if defined(NVRAR_TEST_ADVERSE)  // so that a run that is used too long is found
  in_.spoil_taken();
#endif
  try {
    ssize_t got = 0;
    do {
      got = receive_some(&queue, more);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    return opens_ == nullptr || open();
  } catch (const std::bad_alloc&) {
    return refuse("more than this rank has memory for");
  }
}

ssize_t Link::receive_some(ByteQueue* queue, bool* more) {
  const size_t room_bytes = is_direct_ && opens_ == nullptr ? kReceiveWithHeadBytes : kReceiveBytes;
  uint8_t* const room = queue->room(room_bytes);
  const bool is_direct = place_ == Destination::Kind::kMemory && opens_ == nullptr && queue->empty();
  const uint32_t missing = is_direct ? head_.bytes - in_memory_ : 0;
  if (missing == 0) {
    const ssize_t got = ::recv(fd(), room, room_bytes, MSG_DONTWAIT);
    if (got > 0) queue->added(static_cast<size_t>(got));
    *more = got > 0 && static_cast<size_t>(got) == room_bytes;
    return got;
  }
  std::array<iovec, 2> pieces{{{memory_ + in_memory_, missing}, {room, room_bytes}}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
  if (got > 0) {
    const auto direct = static_cast<uint32_t>(std::min<size_t>(static_cast<size_t>(got), missing));
    in_memory_ += direct;
    queue->added(static_cast<size_t>(got) - direct);
  }
  *more = got > 0 && static_cast<size_t>(got) == missing + room_bytes;
  return got;
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

bool Link::find_frame() noexcept {
  using Kind = Destination::Kind;
  if (refused() != nullptr) return false;
  if (place_ == kNowhere) {
    if (in_.size() < sizeof head_) return false;
    std::memcpy(&head_, in_.data(), sizeof head_);
    if (head_.number != frames_received_) return refuse("a frame out of its turn");
    const bool has_stride = head_.stride != 0 && head_.kind != FrameKind::kPackets;
    if (head_.bytes > most_payload_bytes(head_.kind) || has_stride) return refuse("a frame with an impossible head");
    in_.taken(sizeof head_);
    place_ = Kind::kLater;
  }
  if (place_ == Kind::kLater) {
    const Destination to = inbox_->where(*this, head_);
    if (to.kind == Kind::kRefused) return refuse(to.why);
    place_ = to.kind;
    if (place_ == Kind::kLater && later_since_ns_ == 0) later_since_ns_ = monotonic_ns();
    if (place_ != Kind::kLater) later_since_ns_ = 0;
    memory_ = to.memory;
    in_memory_ = 0;
    is_direct_ = place_ == Kind::kMemory && head_.bytes > kReceiveWithHeadBytes;
  }
  return place_ != Kind::kLater;
}

bool Link::has_frame() noexcept {
  if (!find_frame()) return false;
  if (place_ == Destination::Kind::kLink) return in_.size() >= head_.bytes;
  const auto queued = static_cast<uint32_t>(std::min<size_t>(in_.size(), head_.bytes - in_memory_));
  if (queued != 0) {
    std::memcpy(memory_ + in_memory_, in_.data(), queued);
    in_.taken(queued);
    in_memory_ += queued;
  }
  return in_memory_ == head_.bytes;
}

bool Link::give_frame(bool* took) noexcept {
  *took = *took || is_data(head_.kind);
  const bool is_here = place_ == Destination::Kind::kLink;
  if (const char* const why = inbox_->take(*this, head_, is_here ? in_.data() : memory_)) {
    place_ = kNowhere;
    return refuse(why);
  }
  if (is_here) in_.taken(head_.bytes);
  has_goodbye_ = has_goodbye_ || head_.kind == FrameKind::kGoodbye;
  end_frame();
  return true;
}

}  // namespace nvrar::link
