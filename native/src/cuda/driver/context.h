// Contexts of the driver: keeping a primary context alive, and making a context current.
#ifndef NVRAR_CUDA_DRIVER_CONTEXT_H
#define NVRAR_CUDA_DRIVER_CONTEXT_H

#include <cstdint>

#include "cuda/driver/driver.h"

namespace nvrar::cuda {

// Throws NVRAR_UNAVAILABLE if this process sees no such device.
DeviceHandle find_device(int32_t ordinal);

// Keeps a device's primary context alive: memory may outlive the member that allocated it.
class PrimaryContext {
 public:
  explicit PrimaryContext(int32_t ordinal);  // throws like find_device
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  Context get() const noexcept { return context_; }
  DeviceHandle device() const noexcept { return device_; }
  int32_t ordinal() const noexcept { return ordinal_; }
  const Uuid& uuid() const noexcept { return uuid_; }

 private:
  int32_t ordinal_;
  DeviceHandle device_;
  Context context_ = nullptr;
  Uuid uuid_{};
};

// Makes a context current on the calling thread for a scope, and restores the caller's afterwards. Never throws, so it
// can be used for cleanup and queries in a context that may be broken.
class ContextScope {
 public:
  explicit ContextScope(Context context) noexcept : entered_(driver().cuCtxPushCurrent_v2(context)) {}
  ~ContextScope() {
    if (entered_ != kSuccess) return;
    Context popped;
    (void)driver().cuCtxPopCurrent_v2(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  // kSuccess, or the driver's error; the context is then not current.
  Result entered() const noexcept { return entered_; }
  explicit operator bool() const noexcept { return entered_ == kSuccess; }

 private:
  const Result entered_;
};

// Like ContextScope, but throws if the driver refuses.
class CurrentContext {
 public:
  explicit CurrentContext(Context context) : scope_(context) { check(scope_.entered(), "making a context current"); }

 private:
  const ContextScope scope_;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_DRIVER_CONTEXT_H
