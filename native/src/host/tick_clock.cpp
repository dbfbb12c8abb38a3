#include "host/tick_clock.h"

#include <cpuid.h>

#include "host/waiter.h"

namespace nvrar::host {
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

TickClock::TickClock() noexcept : steady_(counter_is_steady()), ticks_(ticks_now()), ns_(monotonic_ns()) {}

uint64_t TickClock::to_ns(uint64_t ticks) const noexcept {
  if (!steady_ || ticks == 0) return 0;
  const uint64_t now_ticks = ticks_now();
  const uint64_t now_ns = monotonic_ns();
  if (now_ticks <= ticks_) return now_ns;
  const double ns_per_tick = static_cast<double>(now_ns - ns_) / static_cast<double>(now_ticks - ticks_);
  // From now backwards: what is asked for is mostly recent, and errors of the rate grow with the distance.
  const double ago_ns = static_cast<double>(static_cast<int64_t>(now_ticks - ticks)) * ns_per_tick;
  return now_ns - static_cast<uint64_t>(static_cast<int64_t>(ago_ns));
}

}  // namespace nvrar::host
