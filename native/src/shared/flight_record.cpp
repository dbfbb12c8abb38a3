#include "shared/flight_record.h"

#include <algorithm>

#include "protocol/fusion.h"

namespace nvrar::shared {
namespace {

using protocol::kHiddenStep;

constexpr int kTries = 1000;

constexpr uint64_t byte_at(int32_t value, int place) noexcept {
  return uint64_t{static_cast<uint8_t>(value)} << (8 * place);
}
constexpr int32_t byte_of(uint64_t word, int place) noexcept { return static_cast<int8_t>(word >> (8 * place)); }
// A rank, or -1, in the two bytes from this place on.
constexpr uint64_t rank_at(int32_t rank, int place) noexcept {
  return uint64_t{static_cast<uint16_t>(rank)} << (8 * place);
}
constexpr int32_t rank_of(uint64_t word, int place) noexcept { return static_cast<int16_t>(word >> (8 * place)); }
// The form in four bits and hidden in twelve, in the last two bytes. Without a form hidden is a k.
static_assert(NVRAR_FUSION_RMS_FOLD < 1 << 4 && NVRAR_MAX_HIDDEN / kHiddenStep < 1 << 12 && NVRAR_MAX_TOP_K < 1 << 12);
constexpr uint32_t unit_of_hidden(int32_t form) noexcept { return form == 0 ? 1 : kHiddenStep; }
constexpr uint64_t fusion_at(int32_t form, uint32_t hidden) noexcept {
  return (uint64_t{hidden / unit_of_hidden(form)} << 4 | (static_cast<uint32_t>(form) & 15)) << 48;
}
constexpr int32_t form_of(uint64_t word) noexcept { return static_cast<int32_t>(word >> 48 & 15); }
constexpr uint32_t hidden_of(uint64_t word) noexcept {
  return static_cast<uint32_t>(word >> 52) * unit_of_hidden(form_of(word));
}

nvrar_call empty_call() noexcept {
  nvrar_call call{};
  call.size = sizeof call;
  call.data_type = -1;
  call.op = -1;
  call.root = -1;
  return call;
}

}  // namespace

void FlightEntry::begin(const nvrar_call& call, int32_t state, uint64_t lap, uint64_t now) noexcept {
  version_.store(whole(lap) - 1, std::memory_order_relaxed);
  transfers_.store(call.transfers, std::memory_order_release);
  what_.store(byte_at(call.collective, 0) | byte_at(call.data_type, 1) | byte_at(call.op, 2) |
                  byte_at(call.algorithm, 3) | rank_at(call.root, 4) | fusion_at(call.fusion, call.hidden),
              std::memory_order_release);
  sequence_.store(call.sequence, std::memory_order_release);
  count_.store(call.count, std::memory_order_release);
  launches_.store(call.launches, std::memory_order_release);
  group_sequence_.store(call.group_sequence, std::memory_order_release);
  begin_.store(now, std::memory_order_release);
  end_.store(stamp(state == NVRAR_CALL_RUNNING ? 0 : now, state), std::memory_order_release);
  version_.store(whole(lap), std::memory_order_release);
}

void FlightEntry::end(int32_t state, uint64_t now, CallCounters* counters) noexcept {
  const uint64_t before = end_.load(std::memory_order_relaxed);
  end_.store(stamp(now, state), std::memory_order_release);
  const int32_t collective = byte_of(what_.load(std::memory_order_relaxed), 0);
  if (state == NVRAR_CALL_FAILED) counters->failed(collective);
  if (before == stamp(0, NVRAR_CALL_RUNNING)) counters->took(collective, now - begin_.load(std::memory_order_relaxed));
}

bool FlightEntry::read(const TickClock::Look& look, uint64_t lap, nvrar_call* call) const noexcept {
  if (version_.load(std::memory_order_acquire) != whole(lap)) return false;
  call->transfers = transfers_.load(std::memory_order_acquire);
  const uint64_t what = what_.load(std::memory_order_acquire);
  call->sequence = sequence_.load(std::memory_order_acquire);
  call->count = count_.load(std::memory_order_acquire);
  call->launches = launches_.load(std::memory_order_acquire);
  call->group_sequence = group_sequence_.load(std::memory_order_acquire);
  const uint64_t begin = begin_.load(std::memory_order_acquire);
  const uint64_t end = end_.load(std::memory_order_acquire);
  if (version_.load(std::memory_order_relaxed) != whole(lap)) return false;
  call->collective = byte_of(what, 0);
  call->data_type = byte_of(what, 1);
  call->op = byte_of(what, 2);
  call->algorithm = byte_of(what, 3);
  call->root = rank_of(what, 4);
  call->fusion = form_of(what);
  call->hidden = hidden_of(what);
  call->state = static_cast<int32_t>(end & kStateMask);
  call->begin_ns = look.to_ns(begin);
  const bool ended = call->state != NVRAR_CALL_RUNNING && call->state != NVRAR_CALL_QUEUED;
  call->end_ns = !ended ? 0 : look.to_ns(end & ~kStateMask);
  return true;
}

nvrar_call FlightRecord::last(const TickClock& clock) const noexcept {
  nvrar_call call = empty_call();
  const TickClock::Look look = clock.look();
  for (int tries = 0; tries < kTries; ++tries) {
    const uint64_t written = written_.load(std::memory_order_acquire);
    if (written == 0) break;
    const auto read = [&](uint64_t number, nvrar_call* to) {
      return entries_[number % NVRAR_FLIGHT_RECORDS].read(look, number / NVRAR_FLIGHT_RECORDS, to);
    };
    if (!read(written - 1, &call)) continue;
    // All earlier calls and batches have completed, so an entry that has not completed belongs to this batch.
    const uint64_t batch = std::min<uint64_t>({call.transfers, written, NVRAR_FLIGHT_RECORDS});
    for (uint64_t back = 2; call.state == NVRAR_CALL_DONE && back <= batch; ++back) {
      nvrar_call before = empty_call();
      if (read(written - back, &before) && before.state != NVRAR_CALL_DONE) call = before;
    }
    // Of calls that are queued one behind the other, choose the one that is known to have begun.
    const nvrar_call newest = call;
    for (uint64_t back = 2;
         call.state == NVRAR_CALL_QUEUED && back <= std::min<uint64_t>(written, NVRAR_FLIGHT_RECORDS); ++back) {
      nvrar_call before = empty_call();
      if (!read(written - back, &before) || before.state == NVRAR_CALL_DONE || before.state == NVRAR_CALL_NONE) break;
      call = before;
    }
    if (call.state == NVRAR_CALL_QUEUED) call = newest;
    break;
  }
  return call;
}

uint32_t FlightRecord::read(const TickClock& clock, nvrar_call* out, uint32_t capacity) const noexcept {
  const uint64_t written = written_.load(std::memory_order_acquire);
  const uint64_t kept = std::min<uint64_t>({written, NVRAR_FLIGHT_RECORDS, capacity});
  uint32_t filled = 0;
  const TickClock::Look look = clock.look();
  for (uint64_t number = written - kept; number < written; ++number) {
    nvrar_call call = empty_call();
    const FlightEntry& entry = entries_[number % NVRAR_FLIGHT_RECORDS];
    if (entry.read(look, number / NVRAR_FLIGHT_RECORDS, &call)) out[filled++] = call;
  }
  return filled;
}

}  // namespace nvrar::shared
