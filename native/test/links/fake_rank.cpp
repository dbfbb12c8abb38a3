#include "links/fake_rank.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "common/sha256.h"
#include "common/tick_clock.h"

namespace nvrar::test {

using link::FrameHead;
using link::FrameKind;

FakeRank::FakeRank(GroupOptions options, uint32_t world) {
  options.linked = true;
  options.ranks_per_node = 1;
  UniqueId id;
  EXPECT_EQ(nvrar_unique_id(NVRAR_BACKEND_CPU, reinterpret_cast<uint8_t*>(&id)), NVRAR_OK);
  const nvrar_config config = make_config(kReal, static_cast<int>(world), options);
  EXPECT_EQ(nvrar_prepare(&config, nullptr, 0, reinterpret_cast<const uint8_t*>(&id),
                          reinterpret_cast<uint8_t*>(&descriptor_), &comm_),
            NVRAR_OK)
      << nvrar_last_error();
  layout_ = {descriptor_.ring_bytes, {world, 1}};
  const FileDescriptor segment(
      ::open(("/proc/self/fd/" + std::to_string(descriptor_.segment.fd)).c_str(), O_RDONLY | O_CLOEXEC));
  mapped_ = ::mmap(nullptr, descriptor_.segment.bytes, PROT_READ, MAP_SHARED, segment.get(), 0);
  EXPECT_NE(mapped_, MAP_FAILED);

  const auto listener = link::Listener::open("127.0.0.1", 0, 0);
  std::vector<Descriptor> descriptors(world, descriptor_);
  for (uint32_t rank = kFake; rank < world; ++rank) {
    descriptors[rank].rank = rank;
    descriptors[rank].link = listener.address();
  }
  std::thread connecting([&] {
    EXPECT_EQ(nvrar_connect(comm_, reinterpret_cast<const uint8_t*>(descriptors.data())), NVRAR_OK)
        << nvrar_last_error();
  });
  for (uint32_t rank = kFake; rank < world; ++rank) {
    const link::Identity self{rank, descriptor_.group_hash, hmac_sha256(config.link_secret, {id.random})};
    const auto linked = [&](uint32_t, link::Connection connection) {
      Socket socket(std::move(connection.socket));
      if (rank == kFake) {
        socket_ = std::move(socket);
      } else {
        silent_.push_back(std::move(socket));
      }
    };
    link::meet(listener, self, {{kReal, descriptor_.link}}, monotonic_ns() + 10'000 * kMs, linked,
               [] { return false; });
  }
  connecting.join();
}

FakeRank::~FakeRank() {
  ::munmap(mapped_, descriptor_.segment.bytes);
  if (comm_ != nullptr) {
    EXPECT_EQ(nvrar_destroy(comm_), NVRAR_OK);
  }
}

void FakeRank::make_link_narrow() {
  const int little = 64 << 10;  // with less, each acknowledgement would be delayed
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ASSERT_EQ(::getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.sin_family == AF_INET &&
        peer.sin_port == own.sin_port) {
      EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
      return;
    }
  }
  FAIL() << "the real rank's socket was not found";
}

nvrar_status FakeRank::destroy() { return nvrar_destroy(std::exchange(comm_, nullptr)); }

std::vector<uint8_t> FakeRank::rings() const {
  const auto* const begin = static_cast<const uint8_t*>(mapped_) + shared::kControlBytes;
  return {begin, begin + layout_.total_bytes()};
}

Frame FakeRank::frame(FrameKind kind, uint64_t slot, uint64_t epoch, std::vector<uint8_t> payload) {
  return {{static_cast<uint32_t>(payload.size()), kind, 0, 0, static_cast<uint32_t>(slot), epoch}, std::move(payload)};
}

std::vector<uint8_t> FakeRank::bytes_of(Frame frame) {
  frame.head.number = number_++;
  const auto* const head = reinterpret_cast<const uint8_t*>(&frame.head);
  std::vector<uint8_t> bytes(head, head + sizeof frame.head);
  bytes.insert(bytes.end(), frame.payload.begin(), frame.payload.end());
  return bytes;
}

bool FakeRank::send_as_is(const Frame& frame) {
  return socket_.send(&frame.head, sizeof frame.head) && socket_.send(frame.payload);
}

bool FakeRank::receive(Frame* frame, double limit_seconds) {
  const std::vector<uint8_t> head = socket_.receive(sizeof frame->head, limit_seconds);
  if (head.size() != sizeof frame->head) return false;
  std::memcpy(&frame->head, head.data(), sizeof frame->head);
  frame->payload = socket_.receive(frame->head.bytes, limit_seconds);
  return frame->payload.size() == frame->head.bytes;
}

uint64_t FakeRank::join_calls(double idle_seconds) {
  uint64_t bytes = 0;
  for (Frame got; receive(&got, idle_seconds);) {
    if (got.head.kind != FrameKind::kPackets) continue;
    if (got.head.slot == protocol::RingLayout::header_slot(got.head.epoch, kReal)) {
      got.head.slot = static_cast<uint32_t>(protocol::RingLayout::header_slot(got.head.epoch, kFake));
      last_answer_ = got;
      if (!send(got)) break;
    } else {
      bytes += got.head.bytes;
    }
  }
  return bytes;
}

nvrar_status FakeRank::wait_for_failure(double limit_seconds) const {
  nvrar_failure failure{};
  failure.size = sizeof failure;
  for (const double until = seconds_now() + limit_seconds; seconds_now() < until; ::usleep(200)) {
    EXPECT_EQ(nvrar_failure_of(comm_, &failure), NVRAR_OK);
    if (failure.status != NVRAR_OK) break;
  }
  return failure.status;
}

void FakeRank::expect_lost(const std::vector<uint8_t>& rings_before) const {
  EXPECT_EQ(wait_for_failure(), NVRAR_PEER_LOST);
  nvrar_failure failure{};
  failure.size = sizeof failure;
  EXPECT_EQ(nvrar_failure_of(comm_, &failure), NVRAR_OK);
  EXPECT_EQ(failure.missing[0], 1u << kFake);
  EXPECT_EQ(nvrar_barrier(comm_, 0), NVRAR_PEER_LOST);
  const std::string lost = "rank 0 lost its connection to rank 1";
  const std::string refused = lost + "; rank 1 had sent ";
  const std::string sentence = nvrar_last_error();
  EXPECT_TRUE(sentence == lost || (sentence.starts_with(refused) && sentence.size() > refused.size())) << sentence;
  EXPECT_TRUE(rings() == rings_before) << "something was stored";
}

}  // namespace nvrar::test
