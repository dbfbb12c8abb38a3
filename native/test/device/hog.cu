// A kernel that occupies multiprocessors for a given time.
#include <stdint.h>

extern "C" __global__ void __launch_bounds__(1024, 2) hog(uint64_t ns) {
  const auto now_ns = [] {
    uint64_t value;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
    return value;
  };
  const uint64_t begin_ns = now_ns();
  while (now_ns() - begin_ns < ns) __nanosleep(1000);
}
