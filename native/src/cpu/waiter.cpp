#include "cpu/waiter.h"

#include <unistd.h>

#include <algorithm>

#include "common/cgroup.h"
#include "link/ring_inbox.h"
#include "shared/doorbell.h"

namespace nvrar::cpu {
namespace {

// A sender that was killed between storing its packet and waking this rank delays it at most this long, and not for the
// whole deadline. With a short deadline, a rank sleeps only a fraction of it, so that it still counts as waiting.
#if defined(NVRAR_TEST_ADVERSE)  // longer than any test, so that a lost wake-up is a time-out
constexpr uint64_t kLongestSleepNs = 3600 * kNsPerSecond;
#else
constexpr uint64_t kLongestSleepNs = 100'000'000;
#endif
// About 20 us of pauses if every rank has a core, else just enough for a packet that is already in flight.
constexpr uint32_t kSpinsAlone = 500;
constexpr uint32_t kSpinsCrowded = 16;
// A look at a link is a system call.
constexpr uint32_t kLooksAlone = 40;
constexpr uint32_t kLooksCrowded = 4;
constexpr uint64_t kYieldNs = 200'000;
constexpr uint64_t kAskNs = 50'000'000;
constexpr uint64_t kSleepsWhileFresh = 8;

}  // namespace

bool has_core_each(const Crowd& crowd, uint32_t quota_cores) {
  cpu_set_t set;
  const uint32_t cores = ::sched_getaffinity(0, sizeof set, &set) == 0
                             ? static_cast<uint32_t>(CPU_COUNT(&set))
                             : static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return crowd.on_host <= cores && crowd.under_quota <= quota_cores;
}

Waiter::Waiter(shared::ControlBlock* own, const Crowd& crowd, uint64_t timeout_ns, link::RingInbox* remote,
               WaitCounter* waits)
    : own_(own),
      timeout_ns_(timeout_ns),
      yield_ns_(kYieldNs),
      spins_(kSpinsAlone),
      looks_(kLooksAlone),
      first_ask_ns_(std::min(kAskNs, fresh_ns(timeout_ns) / kSleepsWhileFresh)),
      remote_(remote),
      links_(remote == nullptr ? nullptr : &remote->links()),
      waits_(waits) {
  if (has_core_each(crowd, cpu_quota().cores)) return;
  spins_ = kSpinsCrowded;
  looks_ = kLooksCrowded;
}

void Waiter::ask(uint64_t waited_ns, uint64_t gone_ns) noexcept {
  next_ask_ns_ = 2 * waited_ns;
  const bool next_is_too_late = gone_ns + waited_ns >= timeout_ns_ / 4 * 3;  // to be answered before the deadline
  remote_->talk().ask(next_is_too_late ? RankSet::all(protocol::kMaxWorld) : own_->waits_for.load());
}

void Waiter::sleep_on_doorbell(uint32_t seen, uint64_t at_most_ns) noexcept {
#if defined(NVRAR_TEST_ADVERSE)
  const uint64_t ns = std::min(at_most_ns, kLongestSleepNs);
#else
  const uint64_t ns = std::min({at_most_ns, kLongestSleepNs, fresh_ns(timeout_ns_) / kSleepsWhileFresh});
#endif
  shared::sleep_on_doorbell(*own_, seen, ns);
}

}  // namespace nvrar::cpu
