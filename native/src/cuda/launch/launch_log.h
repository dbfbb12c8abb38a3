// Which call a launch belongs to, by its tag: what a kernel can say of itself is one number.
#ifndef NVRAR_CUDA_LAUNCH_LAUNCH_LOG_H
#define NVRAR_CUDA_LAUNCH_LAUNCH_LOG_H

#include <nvrar.h>

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>

namespace nvrar::cuda {

struct LoggedLaunch {
  nvrar_call call{};          // of a batch its first
  uint64_t first_record = 0;  // number in the flight record
  uint32_t records = 0;       // 0: of a captured launch, which may run often and has none
  bool last = false;          // no later launch belongs to the call
};

// Eager launches are kept for as long as the flight record keeps calls. A graph may launch captured ones at any time,
// and nobody says when it is gone, so the newest of them are kept: more than the graphs that an engine holds at once,
// and bounded where it captures again and again. Of an older one that still runs only what is said about a failure is
// less. Any thread.
class LaunchLog {
 public:
  static constexpr size_t kCapturedKept = size_t{1} << 16;

  // The tag of a new launch, never 0.
  uint32_t add(const LoggedLaunch& launch);
  // The launch of a tag; its call's number is 0 if it is no longer known.
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
