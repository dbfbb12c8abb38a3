// Makes floating-point results the same on all ranks. The processor's rounding and denormal modes are per thread, and
// any code of the host program may have changed them (fesetround, a library that was linked with -ffast-math).
#ifndef NVRAR_CPU_FLOAT_CONTROL_H
#define NVRAR_CPU_FLOAT_CONTROL_H

#include <cstdint>

namespace nvrar::cpu {

// For its scope, sets rounding to nearest, keeps denormals and masks all exceptions; afterwards restores the thread's
// modes. It does not restore the exception flags. Which flags a sum raises depends on the algorithm and on the slice
// that a rank has; restoring them costs 4 % of a small call.
class FloatControl {
 public:
  FloatControl() noexcept : before_(__builtin_ia32_stmxcsr()), is_foreign_((before_ & ~kFlags) != kDefault) {
    if (is_foreign_) [[unlikely]]
      __builtin_ia32_ldmxcsr(kDefault);
  }
  ~FloatControl() {
    if (is_foreign_) [[unlikely]]
      __builtin_ia32_ldmxcsr(before_);
  }
  FloatControl(const FloatControl&) = delete;
  FloatControl& operator=(const FloatControl&) = delete;

 private:
  // MXCSR: all exceptions are masked; the lowest six bits are the exception flags.
  static constexpr uint32_t kDefault = 0x1F80;
  static constexpr uint32_t kFlags = 0x003F;

  const uint32_t before_;
  const bool is_foreign_;
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_FLOAT_CONTROL_H
