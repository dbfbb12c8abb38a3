// Contexts of the driver: whose they are, and whose is the calling thread's.
#ifndef NVRAR_CUDA_DRIVER_CONTEXT_H
#define NVRAR_CUDA_DRIVER_CONTEXT_H

#include <cstdint>

#include "cuda/driver/driver.h"

namespace nvrar::cuda {

// Keeps the primary context alive: memory may outlive the member that allocated it.
class PrimaryContext {
 public:
  explicit PrimaryContext(int32_t ordinal);  // throws NVRAR_UNAVAILABLE if there is no such device
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  Context get() const noexcept { return context_; }
  DeviceHandle device() const noexcept { return device_; }
  int32_t ordinal() const noexcept { return ordinal_; }
  const Uuid& uuid() const noexcept { return uuid_; }

 private:
  int32_t ordinal_;
  DeviceHandle device_ = 0;
  Context context_ = nullptr;
  Uuid uuid_{};
};

// Makes a context the calling thread's own for a scope; the caller may have another one of its own.
class CurrentContext {
 public:
  explicit CurrentContext(Context context) { check(driver().cuCtxPushCurrent_v2(context), "making a context current"); }
  ~CurrentContext() {
    Context popped;
    (void)driver().cuCtxPopCurrent_v2(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_DRIVER_CONTEXT_H
