// A rank's last calls, and how many there were, in its segment. The rank writes them, and its peers read them, even
// after its death.
#ifndef NVRAR_SHARED_FLIGHT_RECORD_H
#define NVRAR_SHARED_FLIGHT_RECORD_H

#include <nvrar.h>

#include <atomic>
#include <cstdint>

#include "common/tick_clock.h"
#include "shared/call_counters.h"

namespace nvrar::shared {

// A seqlock with one writer, in one cache line. Its fields are stored with release and read with acquire instead of by
// fences, which the thread sanitizer cannot follow; on x86-64 both are plain moves.
class alignas(64) FlightEntry {
 public:
  // lap: how often the record has wrapped around to this entry. now: ticks; 0 if the time is not known.
  void begin(const nvrar_call& call, int32_t state, uint64_t lap, uint64_t now) noexcept;
  // Counts how it ended, and how long it took if it ran from begin() on: when a queued call began is not known.
  void end(int32_t state, uint64_t now, CallCounters* counters) noexcept;
  bool has_failed() const noexcept { return (end_.load(std::memory_order_relaxed) & kStateMask) == NVRAR_CALL_FAILED; }
  // Does not fill `size`. Returns false if the entry belongs to another lap or is being written: its writer died while
  // writing, or overtook this read.
  bool read(const TickClock::Look& look, uint64_t lap, nvrar_call* call) const noexcept;

 private:
  // The state shares a word with the time of the end, so that both change atomically.
  static constexpr uint64_t kStateMask = 7;
  static uint64_t stamp(uint64_t ticks, int32_t state) noexcept {
    return (ticks & ~kStateMask) | static_cast<uint64_t>(state);
  }

  static constexpr uint32_t whole(uint64_t lap) noexcept { return static_cast<uint32_t>(2 * lap + 2); }

  std::atomic<uint32_t> version_{0};  // odd while it is being written
  std::atomic<uint32_t> transfers_{0};
  std::atomic<uint64_t> what_{0};  // collective, type, op, algorithm: a byte each; root: two; form and hidden: two
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
  // The time of a call of which only another host's clock knows when it was.
  static constexpr uint64_t kUntimed = 0;

  // Ignores size, state and times of `call`. Returns the call's number for end(). One thread at a time.
  uint64_t begin(const nvrar_call& call, int32_t state = NVRAR_CALL_RUNNING, uint64_t now = ticks_now()) noexcept {
    const uint64_t number = written_.load(std::memory_order_relaxed);
    entries_[number % NVRAR_FLIGHT_RECORDS].begin(call, state, number / NVRAR_FLIGHT_RECORDS, now);
    counters_.begun(call, state);
    written_.store(number + 1, std::memory_order_release);
    return number;
  }
  // Does nothing if so many calls have begun since that the entry now belongs to another call.
  void end(uint64_t number, int32_t state, uint64_t now = ticks_now()) noexcept {
    if (written_.load(std::memory_order_relaxed) - number > NVRAR_FLIGHT_RECORDS) return;
    entries_[number % NVRAR_FLIGHT_RECORDS].end(state, now, &counters_);
  }
  // Like end(), but a failed call stays failed.
  void end_unless_failed(uint64_t number, int32_t state, uint64_t now = ticks_now()) noexcept {
    if (!entries_[number % NVRAR_FLIGHT_RECORDS].has_failed()) end(number, state, now);
  }

  // The last call. For a batch: a transfer that still runs or has failed, if there is one, rather than the last one.
  // For queued calls: the call that they wait for, if it is known. state is NVRAR_CALL_NONE if there was no call.
  nvrar_call last(const TickClock& clock) const noexcept;
  // The number of calls so far.
  uint64_t begun() const noexcept { return written_.load(std::memory_order_acquire); }
  // Reads the newest `capacity` calls, oldest first; returns their number.
  uint32_t read(const TickClock& clock, nvrar_call* out, uint32_t capacity) const noexcept;
  CallCounters& counters() noexcept { return counters_; }

 private:
  std::atomic<uint64_t> written_{0};
  FlightEntry entries_[NVRAR_FLIGHT_RECORDS];
  CallCounters counters_;
};

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_FLIGHT_RECORD_H
