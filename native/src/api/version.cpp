// Tests compile this file with other values to get "another" library; all other object files are shared between the
// builds.
#include "api/version.h"

#include <nvrar.h>

#ifndef NVRAR_BUILD_ID_TEXT
#error "the build gives NVRAR_BUILD_ID_TEXT"
#endif

namespace nvrar {

const char* build_id() noexcept { return NVRAR_BUILD_ID_TEXT; }

uint32_t abi_version() noexcept {
#ifdef NVRAR_TEST_ABI_VERSION
  return NVRAR_TEST_ABI_VERSION;
#else
  return NVRAR_ABI_VERSION;
#endif
}

}  // namespace nvrar
