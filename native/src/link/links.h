// The links of a member, and the thread that looks after them while the member is in no call. During a call the calling
// thread looks itself, because waking another thread takes longer than a packet travels.
#ifndef NVRAR_LINK_LINKS_H
#define NVRAR_LINK_LINKS_H

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "link/link.h"
#include "link/meeting.h"

namespace nvrar::link {

class Links {
 public:
  // Listens. Throws NVRAR_INVALID_ARGUMENT or NVRAR_SYSTEM.
  Links(const std::string& numeric_address, uint16_t first_port, uint16_t last_port);
  // Leaves, if leave() has not, within half a second.
  ~Links();
  // Says goodbye and waits until the peers' hosts have everything that was sent, at most so long, and not once `ended`
  // is true. Before the destructor, after the last call.
  void leave(uint64_t limit_ns, const std::function<bool()>& ended) noexcept;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  const LinkAddress& address() const noexcept { return listener_.address(); }
  // Links this member to the remote ranks, then stops to listen. The sink must outlive this object. Throws what meet()
  // throws.
  void connect(const Identity& self, const std::vector<Remote>& remotes, uint32_t world, bool encrypted,
               uint64_t deadline_ns, const std::function<bool()>& ended, FrameSink* sink);

  // Null for a rank on this host.
  Link* to(uint32_t rank) const noexcept { return by_rank_[rank]; }
  bool has_ended(uint32_t rank) const noexcept { return by_rank_[rank]->has_ended(); }
  // Queues a frame on every link and sends it. number: of a question, 0: one to whose answer nobody pays attention.
  void tell_all(FrameKind kind, const void* payload, uint32_t bytes, uint64_t number = 0) noexcept;
  void flush() noexcept;

  // From a call's begin to its end the calling thread takes what arrives, whenever it waits.
  void begin_call() noexcept { caller_takes_.store(true, std::memory_order_relaxed); }
  void end_call() noexcept {
    let_go();
    caller_takes_.store(false, std::memory_order_relaxed);
  }
  // Before the calling thread sleeps, and after it: meanwhile the thread of the links takes what arrives.
  void hand_over() noexcept;
  void take_back() noexcept { begin_call(); }

  // The next ones are for the calling thread in a call. None of them blocks.

  // Takes what has arrived, and goes on with what is left to send.
  void look_in_call() noexcept;
  // The same, and waits for another thread that is looking.
  void catch_up() noexcept;
  // Receives what has arrived from this rank, which the next two then find, and goes on with what is left to send.
  void fill(uint32_t rank) noexcept;
  // Takes what was received from this rank until stop() is true. Returns whether it is.
  template <class Stop>
  bool take_until(uint32_t rank, Stop stop) noexcept {
    Link* const link = by_rank_[rank];
    bool took = false;
    if (!link->has_ended() && hold() && !link->give(sink_, &took, stop)) broke(link);
    return stop();
  }
  // The payload of this run if it is what this rank sent next, and null otherwise. It can be used until any of these
  // functions is called for this rank, or one for all.
  const uint8_t* take_run(uint32_t rank, const WantedRun& wanted) noexcept;
  // The same if it follows the run that take_run() gave last of this rank, in nearly all cases; else null.
  const uint8_t* take_next_run(uint32_t rank, const WantedRun& wanted) noexcept {
    return by_rank_[rank]->take_next_run(wanted);
  }
  // Lets other threads look.
  void let_go() noexcept;

  // Takes what has arrived. Never blocks. Returns whether frames were taken: a thread that is not the member's must
  // then wake the member, as settled() does.
  bool look() noexcept;

 private:
  // Whether the calling thread alone receives. It keeps that from the first time that it needs it until let_go().
  bool hold() noexcept {
    if (!held_) held_ = caller_takes_.load(std::memory_order_relaxed) && receive_mutex_.try_lock();
    return held_;
  }
  void look_locked(bool* took) noexcept;
  void broke(Link* link) noexcept;
  void run() noexcept;

  Listener listener_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> by_rank_;
  FrameSink* sink_ = nullptr;
  FileDescriptor epoll_;
  FileDescriptor wake_;  // an eventfd, which ends the thread's waits
  std::thread thread_;
  std::mutex receive_mutex_;
  bool held_ = false;  // by the calling thread
  std::atomic<bool> caller_takes_{false};
  std::atomic<bool> ends_{false};
  bool left_ = false;  // whether goodbye was said
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINKS_H
