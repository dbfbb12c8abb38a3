// Finds the call of a launch by the launch's tag, because a kernel can report only one number about itself.
#ifndef NVRAR_CUDA_LAUNCH_LAUNCH_LOG_H
#define NVRAR_CUDA_LAUNCH_LAUNCH_LOG_H

#include <nvrar.h>

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>

namespace nvrar::cuda {

struct LoggedLaunch {
  nvrar_call call{};          // for a batch, its first transfer
  uint64_t first_record = 0;  // index in the flight record
  uint32_t records = 0;       // 0: a captured launch, which may run often and has no records
  bool last = false;          // whether this is the last launch of the call
};

// Eager launches are kept as long as the flight record keeps calls. A graph may run captured launches at any time, and
// this library is not notified when a graph is destroyed. So the newest captured launches are kept: more than an engine
// holds in graphs at once, but not without limit, since an engine may capture again and again. If an older one still
// runs and fails, the report of the failure has less detail. Any thread may call.
class LaunchLog {
 public:
  static constexpr size_t kCapturedKept = size_t{1} << 16;

  // The tag of a new launch, never 0.
  uint32_t add(const LoggedLaunch& launch);
  // Returns the launch of a tag, or one whose call has the number 0 if the launch is no longer kept.
  LoggedLaunch find(uint32_t tag) const;
  // The tag of the newest eager launch; 0 if there was none.
  uint32_t newest() const;

 private:
  mutable std::mutex mutex_;
  std::array<LoggedLaunch, NVRAR_FLIGHT_RECORDS> eager_{};
  uint64_t eager_count_ = 0;
  std::deque<LoggedLaunch> captured_;
  uint64_t captured_count_ = 0;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_LAUNCH_LAUNCH_LOG_H
