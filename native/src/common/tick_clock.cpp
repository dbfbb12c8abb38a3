#include "common/tick_clock.h"

#include <cpuid.h>

#include <ctime>

namespace nvrar {
namespace {

bool counter_is_steady() noexcept {
  constexpr uint32_t kPowerLeaf = 0x80000007;
  constexpr uint32_t kInvariantBit = 1u << 8;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  return __get_cpuid(kPowerLeaf, &a, &b, &c, &d) != 0 && (d & kInvariantBit) != 0;
}

}  // namespace

uint64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

// Reads both clocks a few times and keeps the closest pair: an interrupt between the two reads would shift all
// converted times.
Moments Moments::now() noexcept {
  constexpr int kTries = 4;
  Moments best{};
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = ticks_now();
    const uint64_t ns = monotonic_ns();
    const uint64_t after = ticks_now();
    if (after - before < least) {
      least = after - before;
      best = {before + least / 2, ns};
    }
  }
  return best;
}

TickClock::TickClock() noexcept : steady_(counter_is_steady()), begin_(Moments::now()) {}

TickClock::Look TickClock::look() const noexcept {
  Look look;
  look.now_ = Moments::now();
  const bool measurable = steady_ && look.now_.ticks > begin_.ticks;
  look.ns_per_tick_ =
      measurable ? static_cast<double>(look.now_.ns - begin_.ns) / static_cast<double>(look.now_.ticks - begin_.ticks)
                 : 0;
  return look;
}

uint64_t TickClock::Look::to_ns(uint64_t ticks) const noexcept {
  if (ns_per_tick_ == 0 || ticks == 0) return 0;
  // Computed backwards from now: most ticks asked for are recent, and the error of the rate grows with the distance.
  const double ago_ns = static_cast<double>(static_cast<int64_t>(now_.ticks - ticks)) * ns_per_tick_;
  return now_.ns - static_cast<uint64_t>(static_cast<int64_t>(ago_ns));
}

}  // namespace nvrar
