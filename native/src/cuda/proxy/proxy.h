// The proxy of a rank on a GPU whose group spans nodes (protocol/crossing.h): threads that send the chunks whose bells
// the kernels ring, and store what other ranks send into the inbox. They know no plan and make no call of CUDA, so
// replays of graphs need nothing of the host. Each thread has some of the connections to every rank, and the chunks
// that go by them.
#ifndef NVRAR_CUDA_PROXY_PROXY_H
#define NVRAR_CUDA_PROXY_PROXY_H

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
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

  // How many connections there are to each rank, how many threads look at them, and for how long those look all the
  // time after something has happened.
  struct Budget {
    static constexpr uint32_t kMost = 4;  // connections from a node to a rank
    uint32_t connections = 1;
    uint32_t threads = 1;  // divides `connections`
    uint64_t spin_ns = 1;

    // For nodes of at most so many ranks, of which each wants this many threads: several connections let chunks
    // overtake each other, and a node's ranks have few threads each.
    static Budget of(uint32_t largest_node, uint32_t wanted_threads, uint64_t spin_ns) noexcept;
  };

  // Links the remote ranks and starts the threads. The arena holds zeros, and outlives this object. Throws what
  // GroupTalk::connect throws.
  void start(shared::GroupSegments* segments, const protocol::CrossingLayout& layout, uint8_t* arena,
             const Digest& secret, const std::vector<link::Remote>& remotes, uint64_t deadline_ns,
             const Budget& budget);
  // Sends the chunks whose bells have rung, says goodbye (Links::leave) and ends the threads. No kernel needs them any
  // more.
  void stop(uint64_t limit_ns, const std::function<bool()>& ended) noexcept;
  // The epoch that the kernels will have reached at least once one more launch has entered. Asked before it is
  // enqueued: its kernel may enter at once.
  uint64_t due_with_next() const noexcept {
    return std::max(due_.load(std::memory_order_relaxed), __atomic_load_n(&page().epoch, __ATOMIC_ACQUIRE)) + 1;
  }
  // A launch was enqueued, or captured. The threads look all the time until the kernels have reached this epoch, and
  // for a while after that. due: 0 of a captured one, because its graph may be launched at any time, or never.
  void launched(uint64_t due) noexcept;
  const Budget& budget() const noexcept { return budget_; }
  // How often the first thread has looked for bells.
  uint64_t looks() const noexcept { return workers_[0]->looks.load(std::memory_order_relaxed); }
  // A batch of transfers was enqueued: the first thread carries what they write, for a while all the time.
  void transfers_launched() noexcept;
  // Whether a thread has made no progress since this was asked last although a bell has rung for it.
  bool stands_still() noexcept;

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

  // A thread, and what only it changes.
  struct Worker {
    uint32_t index = 0;                                // of all; also of the first of its connections
    std::vector<Queue> queues;                         // of each rank's first connection, then of the next ones, ...
    uint32_t chunks = protocol::kMostChunks;           // of the latest launches
    std::array<std::atomic<uint64_t>, kLines> sent{};  // by line: the bell that was sent last
    std::atomic<bool> has_due{false};                  // whether there is something in the queues
    std::atomic<uint64_t> looks{0};
    uint64_t looks_before = 0;  // the watcher's
    std::thread thread;
  };

  // The transfers between this rank and another one, as the first thread knows them. All numbers are of packets.
  struct Stream {
    uint32_t rank = 0;
    std::atomic<uint64_t> sent{0};
    uint64_t credited = 0;  // that the peer has told
    uint64_t arrived = 0;
    std::atomic<uint64_t> told{0};  // to the peer, as credit
  };

  protocol::CrossingPage& page() const noexcept { return *reinterpret_cast<protocol::CrossingPage*>(arena_); }
  protocol::SourceLine& source(uint64_t epoch, uint32_t rank) const noexcept {
    return *reinterpret_cast<protocol::SourceLine*>(arena_ + protocol::CrossingLayout::source(epoch, rank));
  }
  protocol::TransferLine& transfers(uint32_t rank) const noexcept {
    return *reinterpret_cast<protocol::TransferLine*>(arena_ + layout_.transfer_line(rank));
  }
  void run(Worker* worker) noexcept;
  bool carry_transfers() noexcept;
  bool carries_all() const noexcept;
  link::Destination place_of_transfer(const link::Link& from, const link::FrameHead& head) noexcept;
  bool find_due(Worker* worker, uint32_t chunks) noexcept;
  bool send_due(Worker* worker) noexcept;
  bool is_first(const link::Link& link) const noexcept { return talk_.links().to(link.peer()) == &link; }
  bool look(const Worker& worker, uint32_t chunks) noexcept;
  bool pause(const Worker& worker, uint64_t launches, uint32_t pauses) noexcept;
  bool has_rung(const Worker& worker) const noexcept;
  bool has_something_to_send(const Worker& worker) const noexcept;
  bool is_awaited() const noexcept;

  protocol::CrossingLayout layout_;
  uint8_t* arena_ = nullptr;
  Budget budget_;
  const shared::ControlBlock* own_ = nullptr;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Stream> streams_;  // of each rank of another node
  std::atomic<bool> has_transfers_{false};
  std::atomic<uint64_t> launches_{0};  // that were announced
  std::atomic<uint64_t> due_{0};       // the epoch that the kernels will reach at least
  std::atomic<uint32_t> pausing_{0};   // threads that may wait for a socket
  std::atomic<bool> leaves_{false};
  std::atomic<uint32_t> have_sent_all_{0};  // threads, after they were to leave
  std::atomic<bool> ends_{false};
  link::GroupTalk talk_;  // the last member: it calls this object
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_PROXY_PROXY_H
