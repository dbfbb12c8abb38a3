#include "shared/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "common/tick_clock.h"

namespace nvrar::shared {
namespace {

uint32_t* futex_word(std::atomic<uint32_t>& word) noexcept { return reinterpret_cast<uint32_t*>(&word); }

}  // namespace

void wake_if_asleep(ControlBlock& peer) noexcept {
  if (peer.sleeping.load(std::memory_order_relaxed) != 0) wake(peer);
}

void wake(ControlBlock& peer) noexcept {
  peer.doorbell.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, futex_word(peer.doorbell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep_on_doorbell(ControlBlock& own, uint32_t seen, uint64_t at_most_ns) noexcept {
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(at_most_ns / kNsPerSecond);
  relative.tv_nsec = static_cast<long>(at_most_ns % kNsPerSecond);
  // Not FUTEX_PRIVATE, because peers in other processes wake it. The result is ignored: the caller polls in a loop.
  ::syscall(SYS_futex, futex_word(own.doorbell), FUTEX_WAIT, seen, &relative, nullptr, 0);
}

}  // namespace nvrar::shared
