// What a process that is in no group sees of a member on its host.
#ifndef NVRAR_API_ONLOOKER_H
#define NVRAR_API_ONLOOKER_H

#include <nvrar.h>

#include <cstdint>
#include <vector>

namespace nvrar {

struct Sight {
  uint64_t begun = 0;  // calls so far
  nvrar_status failure = NVRAR_OK;
  std::vector<nvrar_call> newest;  // oldest first
};

// descriptor: the member's, NVRAR_DESCRIPTOR_BYTES. Throws Error.
Sight look_at(const uint8_t* descriptor, uint32_t most_calls);

}  // namespace nvrar

#endif  // NVRAR_API_ONLOOKER_H
