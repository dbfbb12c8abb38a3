// A message on its way from its owner's memory, as frames of its runs. Their heads are made when they are sent.
#ifndef NVRAR_LINK_LOAN_H
#define NVRAR_LINK_LOAN_H

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "link/frame.h"

namespace nvrar::link {

// Runs of one epoch that lie side by side in their owner's memory, and `stride` slots apart at the receiver. All but
// the last one have run_bytes, of which kMostPayloadBytes is a multiple. Or a chunk, which is one frame.
struct Message {
  const uint8_t* payload;
  uint64_t bytes;
  uint32_t run_bytes;
  uint64_t slot;
  uint16_t stride;
  uint64_t epoch;
  FrameKind kind = FrameKind::kPackets;
  uint32_t offset = 0;
  uint32_t hash = 0;
};

// Where the heads and payloads of a message's frames are, in turn.
struct Pieces {
  static constexpr size_t kFrames = 16;
  std::array<FrameHead, kFrames> heads;
  std::array<iovec, 2 * kFrames + 1> at;  // and one more in front
  size_t count = 0;
};

class Loan {
 public:
  // number: of the first frame on its link.
  void begin(const Message& message, uint32_t number) noexcept {
    message_ = message;
    payload_bytes_ = most_payload_bytes(message.kind);
    number_ = number;
    sent_ = 0;
    end_ = message.bytes + frames() * sizeof(FrameHead);
  }
  uint32_t frames() const noexcept {
    return static_cast<uint32_t>((message_.bytes + payload_bytes_ - 1) / payload_bytes_);
  }

  // What is left, heads included.
  size_t bytes() const noexcept { return end_ - sent_; }
  bool empty() const noexcept { return end_ == sent_; }
  // The first byte of the owner's memory that is still needed.
  const uint8_t* needed() const noexcept {
    const uint64_t in_frame = sent_ % frame_bytes();
    const uint64_t payload = in_frame < sizeof(FrameHead) ? 0 : in_frame - sizeof(FrameHead);
    return message_.payload + std::min(sent_ / frame_bytes() * payload_bytes_ + payload, message_.bytes);
  }

  // Adds what is next to `pieces`, up to so many frames. They stand until any other function is called.
  void show(Pieces* pieces) const noexcept {
    size_t heads = 0;
    for (uint64_t at = sent_; at < end_ && heads < Pieces::kFrames; ++heads) {
      const uint64_t frame = at / frame_bytes();
      const uint64_t first = frame * payload_bytes_;
      FrameHead& head = pieces->heads[heads];
      head = head_of(frame);
      uint64_t in_frame = at % frame_bytes();
      if (in_frame < sizeof head) {
        add(pieces, reinterpret_cast<uint8_t*>(&head) + in_frame, sizeof head - in_frame);
        in_frame = sizeof head;
      }
      const uint64_t in_payload = in_frame - sizeof head;
      add(pieces, message_.payload + first + in_payload, head.bytes - in_payload);
      at = frame * frame_bytes() + sizeof head + head.bytes;
    }
  }
  void sent(size_t bytes) noexcept { sent_ += bytes; }

 private:
  uint64_t frame_bytes() const noexcept { return sizeof(FrameHead) + payload_bytes_; }

  FrameHead head_of(uint64_t frame) const noexcept {
    const uint64_t first = frame * payload_bytes_;
    return {static_cast<uint32_t>(std::min<uint64_t>(message_.bytes - first, payload_bytes_)),
            message_.kind,
            message_.stride,
            static_cast<uint32_t>(number_ + frame),
            static_cast<uint32_t>(message_.slot + first / message_.run_bytes * message_.stride),
            message_.epoch,
            message_.offset,
            message_.hash};
  }
  static void add(Pieces* pieces, const uint8_t* from, uint64_t bytes) noexcept {
    pieces->at[pieces->count++] = {const_cast<uint8_t*>(from), bytes};  // sending does not write
  }

  Message message_{};
  uint64_t payload_bytes_ = kMostPayloadBytes;  // of a frame, at most
  uint32_t number_ = 0;
  uint64_t sent_ = 0;  // of all frames' bytes
  uint64_t end_ = 0;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LOAN_H
