// How a rank waits for its peers: it spins as long as a packet may arrive at any moment, then yields the processor,
// then sleeps on its own doorbell. There may be more ranks than cores, and a waiting rank must not prevent the rank
// that it waits for from running.
#ifndef NVRAR_CPU_WAITER_H
#define NVRAR_CPU_WAITER_H

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "common/tick_clock.h"
#include "link/links.h"
#include "shared/control_block.h"
#include "shared/packet_access.h"

namespace nvrar::link {
class RingInbox;
}

namespace nvrar::cpu {

// Ranks that run at the same time, and would spin while they wait.
struct Crowd {
  uint32_t on_host = 1;      // they share its cores
  uint32_t under_quota = 1;  // they share the CPU quota of this process (CpuQuota)
};
// Whether each can have a core: of those of this thread's affinity, and of the quota. A process that spins longer than
// its quota is stopped for up to a tenth of a second.
bool has_core_each(const Crowd& crowd, uint32_t quota_cores);

enum class WaitResult { kArrived, kPoisoned, kExpired };

// How often and how long a rank has waited for another one. The rank writes, any thread reads.
class WaitCounter {
 public:
  void add(uint64_t ns) noexcept {
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    total_ns_.store(total_ns_.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
  }
  nvrar_wait read() const noexcept {
    return {sizeof(nvrar_wait), 0, count_.load(std::memory_order_relaxed), total_ns_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> total_ns_{0};
};

class Waiter {
 public:
  Waiter() = default;
  // crowd: of the group. remote: those of other hosts; null if there are none. waits: one for each rank of
  // the group, or null.
  Waiter(shared::ControlBlock* own, const Crowd& crowd, uint64_t timeout_ns, link::RingInbox* remote,
         WaitCounter* waits = nullptr);

  // Restarts the deadline; it then counts from the first unsuccessful wait.
  void restart() noexcept { __atomic_store_n(&first_miss_ns_, uint64_t{0}, __ATOMIC_RELAXED); }
  // Any thread may ask.
  uint64_t waited_ns() const noexcept {
    const uint64_t since_ns = __atomic_load_n(&first_miss_ns_, __ATOMIC_RELAXED);
    return since_ns == 0 ? 0 : monotonic_ns() - since_ns;
  }

  // Takes what has come over links, for a caller that does not wait.
  void look() noexcept {
    if (links_ != nullptr) [[unlikely]]
      links_->look_in_call();
  }

  // A waiting rank has polled within this time; a rank that has not is dead or stopped.
  static constexpr uint64_t fresh_ns(uint64_t timeout_ns) noexcept { return timeout_ns / 2; }

  // The awaited packet may come from any of the ranks sources(), which are on this host, ...
  template <class Sources, class Arrived>
  WaitResult wait(Sources sources, Arrived arrived) noexcept {
    for (uint32_t i = 0; i < spins_; ++i) {
      if (arrived()) return WaitResult::kArrived;
      shared::cpu_relax();
      if (i == kSpinsBeforeSending && links_ != nullptr) [[unlikely]]
        links_->flush_in_call();
    }
    return wait_long(sources, arrived, [this] { look(); });
  }
  // ... or on others: between two polls look() takes something from links, and look_long() from all that have
  // something, of many links from some.
  template <class Sources, class Arrived, class Look, class LookLong>
  WaitResult wait_for_links(Sources sources, Arrived arrived, Look look, LookLong look_long) noexcept {
    for (uint32_t i = 0; i < looks_; ++i) {
      if (arrived()) return WaitResult::kArrived;
      look();
      if (i == kLooksBeforeSending) links_->flush_in_call();
    }
    return wait_long(sources, arrived, look_long);
  }
  // Both, if there are links at all.
  template <class Sources, class Arrived>
  WaitResult wait_for_any(Sources sources, Arrived arrived) noexcept {
    if (links_ == nullptr) return wait(sources, arrived);
    const auto look_at_all = [this] { links_->look_in_call(); };
    return wait_for_links(sources, arrived, look_at_all, look_at_all);
  }

 private:
  // What a phase leaves to the next one to send to other hosts is sent once a rank has waited for so long.
  static constexpr uint32_t kSpinsBeforeSending = 12;  // fewer than there are spins, or looks, before it yields
  static constexpr uint32_t kLooksBeforeSending = 3;

  template <class Sources, class Arrived, class Look>
  WaitResult wait_long(Sources sources, Arrived arrived, Look look) noexcept {
    const uint64_t begin_ns = monotonic_ns();
    if (first_miss_ns_ == 0) __atomic_store_n(&first_miss_ns_, begin_ns, __ATOMIC_RELAXED);
    const RankSet awaited = sources();
    own_->waits_for.store(awaited);
    next_ask_ns_ = first_ask_ns_;
    const WaitResult result = wait_on(arrived, look, begin_ns);
    if (result == WaitResult::kArrived) {
      own_->waits_for.store({});
    } else if (links_ != nullptr) {
      links_->let_go();  // other threads and what follows the failure look, too
    }
    if (waits_ != nullptr) {
      const uint64_t waited = monotonic_ns() - begin_ns;
      awaited.each([&](uint32_t rank) { waits_[rank].add(waited); });
    }
    return result;
  }
  template <class Arrived, class Look>
  WaitResult wait_on(Arrived arrived, Look look, uint64_t begin_ns) noexcept {
    for (uint64_t now_ns = begin_ns;; now_ns = monotonic_ns()) {
      own_->looked_ns.store(now_ns, std::memory_order_release);
      if (arrived()) return WaitResult::kArrived;
      if (own_->poison.is_set() && !protocol::planted(protocol::Defect::kIgnoredPoison)) {
        return WaitResult::kPoisoned;
      }
      const uint64_t gone_ns = now_ns - first_miss_ns_;
      if (gone_ns >= timeout_ns_) {
        // Polls once more, because this process may have been stopped since the poll above. What came over links
        // meanwhile, the failure of the group perhaps, is still to be taken.
        if (links_ != nullptr) links_->catch_up();
        if (arrived()) return WaitResult::kArrived;
        const bool poisoned = links_ != nullptr && own_->poison.is_set();
        return poisoned ? WaitResult::kPoisoned : WaitResult::kExpired;
      }
      if (links_ != nullptr && now_ns - begin_ns >= next_ask_ns_) ask(now_ns - begin_ns, gone_ns);
      if (now_ns - begin_ns < yield_ns_) {
        ::sched_yield();
        look();
      } else {
        sleep(arrived, timeout_ns_ - gone_ns);
      }
    }
  }

  // No wake-up is lost. Either the sender's fence comes after the flag was set, so it sees the flag and rings the
  // doorbell, or its packet was stored before the flag was set, so the second poll finds it.
  template <class Arrived>
  void sleep(Arrived arrived, uint64_t at_most_ns) noexcept {
    const uint32_t seen = own_->doorbell.load(std::memory_order_acquire);
    own_->sleeping.store(1, std::memory_order_relaxed);
    shared::full_fence();
    if (links_ != nullptr) links_->hand_over();
    if (!arrived() && !own_->poison.is_set()) sleep_on_doorbell(seen, at_most_ns);
    if (links_ != nullptr) links_->take_back();
    own_->sleeping.store(0, std::memory_order_relaxed);
  }
  void sleep_on_doorbell(uint32_t seen, uint64_t at_most_ns) noexcept;
  // Asks the ranks of other hosts for which it waits what they are doing, after pauses that double: so at the deadline
  // the answers are not older than half of the wait, even those of a rank that does not answer then. The last times
  // before the deadline it asks all of them, because the report of the failure is about all.
  void ask(uint64_t waited_ns, uint64_t gone_ns) noexcept;

  shared::ControlBlock* own_ = nullptr;
  uint64_t timeout_ns_ = 0;
  uint64_t yield_ns_ = 0;
  uint64_t first_miss_ns_ = 0;
  uint32_t spins_ = 0;
  uint32_t looks_ = 0;         // at links, instead of spins, for packets that come over one
  uint64_t first_ask_ns_ = 0;  // after so long in a wait
  uint64_t next_ask_ns_ = 0;   // in this wait
  link::RingInbox* remote_ = nullptr;
  link::Links* links_ = nullptr;  // remote_'s
  WaitCounter* waits_ = nullptr;
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_WAITER_H
