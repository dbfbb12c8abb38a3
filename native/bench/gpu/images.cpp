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
#ifdef NVRAR_BENCH_FATBINS
NVRAR_BENCH_IMAGE(nvrar_bench_yardstick_image, NVRAR_BENCH_FATBINS "/yardstick.fatbin")
NVRAR_BENCH_IMAGE(nvrar_bench_yardstick_norm_image, NVRAR_BENCH_FATBINS "/yardstick_norm.fatbin")
NVRAR_BENCH_IMAGE(nvrar_bench_add_norm_image, NVRAR_BENCH_FATBINS "/add_norm.fatbin")
#endif

namespace nvrar::bench {

const void* compute_image() { return nvrar_bench_compute_image; }

const void* programmatic_compute_image() { return nvrar_bench_programmatic_compute_image; }

const void* sweep_image() { return nvrar_bench_sweep_image; }

#ifdef NVRAR_BENCH_FATBINS
const void* yardstick_image() { return nvrar_bench_yardstick_image; }
const void* yardstick_norm_image() { return nvrar_bench_yardstick_norm_image; }
const void* add_norm_image() { return nvrar_bench_add_norm_image; }
#else
const void* yardstick_image() { return nullptr; }
const void* yardstick_norm_image() { return nullptr; }
const void* add_norm_image() { return nullptr; }
#endif

}  // namespace nvrar::bench
