#include "cuda/launch_log.h"

namespace nvrar::cuda {
namespace {

constexpr uint32_t kCapturedBit = uint32_t{1} << 31;
// Of eager launches: from 1 on, and again.
constexpr uint64_t kEagerTags = kCapturedBit - 1;

}  // namespace

uint32_t LaunchLog::add(const LoggedLaunch& launch) {
  const std::lock_guard lock(mutex_);
  if (launch.records == 0) {
    captured_.push_back(launch);
    return kCapturedBit | static_cast<uint32_t>(captured_.size() - 1);
  }
  eager_[eager_count_ % NVRAR_FLIGHT_RECORDS] = launch;
  return static_cast<uint32_t>(eager_count_++ % kEagerTags + 1);
}

LoggedLaunch LaunchLog::find(uint32_t tag) const {
  const std::lock_guard lock(mutex_);
  if ((tag & kCapturedBit) != 0) {
    const uint32_t number = tag & ~kCapturedBit;
    return number < captured_.size() ? captured_[number] : LoggedLaunch{};
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
