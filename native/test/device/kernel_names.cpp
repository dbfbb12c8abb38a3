// Prints the names of the kernels that the library loads (plan/kernels.h), for sass_check.py. A kernel that only
// architectures with programmatic dependent launch have stands behind the word "programmatic".
#include <cstdio>

#include "plan/kernels.h"

int main() {
  for (const nvrar::cuda::KernelImage& image : nvrar::cuda::kernel_images()) {
    for (const char* const suffix : {"", "_single"}) {
      if (suffix[0] != '\0' && !image.has_single) continue;
      std::printf("%s%s\n", image.name.c_str(), suffix);
      if (image.in_teams) std::printf("programmatic %s%s_programmatic\n", image.name.c_str(), suffix);
    }
  }
  return 0;
}
