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

#include "link/link_set.h"
#include "link/meeting.h"
#include "link/runs.h"

namespace nvrar::link {

// Who looks after the links of a member that is in no call.
enum class LinksOwner { kThread, kCaller };

// Of those to a rank.
constexpr uint32_t kAllConnections = ~0u;

class Links;

// Connections that a further thread of the caller looks at.
class Lane {
 public:
  explicit Lane(Links* all) : all_(all) { set_.open(); }

  LinkSet& set() noexcept { return set_; }
  // Takes what has arrived, and goes on with what is left to send. Returns whether chunks were taken. Connections from
  // this one on are left out.
  bool look(uint32_t end) noexcept;

 private:
  Links* const all_;
  LinkSet set_;
};

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
  // Links this member to the remote ranks, then stops to listen. The inbox must outlive this object. Throws what meet()
  // throws. kCaller: there is no thread. Instead one of the caller's is in a call all the time, from connect to
  // leave(), and looks, and each further lane is looked at by one more. connections: to each rank; connection c is of
  // lane c % lanes. The first carries all frames but chunks, and goodbyes go by all of them.
  void connect(const Identity& self, const std::vector<Remote>& remotes, uint32_t world, bool encrypted,
               uint64_t deadline_ns, const std::function<bool()>& ended, Inbox* inbox, LinksOwner owner,
               uint32_t connections, uint32_t lanes = 1);
  // After connect has thrown: ends the links that have come about; after leave(), nobody can dial this rank any more.
  void give_up() noexcept;

  // Null for a rank on this host.
  Link* to(uint32_t rank) const noexcept { return by_rank_[rank]; }
  // One of several.
  Link* to(uint32_t rank, uint32_t connection) const noexcept {
    return connection == 0 ? by_rank_[rank] : more_[rank * (connections_ - 1) + connection - 1];
  }
  uint32_t connections() const noexcept { return connections_; }
  // All but the first, which these functions are for.
  Lane& lane(uint32_t i) noexcept { return *lanes_[i - 1]; }
  // One of its connections to this rank has ended without a goodbye: whoever looks at the first one deals with it,
  // after what has arrived there. By the thread of a further lane.
  void report_cut(uint32_t rank) noexcept;
  bool has_ended(uint32_t rank) const noexcept { return by_rank_[rank]->has_ended(); }
  // Queues a frame on the link to this rank and sends it. number: of a question, 0: one to whose answer nobody pays
  // attention.
  void tell(uint32_t rank, FrameKind kind, const void* payload, uint32_t bytes, uint64_t number = 0) noexcept;
  // The same to every rank.
  void tell_all(FrameKind kind, const void* payload, uint32_t bytes, uint64_t number = 0) noexcept;
  // Sends as much as the sockets take; the thread of the links goes on with the rest.
  void flush() noexcept;
  // Before a call leaves the memory that it has lent to links, ...
  void settle() noexcept {
    for (Link* const link : set_.links()) link->settle();
  }
  // ... and before it writes to some of it.
  void settle(const uint8_t* from, uint64_t bytes) noexcept {
    for (Link* const link : set_.links()) {
      if (link->does_need(from, bytes)) link->settle();
    }
  }

  // From a call's begin to its end the calling thread takes what arrives, whenever it waits.
  void begin_call() noexcept {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    caller_takes_.store(true, std::memory_order_relaxed);
  }
  void end_call() noexcept;
  // Before the calling thread sleeps, and after it: meanwhile the thread of the links takes what arrives.
  void hand_over() noexcept;
  void take_back() noexcept { begin_call(); }

  // The next ones are for the calling thread in a call. None of them blocks.

  // Sends as much as the sockets take; the next ones go on with the rest, and at the end of the call the thread of the
  // links. Returns whether there is a rest.
  bool flush_in_call() noexcept;
  // Takes what has arrived, and goes on with what is left to send. Returns whether packets or chunks were taken.
  // Connections from this one on are left out, unless there are many links.
  bool look_in_call(uint32_t end = kAllConnections) noexcept;
  // The same, and waits for another thread that is looking.
  void catch_up() noexcept;
  // Receives what has arrived from this rank, which the next two then find, and goes on with what is left to send.
  void fill(uint32_t rank) noexcept;
  // The same, and takes what has arrived from the others.
  void fill_and_look(uint32_t rank) noexcept;
  // Takes what was received from this rank until stop() is true. Returns whether it is.
  template <class Stop>
  bool take_until(uint32_t rank, Stop stop) noexcept {
    Link* const link = by_rank_[rank];
    bool took = false;
    if (!link->has_ended() && hold() && !link->give(&took, stop)) broke(link);
    return stop();
  }
  // The payload of this run if it is what this rank sent next, and null otherwise. It can be used until any of these
  // functions is called for this rank, or one for all.
  const uint8_t* take_run(uint32_t rank, const WantedRun& wanted) noexcept;
  // The same if it follows the run that take_run() gave last of this rank, in nearly all cases; else null.
  const uint8_t* take_next_run(uint32_t rank, const WantedRun& wanted) noexcept {
    if (!held_) return nullptr;
    return link::take_next_run(*by_rank_[rank], wanted);
  }
  // More runs that follow it and have been received (runs.h).
  const uint8_t* take_following(uint32_t rank, const WantedRun& wanted, uint64_t stride, uint64_t most,
                                uint64_t* bytes) noexcept {
    *bytes = 0;
    if (!held_) return nullptr;
    return link::take_following(*by_rank_[rank], wanted, stride, most, bytes);
  }
  // Lets other threads look.
  void let_go() noexcept;
  // Waits until something arrives, a socket takes more of what is left to send, wake() is called, or so long. Returns
  // whether it was not only the time.
  bool wait(int limit_ms) noexcept { return set_.wait(limit_ms); }
  // Ends a wait; by any thread.
  void wake() noexcept { set_.wake(); }
  // The same, and the waits of all lanes.
  void wake_all() noexcept;

  // Takes what has arrived, of many links at least from some. Never blocks. Returns whether packets were taken: a
  // thread that is not the member's must then wake the member, as settled() does.
  bool look() noexcept;

 private:
  // Whether the calling thread alone receives. It keeps that from the first time that it needs it until let_go().
  bool hold() noexcept {
    if (!held_) held_ = caller_takes_.load(std::memory_order_relaxed) && receive_mutex_.try_lock();
    return held_;
  }
  // Skips the link `except`, which may be null. With many links, asks epoll for up to 64 events, and reads the links
  // that have something to read.
  void look_locked(bool* took, const Link* except = nullptr, uint32_t end = kAllConnections) noexcept;
  void look_at_all(bool* took, const Link* except, uint32_t end) noexcept;
  void look_at(Link* link, bool* took) noexcept;
  void take_cuts() noexcept;
  void broke(Link* link) noexcept;
  void run() noexcept;

  Listener listener_;
  std::vector<std::unique_ptr<Link>> owned_;  // by this or a lane
  std::vector<Link*> by_rank_;                // the first connection to each
  std::vector<Link*> more_;                   // the others, rank by rank
  uint32_t connections_ = 1;
  Inbox* inbox_ = nullptr;
  LinkSet set_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // but the first
  std::vector<std::atomic<bool>> cut_;        // by rank: whether a lane has reported it
  std::atomic<bool> any_cut_{false};
  std::thread thread_;
  std::mutex receive_mutex_;
  bool held_ = false;  // by the calling thread
  std::atomic<bool> caller_takes_{false};
  std::atomic<uint64_t> calls_{0};
  // Something has arrived which the thread has left to the calling thread. A call that never looks at its link would
  // leave it there, and the next call would begin before the thread looks again.
  std::atomic<bool> is_wanted_{false};
  std::atomic<bool> ends_{false};
  bool left_ = false;  // whether goodbye was said
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINKS_H
