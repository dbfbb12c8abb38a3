// The hash of everything that members compare.
#ifndef NVRAR_COMMON_HASH_H
#define NVRAR_COMMON_HASH_H

#include <cstddef>
#include <cstdint>

namespace nvrar {

inline uint64_t hash_bytes(const void* bytes, size_t size) noexcept {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const uint8_t*>(bytes)[i]) * 0x100000001B3ULL;
  return hash;
}

}  // namespace nvrar

#endif  // NVRAR_COMMON_HASH_H
