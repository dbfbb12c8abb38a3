// Creates structs of the C ABI.
#ifndef NVRAR_TEST_SUPPORT_ABI_H
#define NVRAR_TEST_SUPPORT_ABI_H

#include <nvrar.h>

namespace nvrar::test {

inline nvrar_transfer send_to(int32_t peer, uint64_t address, uint64_t count, int32_t type = NVRAR_FLOAT32) {
  return {sizeof(nvrar_transfer), NVRAR_SEND, peer, type, address, count};
}
inline nvrar_transfer recv_from(int32_t peer, uint64_t address, uint64_t count, int32_t type = NVRAR_FLOAT32) {
  return {sizeof(nvrar_transfer), NVRAR_RECV, peer, type, address, count};
}
// A rule for any world size and any nodes.
inline nvrar_tuning_rule rule_of(int32_t type, int32_t algorithm, uint64_t bytes_max) {
  return {sizeof(nvrar_tuning_rule), type, 0, 0, algorithm, 0, bytes_max};
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_ABI_H
