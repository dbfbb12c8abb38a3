// One end of the connection to a rank on another host. Sending never blocks: what the socket does not take waits in a
// queue, and whoever looks at the links next goes on with it. The bytes that can wait there are bounded by the
// protocol, which lets no rank be more than one epoch ahead, to what two epochs' areas hold.
#ifndef NVRAR_LINK_LINK_H
#define NVRAR_LINK_LINK_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "common/handle.h"
#include "link/frame.h"

namespace nvrar::link {

class Link {
 public:
  Link(uint32_t peer, FileDescriptor socket);

  uint32_t peer() const noexcept { return peer_; }
  int fd() const noexcept { return socket_.get(); }

  // The functions of sending may be called by any thread.

  // Queues a frame; flush() sends it. After the link has broken they do nothing.
  void put(FrameKind kind, uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes) noexcept;
  // Queues one more packet of a stream of numbered ones; adjacent slots with consecutive epochs share a frame.
  void put_numbered(uint64_t slot, uint64_t payload, uint64_t epoch) noexcept;
  // Sends as much as the socket takes.
  void flush() noexcept;
  // Whether something is left to send.
  bool is_behind() const noexcept { return behind_.load(std::memory_order_relaxed); }
  // Whether the peer's host has acknowledged everything that was sent, or the link has broken.
  bool is_delivered() noexcept;

  // Nothing is sent or received any more.
  void end() noexcept;
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }

  // Gives what has arrived to the sink; one thread at a time. False: the link has ended, after which it is not called
  // again.
  bool receive(FrameSink* sink, bool* took) noexcept;

 private:
  static constexpr size_t kNoFrame = ~size_t{0};

  void append(const FrameHead& head, const void* payload) noexcept;
  void flush_locked() noexcept;
  bool parse(FrameSink* sink, bool* took) noexcept;

  const uint32_t peer_;
  const FileDescriptor socket_;

  std::mutex send_mutex_;
  std::vector<uint8_t> out_;
  size_t sent_ = 0;               // bytes of out_
  size_t open_frame_ = kNoFrame;  // where the numbered frame that may grow is in out_
  uint64_t next_slot_ = 0;
  uint64_t next_epoch_ = 0;
  uint32_t frames_sent_ = 0;
  bool dead_ = false;
  std::atomic<bool> behind_{false};
  std::atomic<bool> ended_{false};

  std::vector<uint8_t> in_;
  size_t filled_ = 0;
  uint32_t frames_received_ = 0;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINK_H
