// Time stamps for the flight record: the processor's counter, read in a few nanoseconds, where asking the system for
// the time would cost a small call a third of its own. A reader turns ticks into nanoseconds; all processes of a host
// see one counter, so it can do so for a rank that is dead.
#ifndef NVRAR_CONTROL_TICK_CLOCK_H
#define NVRAR_CONTROL_TICK_CLOCK_H

#include <cstdint>

namespace nvrar::control {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

uint64_t monotonic_ns() noexcept;  // CLOCK_MONOTONIC

inline uint64_t ticks_now() noexcept { return __builtin_ia32_rdtsc(); }

// The counter and CLOCK_MONOTONIC at one moment.
struct Moments {
  uint64_t ticks;
  uint64_t ns;
  static Moments now() noexcept;
};

class TickClock {
 public:
  // Turns ticks into nanoseconds by one look at both clocks: what it says of two ticks is in their order.
  class Look {
   public:
    // CLOCK_MONOTONIC of that tick; 0 if ticks is 0 or the counter does not run at one rate in all power states.
    uint64_t to_ns(uint64_t ticks) const noexcept;

   private:
    friend class TickClock;
    Moments now_;
    double ns_per_tick_;  // 0: not steady
  };

  TickClock() noexcept;
  // The longer after the construction, the better the counter's rate is known.
  Look look() const noexcept;

 private:
  bool steady_;
  Moments begin_;
};

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_TICK_CLOCK_H
