// Looks at a member as a process does that is in no group.
#ifndef NVRAR_TEST_SUPPORT_LOOK_H
#define NVRAR_TEST_SUPPORT_LOOK_H

#include <nvrar.h>

#include <string>
#include <vector>

namespace nvrar::test {

// What nvrar_look_at gives.
struct Look {
  nvrar_status status = NVRAR_INTERNAL;
  std::string error;
  std::vector<nvrar_call> calls;
  uint64_t begun = 0;
  nvrar_status failure = NVRAR_INTERNAL;
};

inline Look look_at(const void* descriptor, uint32_t capacity = NVRAR_FLIGHT_RECORDS) {
  Look look;
  look.calls.resize(capacity);
  if (capacity != 0) look.calls[0].size = sizeof(nvrar_call);
  uint32_t count = 0;
  look.status = nvrar_look_at(static_cast<const uint8_t*>(descriptor), look.calls.data(), capacity, &count, &look.begun,
                              &look.failure);
  if (look.status != NVRAR_OK) look.error = nvrar_last_error();
  look.calls.resize(count);
  return look;
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_LOOK_H
