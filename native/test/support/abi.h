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
  return {.size = sizeof(nvrar_tuning_rule),
          .data_type = type,
          .world_size = 0,
          .ranks_per_node = 0,
          .algorithm = algorithm,
          .collective = NVRAR_ALL_REDUCE,
          .bytes_max = bytes_max,
          .architecture = NVRAR_ARCHITECTURE_ANY,
          .blocks = 0,
          .threads = 0,
          .tiles = 0};
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_ABI_H
