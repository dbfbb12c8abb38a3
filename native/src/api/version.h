#ifndef NVRAR_API_VERSION_H
#define NVRAR_API_VERSION_H

#include <cstdint>

namespace nvrar {

const char* build_id() noexcept;
uint32_t abi_version() noexcept;

}  // namespace nvrar

#endif  // NVRAR_API_VERSION_H
