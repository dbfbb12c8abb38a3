// Bytes on their way through a link: added at the end, taken from the front. Unlike a vector it does not clear the room
// that it makes, which would take longer than a packet travels.
#ifndef NVRAR_LINK_BYTE_QUEUE_H
#define NVRAR_LINK_BYTE_QUEUE_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace nvrar::link {

class ByteQueue {
 public:
  explicit ByteQueue(size_t capacity) : bytes_(new uint8_t[capacity]), capacity_(capacity) {}

  size_t size() const noexcept { return end_ - begin_; }
  bool empty() const noexcept { return begin_ == end_; }
  const uint8_t* data() const noexcept { return bytes_.get() + begin_; }
  uint8_t* at(size_t offset) noexcept { return bytes_.get() + begin_ + offset; }

  // Room for so many bytes behind the end, which added() makes part of the queue. Throws std::bad_alloc. Invalidates
  // what data() and at() returned.
  uint8_t* room(size_t bytes) {
    if (begin_ != 0 && size() <= kFewBytes) to_front();
    if (capacity_ - end_ < bytes) {
      const size_t kept = size();
      // It moves what is there only into room that is as large: else every few bytes would move the whole queue.
      if (kept + bytes > capacity_ || begin_ < kept) {
        const size_t larger = 2 * (kept + bytes);
        std::unique_ptr<uint8_t[]> moved(new uint8_t[larger]);
        std::memcpy(moved.get(), data(), kept);
        bytes_ = std::move(moved);
        capacity_ = larger;
        begin_ = 0;
        end_ = kept;
      } else {
        to_front();
      }
    }
    return bytes_.get() + end_;
  }
  void added(size_t bytes) noexcept { end_ += bytes; }
  void taken(size_t bytes) noexcept {
    begin_ += bytes;
    if (begin_ == end_) clear();
  }
  void clear() noexcept { begin_ = end_ = 0; }

#if defined(NVRAR_TEST_ADVERSE)
  void spoil_taken() noexcept {
    std::memset(bytes_.get(), 0xDD, begin_);
    std::memset(bytes_.get() + end_, 0xDD, capacity_ - end_);
  }
#endif

 private:
  // So few are always moved to the front, where the memory that was written and read last is used again.
  static constexpr size_t kFewBytes = 512;

  void to_front() noexcept {
    const size_t kept = size();
    std::memmove(bytes_.get(), data(), kept);
    begin_ = 0;
    end_ = kept;
  }

  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_BYTE_QUEUE_H
