// Time stamps for the flight record: the processor's counter, read in a few nanoseconds, where asking the system for
// the time would cost a small call a third of its own. A reader turns ticks into nanoseconds; all processes of a host
// see one counter, so it can do so for a rank that is dead.
#ifndef NVRAR_HOST_TICK_CLOCK_H
#define NVRAR_HOST_TICK_CLOCK_H

#include <cstdint>

namespace nvrar::host {

inline uint64_t ticks_now() noexcept { return __builtin_ia32_rdtsc(); }

class TickClock {
 public:
  // Looks at both clocks; to_ns() looks again, so the longer a group lives the better it knows the counter's rate.
  TickClock() noexcept;
  // CLOCK_MONOTONIC of that tick; 0 if ticks is 0 or the counter does not run at one rate in all power states.
  uint64_t to_ns(uint64_t ticks) const noexcept;

 private:
  bool steady_;
  uint64_t ticks_;
  uint64_t ns_;
};

}  // namespace nvrar::host

#endif  // NVRAR_HOST_TICK_CLOCK_H
