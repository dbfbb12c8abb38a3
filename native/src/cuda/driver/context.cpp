#include "cuda/driver/context.h"

#include <string>

#include "common/error.h"

namespace nvrar::cuda {

DeviceHandle find_device(int32_t ordinal) {
  const Driver& cuda = driver();
  int count = 0;
  check(cuda.cuDeviceGetCount(&count), "counting the GPUs");
  if (ordinal < 0 || ordinal >= count) {
    throw Error(NVRAR_UNAVAILABLE, "there is no GPU " + std::to_string(ordinal) + " in this process, it sees " +
                                       std::to_string(count) + ", from 0 to " + std::to_string(count - 1));
  }
  DeviceHandle device = 0;
  check(cuda.cuDeviceGet(&device, ordinal), "finding a GPU");
  return device;
}

PrimaryContext::PrimaryContext(int32_t ordinal) : ordinal_(ordinal), device_(find_device(ordinal)) {
  check(driver().cuDeviceGetUuid_v2(&uuid_, device_), "asking for a GPU's UUID");
  check(driver().cuDevicePrimaryCtxRetain(&context_, device_), "taking a GPU's primary context");
}

PrimaryContext::~PrimaryContext() { (void)driver().cuDevicePrimaryCtxRelease_v2(device_); }

}  // namespace nvrar::cuda
