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
#include "link/inbox.h"
#include "link/link_address.h"
#include "link/loan.h"

namespace nvrar::link {

class Link {
 public:
  // connection: which of those to this peer. The ciphers are null if the link is not encrypted. `inbox` must outlive
  // the link.
  Link(uint32_t peer, uint32_t connection, FileDescriptor socket, std::unique_ptr<Cipher> seals,
       std::unique_ptr<Cipher> opens, Inbox* inbox);

  uint32_t peer() const noexcept { return peer_; }
  uint32_t connection() const noexcept { return connection_; }
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
  // Whether the peer has said that it leaves.
  bool has_goodbye() const noexcept { return has_goodbye_; }
  // Whether something is left to send.
  bool is_behind() const noexcept { return behind_.load(std::memory_order_relaxed); }
  // Whether so much is left to send that what is not needed is better left out.
  bool is_stuffed() noexcept;
  // Whether the peer's host has acknowledged everything that was sent, or the link has broken.
  bool is_delivered() noexcept;

  // Nothing is received any more; a peer whose frame was refused can still be told.
  void end_receiving() noexcept {
    place_ = kNowhere;
    ended_.store(true, std::memory_order_release);
  }
  // Nothing is sent any more, either.
  void end() noexcept;
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // What was wrong with what the peer sent, if the link has ended because of that; else null.
  const char* refused() const noexcept { return refused_.load(std::memory_order_acquire); }

  // The functions of receiving are called by one thread at a time. False: the link has ended, after which none of them
  // is called again.

  // Gives what has arrived to the inbox; *took becomes true if there were packets.
  bool receive(bool* took) noexcept;
  // The same, until nothing more has arrived, as it does of a peer that has ended.
  bool drain() noexcept;
  // Receives what has arrived, but gives nothing to the inbox; *more: there may be more.
  bool fill(bool* more) noexcept;
  // Gives frames that were received to the inbox until it has had them all, or stop() is true.
  template <class Stop>
  bool give(bool* took, Stop stop) noexcept {
    while (has_frame() && !stop()) {
      if (!give_frame(took)) return false;
    }
    return refused() == nullptr;
  }

  // Of the next frame, or what is left of it, for runs.h.

  // Whether its head has arrived, and the inbox has said where its payload goes.
  bool find_frame() noexcept;
  // Whether all of it has arrived, too.
  bool has_frame() noexcept;
  // Gives it to the inbox; has_frame() is true.
  bool give_frame(bool* took) noexcept;
  // Since when the inbox has said that the next frame is for later; 0: it has not.
  uint64_t later_since_ns() const noexcept { return later_since_ns_; }
  // Its head, if find_frame() has found it and its payload stays in the link; else null.
  const FrameHead* rest() const noexcept { return place_ == Destination::Kind::kLink ? &head_ : nullptr; }
  // How many bytes have arrived behind its head, also of what follows it.
  size_t arrived() const noexcept { return in_.size(); }
  // Takes these bytes, which have arrived, from its begin: so many of its runs. They stay until the link is filled.
  const uint8_t* take_part(uint32_t bytes, uint32_t runs) noexcept {
    const uint8_t* const part = in_.data();
    in_.taken(bytes);
    head_.bytes -= bytes;
    head_.slot += runs * head_.stride;
    if (head_.bytes == 0) end_frame();
    return part;
  }

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
  // Receives some bytes behind those of `queue`, or those that the destination of a payload still lacks first.
  // *more: all the room was filled. Throws std::bad_alloc.
  ssize_t receive_some(ByteQueue* queue, bool* more);
  void end_frame() noexcept {
    ++frames_received_;
    place_ = kNowhere;
  }

  const uint32_t peer_;
  const uint32_t connection_;
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

  // Before a frame has a place.
  static constexpr auto kNowhere = Destination::Kind::kRefused;

  Inbox* const inbox_;
  const std::unique_ptr<Cipher> opens_;
  ByteQueue in_;      // frames
  ByteQueue unread_;  // encrypted records
  uint32_t frames_received_ = 0;
  // The head of the next frame, or of what is left of it; in_ begins behind it.
  FrameHead head_{};
  Destination::Kind place_ = kNowhere;  // kLater: it has arrived
  uint64_t later_since_ns_ = 0;
  uint8_t* memory_ = nullptr;  // where its payload goes if that is kMemory
  uint32_t in_memory_ = 0;     // bytes of it that are there
  bool is_direct_ = false;     // whether the last payload was a large one for such a place
  bool has_goodbye_ = false;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINK_H
