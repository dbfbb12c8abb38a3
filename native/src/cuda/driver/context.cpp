#include "cuda/driver/context.h"

#include <string>

#include "common/error.h"

namespace nvrar::cuda {

PrimaryContext::PrimaryContext(int32_t ordinal) : ordinal_(ordinal) {
  const Driver& cuda = driver();
  int count = 0;
  check(cuda.cuDeviceGetCount(&count), "counting the devices");
  if (ordinal < 0 || ordinal >= count) {
    throw Error(NVRAR_UNAVAILABLE, "there is no GPU " + std::to_string(ordinal) + " in this process, it sees " +
                                       std::to_string(count) + ", from 0 to " + std::to_string(count - 1));
  }
  check(cuda.cuDeviceGet(&device_, ordinal), "getting a device");
  check(cuda.cuDeviceGetUuid_v2(&uuid_, device_), "reading a device's UUID");
  check(cuda.cuDevicePrimaryCtxRetain(&context_, device_), "retaining a device's primary context");
}

PrimaryContext::~PrimaryContext() { (void)driver().cuDevicePrimaryCtxRelease_v2(device_); }

}  // namespace nvrar::cuda
