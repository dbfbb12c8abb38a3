#include "cuda/launch/fatbin.h"

// NVIDIA's tools (cuobjdump) look for the kernels of a library in the section of this name.
#define NVRAR_FATBIN(name, path)                    \
  asm(".pushsection .nv_fatbin, \"a\", @progbits\n" \
      ".balign 8\n"                                 \
      "nvrar_fatbin_" #name                         \
      ":\n"                                         \
      ".incbin \"" path                             \
      "\"\n"                                        \
      "nvrar_fatbin_end_" #name                     \
      ":\n"                                         \
      ".popsection");                               \
  extern "C" const std::byte nvrar_fatbin_##name[]; \
  extern "C" const std::byte nvrar_fatbin_end_##name[];
#include "fatbins.inc"  // written by cmake/cuda.cmake: NVRAR_FATBIN for each source
#undef NVRAR_FATBIN

namespace nvrar::cuda {

std::span<const Fatbin> kernels() noexcept {
#if NVRAR_FATBINS > 0
#define NVRAR_FATBIN(name, path) \
  {#name, nvrar_fatbin_##name, static_cast<size_t>(nvrar_fatbin_end_##name - nvrar_fatbin_##name)},
  static const Fatbin fatbins[NVRAR_FATBINS] = {
#include "fatbins.inc"
  };
  return fatbins;
#else
  return {};
#endif
}

}  // namespace nvrar::cuda
