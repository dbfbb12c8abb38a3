// What a rank has called so far, in its segment: counted as its flight record is written, so that a call pays for a few
// stores to lines that it has in its cache, and reads no clock for it.
#ifndef NVRAR_SHARED_CALL_COUNTERS_H
#define NVRAR_SHARED_CALL_COUNTERS_H

#include <nvrar.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

namespace nvrar::shared {

// One thread at a time writes, any may read: each number is whole, but they may be of different moments.
class CallCounters {
 public:
  void begun(const nvrar_call& call, int32_t state) noexcept {
    Kind& kind = kind_of(call.collective);
    const uint32_t type = static_cast<uint32_t>(call.data_type) + 1;
    if (type < NVRAR_STATISTICS_TYPES) {
      add(kind.calls[type], 1);
      add(kind.elements[type], call.count);
    }
    if (state == NVRAR_CALL_FAILED) add(kind.failed, 1);
    algorithm_.store(call.algorithm, std::memory_order_relaxed);
  }
  void failed(int32_t collective) noexcept { add(kind_of(collective).failed, 1); }
  // The call has ended, with or without a result, after so many ticks.
  void took(int32_t collective, uint64_t ticks) noexcept {
    const uint64_t rate = ns_per_tick_.load(std::memory_order_relaxed);
    if (rate == 0) return;
    const auto ns = static_cast<uint64_t>(static_cast<unsigned __int128>(ticks) * rate >> kRateBits);
    Kind& kind = kind_of(collective);
    add(kind.timed_ns, ns);
    add(kind.durations[bucket_of(ns)], 1);
  }

  // Until it is set, or if it is 0, no durations are counted.
  void set_rate(double ns_per_tick) noexcept {
    ns_per_tick_.store(static_cast<uint64_t>(ns_per_tick * static_cast<double>(uint64_t{1} << kRateBits)),
                       std::memory_order_relaxed);
  }

  // Does not fill `size`. collective: NVRAR_ALL_REDUCE ... NVRAR_RECV.
  nvrar_statistics read(int32_t collective) const noexcept;
  const std::atomic<int32_t>& algorithm() const noexcept { return algorithm_; }

  // The first bucket has the durations up to NVRAR_SHORTEST_BUCKET_NS, each other one up to twice those of the one
  // before it, the last one all others.
  static constexpr uint32_t bucket_of(uint64_t ns) noexcept {
    constexpr uint32_t kFirst = std::bit_width(uint64_t{NVRAR_SHORTEST_BUCKET_NS} - 1);
    const auto width = static_cast<uint32_t>(std::bit_width(ns == 0 ? 0 : ns - 1));
    return std::min<uint32_t>(width <= kFirst ? 0 : width - kFirst, NVRAR_DURATION_BUCKETS - 1);
  }

 private:
  static constexpr int kRateBits = 32;
  static constexpr int32_t kKinds = NVRAR_RECV + 1;

  struct Kind {
    std::atomic<uint64_t> failed{0};
    std::atomic<uint64_t> timed_ns{0};
    std::atomic<uint64_t> calls[NVRAR_STATISTICS_TYPES] = {};
    std::atomic<uint64_t> elements[NVRAR_STATISTICS_TYPES] = {};
    std::atomic<uint64_t> durations[NVRAR_DURATION_BUCKETS] = {};
  };

  // Not fetch_add, because there is one writer.
  static void add(std::atomic<uint64_t>& to, uint64_t value) noexcept {
    to.store(to.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
  // Others may write what they tell of themselves; such a collective counts as none.
  static constexpr uint32_t index_of(int32_t collective) noexcept {
    return collective > 0 && collective < kKinds ? static_cast<uint32_t>(collective) : 0;
  }
  Kind& kind_of(int32_t collective) noexcept { return kinds_[index_of(collective)]; }

  std::atomic<uint64_t> ns_per_tick_{0};
  std::atomic<int32_t> algorithm_{0};
  Kind kinds_[kKinds];
};

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_CALL_COUNTERS_H
