#include "cuda/launch/launch_log.h"

#include "cuda/kernels/launch/kernel_args.h"

namespace nvrar::cuda {
namespace {

constexpr uint32_t kCapturedBit = kCapturedTag;
// The tags of eager launches count from 1, those of captured ones from 0; both wrap around.
constexpr uint64_t kEagerTags = kCapturedBit - 1;
constexpr uint64_t kCapturedTags = kCapturedBit;

}  // namespace

uint32_t LaunchLog::add(const LoggedLaunch& launch) {
  const std::lock_guard lock(mutex_);
  if (launch.records == 0) {
    if (captured_.size() == kCapturedKept) captured_.pop_front();
    captured_.push_back(launch);
    return kCapturedBit | static_cast<uint32_t>(captured_count_++ % kCapturedTags);
  }
  eager_[eager_count_ % NVRAR_FLIGHT_RECORDS] = launch;
  return static_cast<uint32_t>(eager_count_++ % kEagerTags + 1);
}

LoggedLaunch LaunchLog::find(uint32_t tag) const {
  const std::lock_guard lock(mutex_);
  if ((tag & kCapturedBit) != 0) {
    if (captured_count_ == 0) return {};
    const uint64_t last = (captured_count_ - 1) % kCapturedTags;
    const uint64_t age = (last + kCapturedTags - (tag & ~kCapturedBit)) % kCapturedTags;
    return age < captured_.size() ? captured_[captured_.size() - 1 - age] : LoggedLaunch{};
  }
  if (tag == 0 || eager_count_ == 0) return {};
  const uint64_t last = eager_count_ - 1;
  const uint64_t age = (last % kEagerTags + kEagerTags - (tag - 1)) % kEagerTags;
  return age < NVRAR_FLIGHT_RECORDS && age <= last ? eager_[(last - age) % NVRAR_FLIGHT_RECORDS] : LoggedLaunch{};
}

uint32_t LaunchLog::newest() const {
  const std::lock_guard lock(mutex_);
  return eager_count_ == 0 ? 0 : static_cast<uint32_t>((eager_count_ - 1) % kEagerTags + 1);
}

}  // namespace nvrar::cuda
