// One end of the connection to a rank on another host. Sending never blocks: what the socket does not take waits in a
// queue, and whoever looks at the links next goes on with it. The bytes that can wait there are bounded by the
// protocol, which lets no rank be more than one epoch ahead, to what two epochs' areas hold.
#ifndef NVRAR_LINK_LINK_H
#define NVRAR_LINK_LINK_H

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

#include "common/handle.h"
#include "link/byte_queue.h"
#include "link/cipher.h"
#include "link/frame.h"
#include "link/link_address.h"
#include "link/loan.h"

namespace nvrar::link {

// A run of packets as its receiver expects it; whole_bytes: of a whole run of this kind of packets.
struct WantedRun {
  uint64_t slot;
  uint64_t epoch;
  uint32_t bytes;
  uint32_t whole_bytes;
};

class Link {
 public:
  // The ciphers are null if the link is not encrypted.
  Link(uint32_t peer, FileDescriptor socket, std::unique_ptr<Cipher> seals, std::unique_ptr<Cipher> opens);

  uint32_t peer() const noexcept { return peer_; }
  int fd() const noexcept { return socket_.get(); }
  // The ends that it had when it was made.
  const LinkAddress& local() const noexcept { return local_; }
  const LinkAddress& remote() const noexcept { return remote_; }

  // The functions of sending may be called by any thread.

  // Queues a frame; flush() sends it. After the link has broken they do nothing.
  void put(FrameKind kind, uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes) noexcept;
  // Queues a run of packets of one epoch; whole_bytes: of a whole run of this kind of packets. Runs whose slots are
  // equally far apart share a frame. Only the last of them may be shorter than a whole one: the receiver takes a frame
  // apart at every whole_bytes.
  void put_run(uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes, uint32_t whole_bytes) noexcept;
  // Queues a message. Its memory is read until settle() is called or does_need() is false of all of it. By one thread
  // at a time, which also calls does_need().
  void lend(const Message& message) noexcept;
  // Copies what is left of a message, whose memory is read no more.
  void settle() noexcept;
  // Whether this memory of its message is still to be sent.
  bool does_need(const uint8_t* from, uint64_t bytes) const noexcept {
    return from < lent_end_ && from + bytes > needed_.load(std::memory_order_acquire);
  }
  // Queues one more packet of a stream of numbered ones; adjacent slots with consecutive epochs share a frame.
  void put_numbered(uint64_t slot, uint64_t payload, uint64_t epoch) noexcept;
  // Sends as much as the socket takes.
  void flush() noexcept;
  // Whether something is left to send.
  bool is_behind() const noexcept { return behind_.load(std::memory_order_relaxed); }
  // Whether so much is left to send that what is not needed is better left out.
  bool is_stuffed() noexcept;
  // Whether the peer's host has acknowledged everything that was sent, or the link has broken.
  bool is_delivered() noexcept;

  // Nothing is received any more; a peer whose frame was refused can still be told.
  void end_receiving() noexcept { ended_.store(true, std::memory_order_release); }
  // Nothing is sent any more, either.
  void end() noexcept;
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // What was wrong with what the peer sent, if the link has ended because of that; else null.
  const char* refused() const noexcept { return refused_.load(std::memory_order_acquire); }

  // The functions of receiving are called by one thread at a time. False: the link has ended, after which none of them
  // is called again.

  // Gives what has arrived to the sink; *took becomes true if there were packets.
  bool receive(FrameSink* sink, bool* took) noexcept;
  // Receives what has arrived, but gives nothing to the sink; *more: there may be more.
  bool fill(bool* more) noexcept;
  // Gives frames that were received to the sink until it has had them all, or stop() is true.
  template <class Stop>
  bool give(FrameSink* sink, bool* took, Stop stop) noexcept {
    while (has_frame() && !stop()) {
      if (!give_frame(sink, took)) return false;
    }
    return refused() == nullptr;
  }
  // If what was received goes on with this run of packets, takes it past the sink: *run is its payload, until any
  // function of receiving is called. Frames before it are given to the sink. Else *run is null.
  bool take_run(const WantedRun& wanted, FrameSink* sink, bool* took, const uint8_t** run) noexcept;
  // The same in nearly all cases in which the run that take_run() gave last is the one before it; else null, and
  // nothing has changed.
  const uint8_t* take_next_run(const WantedRun& wanted) noexcept {
    const bool is_next = run_in_use_ != 0 && wanted.slot == following_.slot && wanted.epoch == following_.epoch &&
                         wanted.bytes == run_in_use_ && wanted.bytes <= following_.bytes;
    if (!is_next) return nullptr;
    use_up_run();
    runs_in_use_ = 1;
    following_.slot += following_.stride;
    following_.bytes -= wanted.bytes;
    return in_.data();
  }
  // The whole runs that have been received behind the one that was taken last, if the first of them is this one and
  // they are `stride` slots apart: *bytes of payload, side by side, at most `most`. Else null, and nothing has changed.
  const uint8_t* take_following(const WantedRun& wanted, uint64_t stride, uint64_t most, uint64_t* bytes) noexcept;

 private:
  static constexpr size_t kNoFrame = ~size_t{0};

  bool refuse(const char* what) noexcept {
    refused_.store(what, std::memory_order_release);
    return false;
  }
  void append(const FrameHead& head, const void* payload) noexcept;
  void borrow(const Message& message) noexcept;
  void settle_locked() noexcept;
  ssize_t send_some(const ByteQueue& queue) noexcept;
  void open_frame(FrameKind kind, uint64_t slot, uint64_t epoch, const void* payload, uint32_t bytes) noexcept;
  bool grow(FrameHead* head, const void* payload, uint32_t bytes) noexcept;
  void give_up() noexcept;
  void flush_locked() noexcept;
  void seal() noexcept;
  // Decrypts what has arrived; false: it is not what the peer has sent. Throws std::bad_alloc.
  bool open();
  // Whether the next frame, or what is left of it, has arrived whole.
  bool has_frame() noexcept;
  // The head of the next frame, or of what is left of it. False: it has not arrived, or is impossible and refused.
  bool next_head(FrameHead* head) noexcept;
  bool give_frame(FrameSink* sink, bool* took) noexcept;
  void end_frame() noexcept;
  // What take_run() gave is used no more.
  void drop_run() noexcept;
  // The same, but another run of the frame is in use now.
  void use_up_run() noexcept {
#if defined(NVRAR_TEST_ADVERSE)  // so that a run that is used too long is found
    std::memset(in_.at(0), 0xDD, run_in_use_);
#endif
    in_.taken(run_in_use_);
    head_.bytes -= run_in_use_;
    head_.slot += runs_in_use_ * following_.stride;
  }

  const uint32_t peer_;
  const FileDescriptor socket_;
  const LinkAddress local_;
  const LinkAddress remote_;

  std::mutex send_mutex_;
  const std::unique_ptr<Cipher> seals_;
  ByteQueue out_;                 // frames
  Loan loan_;                     // frames behind those of out_, empty if the link is encrypted
  ByteQueue sealed_;              // encrypted records of frames
  size_t open_frame_ = kNoFrame;  // where the frame that may grow begins in out_
  uint64_t next_slot_ = 0;
  uint64_t next_epoch_ = 0;  // of a numbered frame
  uint32_t run_bytes_ = 0;   // of a frame of whole runs; 0 once it had a shorter one
  uint32_t frames_sent_ = 0;
  bool dead_ = false;
  const uint8_t* lent_end_ = nullptr;
  std::atomic<const uint8_t*> needed_{nullptr};  // of the loan, the first byte that is not sent
  std::atomic<bool> behind_{false};
  std::atomic<bool> ended_{false};
  std::atomic<const char*> refused_{nullptr};

  const std::unique_ptr<Cipher> opens_;
  ByteQueue in_;      // frames
  ByteQueue unread_;  // encrypted records
  uint32_t frames_received_ = 0;
  // Of the next frame, or of what is left of it while its runs are taken one by one, if it has arrived. in_ begins
  // behind it.
  FrameHead head_{};
  bool has_head_ = false;
  uint32_t run_in_use_ = 0;
  uint32_t runs_in_use_ = 0;
  // The whole runs of the frame behind that one which have arrived.
  struct {
    uint64_t slot;
    uint64_t epoch;
    uint32_t stride;
    uint32_t bytes;
  } following_{};
  bool is_checked_ = false;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINK_H
