// A rank's last calls, in its segment: it writes them, its peers read them, also when it is dead.
#ifndef NVRAR_CONTROL_FLIGHT_RECORD_H
#define NVRAR_CONTROL_FLIGHT_RECORD_H

#include <nvrar.h>

#include <atomic>
#include <cstdint>

#include "control/tick_clock.h"

namespace nvrar::control {

// A seqlock of one writer, one cache line. Its fields are stored with release and read with acquire instead of by
// fences, which the thread sanitizer cannot follow; on x86-64 both are plain moves.
class alignas(64) FlightEntry {
 public:
  // lap: how often the record has come round to this entry.
  void begin(const nvrar_call& call, int32_t state, uint64_t lap) noexcept;
  void end(int32_t state) noexcept { end_.store(stamp(ticks_now(), state), std::memory_order_release); }
  bool has_failed() const noexcept { return (end_.load(std::memory_order_relaxed) & kStateMask) == NVRAR_CALL_FAILED; }
  // Does not fill size. False if the entry is another lap's or is being written: its writer died half way, or is faster
  // than this look.
  bool read(const TickClock::Look& look, uint64_t lap, nvrar_call* call) const noexcept;

 private:
  // The state shares a word with the time of the end, so both change at once.
  static constexpr uint64_t kStateMask = 7;
  static uint64_t stamp(uint64_t ticks, int32_t state) noexcept {
    return (ticks & ~kStateMask) | static_cast<uint64_t>(state);
  }

  static constexpr uint32_t whole(uint64_t lap) noexcept { return static_cast<uint32_t>(2 * lap + 2); }

  std::atomic<uint32_t> version_{0};  // odd while it is being written
  std::atomic<uint32_t> transfers_{0};
  std::atomic<uint64_t> what_{0};  // collective, type, op, root, algorithm: a byte each
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> group_sequence_{0};
  std::atomic<uint64_t> begin_{0};
  std::atomic<uint64_t> end_{0};
};
static_assert(sizeof(FlightEntry) == 64, "one call touches one line");

class FlightRecord {
 public:
  // Of `call` all but size, state and times count. Returns the call's number for end(). One thread at a time.
  uint64_t begin(const nvrar_call& call, int32_t state = NVRAR_CALL_RUNNING) noexcept {
    const uint64_t number = written_.load(std::memory_order_relaxed);
    entries_[number % NVRAR_FLIGHT_RECORDS].begin(call, state, number / NVRAR_FLIGHT_RECORDS);
    written_.store(number + 1, std::memory_order_release);
    return number;
  }
  // Nothing if so many calls have begun since that the entry is another's.
  void end(uint64_t number, int32_t state) noexcept {
    if (written_.load(std::memory_order_relaxed) - number > NVRAR_FLIGHT_RECORDS) return;
    entries_[number % NVRAR_FLIGHT_RECORDS].end(state);
  }
  // As end(); a call that has failed stays so.
  void end_unless_failed(uint64_t number, int32_t state) noexcept {
    if (!entries_[number % NVRAR_FLIGHT_RECORDS].has_failed()) end(number, state);
  }

  // Of a batch a transfer that still runs, or failed, rather than its last one; of calls that are queued what they
  // wait for, where that is known. state is NVRAR_CALL_NONE if there was no call.
  nvrar_call last(const TickClock& clock) const noexcept;
  // Oldest first, the newest `capacity`; returns how many.
  uint32_t read(const TickClock& clock, nvrar_call* out, uint32_t capacity) const noexcept;

 private:
  std::atomic<uint64_t> written_{0};
  FlightEntry entries_[NVRAR_FLIGHT_RECORDS];
};

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_FLIGHT_RECORD_H
