// Structs of the C ABI. New fields are added at their end, and each struct begins with its size in the caller's header.
// A field that an older caller does not have is read as 0; bytes that only a newer caller has must be 0, or the call
// fails.
#ifndef NVRAR_COMMON_ABI_STRUCT_H
#define NVRAR_COMMON_ABI_STRUCT_H

#include <nvrar.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/error.h"

namespace nvrar {

// The size of each struct's first version; no caller's struct is smaller.
template <class Struct>
constexpr uint32_t kFirstBytes = 0;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_config> = 72;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_tuning_rule> = 32;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_transfer> = 32;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_call> = 80;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_failure> = 32;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_link> = 136;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_statistics> = 416;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_wait> = 24;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_fused_all_reduce> = 80;
template <>
inline constexpr uint32_t kFirstBytes<nvrar_selection> = 56;

// Padding would hold what the caller had there before.
template <class Struct>
constexpr bool kHasNoPadding = std::has_unique_object_representations_v<Struct>;
// A float's zeros have two representations, so here the fields are counted.
template <>
inline constexpr bool kHasNoPadding<nvrar_fused_all_reduce> = sizeof(nvrar_fused_all_reduce) ==
                                                              8 * sizeof(uint32_t) + 6 * sizeof(uint64_t);

// No header will ever define a larger struct, so a larger size means that the caller did not set it.
constexpr uint32_t kMostStructBytes = 4096;

template <class Struct>
void check_struct_size(const std::string& name, uint32_t size) {
  static_assert(kHasNoPadding<Struct>);
  static_assert(kFirstBytes<Struct> != 0 && kFirstBytes<Struct> <= sizeof(Struct) && offsetof(Struct, size) == 0);
  if (size >= kFirstBytes<Struct> && size <= kMostStructBytes) return;
  throw Error(NVRAR_INVALID_ARGUMENT, name + ".size is " + std::to_string(size) + ", not one between " +
                                          std::to_string(kFirstBytes<Struct>) + " and " +
                                          std::to_string(kMostStructBytes) + ": set it to sizeof the struct");
}

// Copies the caller's struct into this library's version of it. Throws NVRAR_INVALID_ARGUMENT.
template <class Struct>
Struct take_struct(const void* given, const std::string& name) {
  uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  check_struct_size<Struct>(name, size);
  const auto* const bytes = static_cast<const uint8_t*>(given);
  if (size > sizeof(Struct) && std::any_of(bytes + sizeof(Struct), bytes + size, [](uint8_t b) { return b != 0; })) {
    throw Error(NVRAR_INVALID_ARGUMENT, name + " sets a field that this library does not know: it has " +
                                            std::to_string(size) + " bytes, this library's struct " +
                                            std::to_string(sizeof(Struct)));
  }
  Struct taken{};
  std::memcpy(&taken, given, std::min<size_t>(size, sizeof taken));
  taken.size = sizeof taken;
  return taken;
}

// The same for an array, whose element size is the size in its first struct. Returns the caller's array if its structs
// have this library's size; otherwise copies them to `room` and returns that.
template <class Struct>
std::span<const Struct> take_structs(const Struct* given, uint32_t count, const std::string& name,
                                     std::vector<Struct>* room) {
  if (count == 0) return {};
  const uint32_t size = given->size;
  check_struct_size<Struct>(name + "[0]", size);
  const auto at = [&](uint32_t i) { return reinterpret_cast<const uint8_t*>(given) + size_t{i} * size; };
  for (uint32_t i = 1; i < count; ++i) {
    uint32_t other = 0;
    std::memcpy(&other, at(i), sizeof other);
    if (other == size) [[likely]]
      continue;
    throw Error(NVRAR_INVALID_ARGUMENT, name + "[" + std::to_string(i) + "].size is " + std::to_string(other) +
                                            ", that of the first is " + std::to_string(size));
  }
  if (size == sizeof(Struct)) [[likely]]
    return {given, count};
  room->reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    room->push_back(take_struct<Struct>(at(i), name + "[" + std::to_string(i) + "]"));
  }
  return *room;
}

// Writes as much as fits into the caller's struct, whose size has passed check_struct_size, and sets its size to that.
template <class Struct>
void give_struct(void* out, uint32_t size, Struct value) noexcept {
  value.size = std::min<uint32_t>(size, sizeof value);
  std::memcpy(out, &value, value.size);
}

}  // namespace nvrar

#endif  // NVRAR_COMMON_ABI_STRUCT_H
