// The proxy of a rank on a GPU whose group spans nodes (protocol/crossing.h): a thread that sends the chunks whose
// bells the kernels ring, and stores what other ranks send into the inbox. It knows no plan and makes no call of CUDA,
// so replays of graphs need nothing of the host.
#ifndef NVRAR_CUDA_PROXY_PROXY_H
#define NVRAR_CUDA_PROXY_PROXY_H

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "link/group_talk.h"
#include "protocol/crossing.h"
#include "shared/group_segments.h"

namespace nvrar::cuda {

class Proxy final : public link::Inbox {
 public:
  // Listens at the address. Throws NVRAR_INVALID_ARGUMENT or NVRAR_SYSTEM.
  Proxy(uint32_t world, const std::string& numeric_address, uint16_t first_port, uint16_t last_port, bool encrypted)
      : talk_(world, numeric_address, first_port, last_port, encrypted) {}
  // Stops.
  ~Proxy() override;

  // Links the remote ranks and starts the thread. The arena holds zeros, and outlives this object. Throws what
  // GroupTalk::connect throws.
  void start(shared::GroupSegments* segments, const protocol::CrossingLayout& layout, uint8_t* arena,
             const Digest& secret, const std::vector<link::Remote>& remotes, uint64_t deadline_ns,
             uint32_t connections);
  // Sends the chunks whose bells have rung, says goodbye (Links::leave) and ends the thread. No kernel needs it any
  // more.
  void stop(uint64_t limit_ns, const std::function<bool()>& ended) noexcept;
  // A launch was made: the thread looks all the time for a while.
  void wake() noexcept;

  // What has come of a source in this launch; nothing if it has been in another one since.
  struct Heard {
    bool has_entered = false;
    bool node_is_here = false;
  };
  Heard heard_of(uint32_t rank, uint64_t epoch) const noexcept;

  link::GroupTalk& talk() noexcept { return talk_; }
  const link::GroupTalk& talk() const noexcept { return talk_; }

  link::Destination where(link::Link& from, const link::FrameHead& head) noexcept override;
  const char* take(link::Link& from, const link::FrameHead& head, const uint8_t* payload) noexcept override;
  void broke(uint32_t source) noexcept override { talk_.broke(source); }
  void settled() noexcept override {}

 private:
  static constexpr uint32_t kLines = 2 * protocol::kMostChunks;

  // Lines that are to be sent by a connection to a rank, in the order in which their bells were seen.
  struct Queue {
    uint32_t rank;
    uint32_t connection;
    uint32_t begin = 0;
    uint32_t end = 0;
    std::array<link::Message, kLines> due;
  };

  protocol::CrossingPage& page() const noexcept { return *reinterpret_cast<protocol::CrossingPage*>(arena_); }
  protocol::SourceLine& source(uint64_t epoch, uint32_t rank) const noexcept {
    return *reinterpret_cast<protocol::SourceLine*>(arena_ + protocol::CrossingLayout::source(epoch, rank));
  }
  void run() noexcept;
  bool find_due(uint32_t chunks) noexcept;
  bool send_due() noexcept;
  bool has_nothing_due() const noexcept;

  protocol::CrossingLayout layout_;
  uint8_t* arena_ = nullptr;
  std::array<uint64_t, kLines> sent_{};      // by line: the bell that was sent last
  std::vector<Queue> queues_;                // of each rank's first connections, then of the second ones, ...
  uint32_t chunks_ = protocol::kMostChunks;  // of the latest launches
  std::vector<uint64_t> late_since_ns_;      // by rank: since when a frame waits for the kernel's own epoch
  std::atomic<bool> awake_{false};
  std::atomic<bool> leaves_{false};
  std::atomic<bool> has_sent_all_{false};  // after it was to leave
  std::atomic<bool> ends_{false};
  std::thread thread_;
  link::GroupTalk talk_;  // the last member: it calls this object
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_PROXY_PROXY_H
