#include "shared/control_block.h"

#include <sched.h>

#include "common/tick_clock.h"

namespace nvrar::shared {
namespace {

constexpr uint64_t kRanksFollowNs = 1'000'000;

}  // namespace

Poison SharedPoison::get() const noexcept {
  const uint64_t word = word_.load(std::memory_order_seq_cst);
  if (word == 0) return {};
  const uint64_t until_ns = monotonic_ns() + kRanksFollowNs;
  while (has_ranks_.load(std::memory_order_acquire) == 0 && monotonic_ns() < until_ns) ::sched_yield();
  return Poison::of(word, ranks_.load());
}

}  // namespace nvrar::shared
