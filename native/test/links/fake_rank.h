// A group of ranks in nodes of their own, of which the test plays one: it knows the group's secret, so the real rank
// links it, and then it sends what it likes. There may be more ranks, which are linked and do nothing.
#ifndef NVRAR_TEST_LINKS_FAKE_RANK_H
#define NVRAR_TEST_LINKS_FAKE_RANK_H

#include <nvrar.h>

#include <thread>
#include <vector>

#include "link/frame.h"
#include "link/meeting.h"
#include "links/socket.h"
#include "member/descriptor.h"
#include "support/group.h"

namespace nvrar::test {

struct Frame {
  link::FrameHead head;
  std::vector<uint8_t> payload;
};

class FakeRank {
 public:
  static constexpr uint32_t kReal = 0;
  static constexpr uint32_t kFake = 1;

  explicit FakeRank(GroupOptions options = {}, uint32_t world = 2);
  ~FakeRank();
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;

  nvrar_comm* comm() const { return comm_; }
  Socket& socket() { return socket_; }
  const protocol::RingLayout& layout() const { return layout_; }
  // Lets the real rank's socket take little before the fake rank reads it.
  void make_link_narrow();
  // Destroys the real rank.
  nvrar_status destroy();
  // The real rank's rings, as they are now.
  std::vector<uint8_t> rings() const;

  static Frame frame(link::FrameKind kind, uint64_t slot = 0, uint64_t epoch = 0, std::vector<uint8_t> payload = {});
  // As it travels, with the next number.
  std::vector<uint8_t> bytes_of(Frame frame);
  bool send(const Frame& frame) { return socket_.send(bytes_of(frame)); }
  // With the head as it is.
  bool send_as_is(const Frame& frame);
  uint32_t& next_number() { return number_; }

  // The real rank's next frame; false if its link ends, or nothing comes.
  bool receive(Frame* frame, double limit_seconds = 10);
  // Answers every header with the same, as a rank in the same call does, until the link ends or nothing comes for
  // `idle_seconds`. Counts the bytes of packets that are no headers.
  uint64_t join_calls(double idle_seconds);
  // The last header that was answered, as an answer.
  const Frame& last_answer() const { return last_answer_; }

  // Waits until the real rank's group has failed.
  nvrar_status wait_for_failure(double limit_seconds = 5) const;
  // The real rank's link has broken, and says so; its rings are those before.
  void expect_lost(const std::vector<uint8_t>& rings_before) const;

 private:
  nvrar_comm* comm_ = nullptr;
  Descriptor descriptor_{};
  protocol::RingLayout layout_{};
  void* mapped_ = nullptr;
  Socket socket_;
  std::vector<Socket> silent_;
  uint32_t number_ = 0;
  Frame last_answer_{};
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_LINKS_FAKE_RANK_H
