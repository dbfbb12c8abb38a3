// The header alone, in C11 without extensions: compiling this is the test.
#include <nvrar.h>

int main(void) {
  nvrar_config config = {0};
  nvrar_call call = {0};
  nvrar_failure failure = {0};
  config.size = (uint32_t)sizeof config;
  call.size = (uint32_t)sizeof call;
  failure.size = (uint32_t)sizeof failure;
  return nvrar_abi_version() == NVRAR_ABI_VERSION && nvrar_destroy((nvrar_comm*)0) == NVRAR_OK ? 0 : 1;
}
