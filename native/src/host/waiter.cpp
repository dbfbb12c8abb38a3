#include "host/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace nvrar::host {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
// A sender that was killed between its packet and its wake costs at most this, not the whole deadline. Of a short
// deadline a part, so that a rank that sleeps still counts as one that waits.
#if defined(NVRAR_TEST_ADVERSE)  // no second chance, so that a lost wake-up is a time-out
constexpr uint64_t kLongestSleepNs = 3600 * kNsPerSecond;
#else
constexpr uint64_t kLongestSleepNs = 100'000'000;
#endif
// About 20 us of pauses where every rank has a core; else just enough for a packet that is already in flight.
constexpr uint32_t kSpinsAlone = 500;
constexpr uint32_t kSpinsCrowded = 16;
constexpr uint64_t kYieldNs = 200'000;
[[maybe_unused]] constexpr uint64_t kSleepsWhileFresh = 8;

uint32_t* futex_word(std::atomic<uint32_t>& word) noexcept { return reinterpret_cast<uint32_t*>(&word); }

}  // namespace

uint64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

uint32_t usable_cores() noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

Waiter::Waiter(ControlBlock* own, uint32_t world, uint64_t timeout_ns) noexcept
    : own_(own),
      timeout_ns_(timeout_ns),
      yield_ns_(kYieldNs),
      spins_(world > usable_cores() ? kSpinsCrowded : kSpinsAlone) {}

void Waiter::sleep_on_doorbell(uint32_t seen, uint64_t at_most_ns) noexcept {
#if defined(NVRAR_TEST_ADVERSE)
  const uint64_t ns = std::min(at_most_ns, kLongestSleepNs);
#else
  const uint64_t ns = std::min({at_most_ns, kLongestSleepNs, fresh_ns(timeout_ns_) / kSleepsWhileFresh});
#endif
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(ns / kNsPerSecond);
  relative.tv_nsec = static_cast<long>(ns % kNsPerSecond);
  // Not FUTEX_PRIVATE: peers of other processes wake it. Every outcome leads back to the caller's loop.
  ::syscall(SYS_futex, futex_word(own_->doorbell), FUTEX_WAIT, seen, &relative, nullptr, 0);
}

void wake_if_asleep(ControlBlock& peer) noexcept {
  if (peer.sleeping.load(std::memory_order_relaxed) != 0) wake(peer);
}

void wake(ControlBlock& peer) noexcept {
  peer.doorbell.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, futex_word(peer.doorbell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace nvrar::host
