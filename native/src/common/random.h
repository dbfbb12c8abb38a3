// Random bytes from the operating system, for values that no other process may guess or have by chance.
#ifndef NVRAR_COMMON_RANDOM_H
#define NVRAR_COMMON_RANDOM_H

#include <cstddef>

namespace nvrar {

void random_bytes(void* to, size_t bytes);  // throws NVRAR_SYSTEM

}  // namespace nvrar

#endif  // NVRAR_COMMON_RANDOM_H
