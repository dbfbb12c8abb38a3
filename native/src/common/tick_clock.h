// Time stamps for the flight record, from the processor's counter. Reading it takes a few nanoseconds; asking the
// system for the time would make a small call a third slower. Readers convert ticks to nanoseconds; all processes of a
// host see the same counter, so this works even for a dead rank.
#ifndef NVRAR_COMMON_TICK_CLOCK_H
#define NVRAR_COMMON_TICK_CLOCK_H

#include <cstdint>

namespace nvrar {

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
  // Converts ticks to nanoseconds by one reading of both clocks, so the results for two ticks are in the order of the
  // ticks.
  class Look {
   public:
    // CLOCK_MONOTONIC at that tick; 0 if ticks is 0, or if the counter's rate is not constant in all power states.
    uint64_t to_ns(uint64_t ticks) const noexcept;
    // 0 if the rate is not constant.
    double ns_per_tick() const noexcept { return ns_per_tick_; }

   private:
    friend class TickClock;
    Moments now_;
    double ns_per_tick_;  // 0: the rate is not constant
  };

  TickClock() noexcept;
  // The precision of the counter's rate grows with the time since construction.
  Look look() const noexcept;

 private:
  bool steady_;
  Moments begin_;
};

}  // namespace nvrar

#endif  // NVRAR_COMMON_TICK_CLOCK_H
