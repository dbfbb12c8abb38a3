#include "gpu/images.h"

#define NVRAR_BENCH_IMAGE(name, path) \
  asm(".pushsection .rodata\n"        \
      ".balign 16\n" #name            \
      ":\n"                           \
      ".incbin \"" path               \
      "\"\n"                          \
      ".byte 0\n"                     \
      ".popsection");                 \
  extern "C" const char name[];

NVRAR_BENCH_IMAGE(nvrar_bench_compute_image, NVRAR_BENCH_PTX "/compute.ptx")
NVRAR_BENCH_IMAGE(nvrar_bench_programmatic_compute_image, NVRAR_BENCH_PTX "/compute_programmatic.ptx")
NVRAR_BENCH_IMAGE(nvrar_bench_sweep_image, NVRAR_BENCH_PTX "/sweep.ptx")
#ifdef NVRAR_BENCH_YARDSTICK
NVRAR_BENCH_IMAGE(nvrar_bench_yardstick_image, NVRAR_BENCH_YARDSTICK)
#endif

namespace nvrar::bench {

const void* compute_image() { return nvrar_bench_compute_image; }

const void* programmatic_compute_image() { return nvrar_bench_programmatic_compute_image; }

const void* sweep_image() { return nvrar_bench_sweep_image; }

const void* yardstick_image() {
#ifdef NVRAR_BENCH_YARDSTICK
  return nvrar_bench_yardstick_image;
#else
  return nullptr;
#endif
}

}  // namespace nvrar::bench
