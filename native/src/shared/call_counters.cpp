#include "shared/call_counters.h"

namespace nvrar::shared {

nvrar_statistics CallCounters::read(int32_t collective) const noexcept {
  const Kind& kind = kinds_[index_of(collective)];
  nvrar_statistics out{};
  out.size = sizeof out;
  out.collective = collective;
  out.failed = kind.failed.load(std::memory_order_relaxed);
  out.timed_ns = kind.timed_ns.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < NVRAR_STATISTICS_TYPES; ++i) {
    out.calls[i] = kind.calls[i].load(std::memory_order_relaxed);
    out.elements[i] = kind.elements[i].load(std::memory_order_relaxed);
  }
  for (uint32_t i = 0; i < NVRAR_DURATION_BUCKETS; ++i) {
    out.durations[i] = kind.durations[i].load(std::memory_order_relaxed);
  }
  return out;
}

}  // namespace nvrar::shared
