// The same bits on all ranks: how the processor rounds, and what it makes of denormals, is a word of each thread that
// any code of the host program may have changed (fesetround, a library that was linked with -ffast-math).
#ifndef NVRAR_CPU_FLOAT_CONTROL_H
#define NVRAR_CPU_FLOAT_CONTROL_H

#include <cstdint>

namespace nvrar::cpu {

// For a scope: to the nearest, denormals kept, no exception a signal. Afterwards the thread rounds as it did before.
// Which flags a sum raises depends on the algorithm, and on the slice that a rank has; to take them back costs 4 % of a
// small call.
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
  // MXCSR: all exceptions masked; the lowest six bits say which there were.
  static constexpr uint32_t kDefault = 0x1F80;
  static constexpr uint32_t kFlags = 0x003F;

  const uint32_t before_;
  const bool is_foreign_;
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_FLOAT_CONTROL_H
