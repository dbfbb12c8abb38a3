// What the host knows of an element type, by its code in the C ABI. Generated from the rows of
// protocol/element_types.h.
#ifndef NVRAR_CALL_ELEMENT_TYPE_H
#define NVRAR_CALL_ELEMENT_TYPE_H

#include <nvrar.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "protocol/element_types.h"

namespace nvrar {

struct ElementType {
  const char* name = nullptr;  // null: no type has this code
  uint32_t bytes = 0;
  bool is_float = false;
  uint32_t partial_parts = 0;  // packets for the partial sums of one packet of elements
  protocol::PacketKind sum_packets = protocol::PacketKind::kEpoch;
  const char* sum_source = nullptr;  // the source of its sum kernels
  bool in_teams = false;             // whether it has kernels that work in teams
};

template <class Element, class Packets>
constexpr ElementType make_element_type(const char* name, const char* sum_source, bool in_teams) noexcept {
  if constexpr (Packets::kKind == protocol::PacketKind::kSentinel) {
    static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");
  }
  return {name,           Element::kBytes, Element::kFloat, protocol::kPartialParts<Element>,
          Packets::kKind, sum_source,      in_teams};
}

#define NVRAR_CODE(code, ...) int32_t{code},
constexpr int32_t kElementCodes = std::max({NVRAR_ELEMENT_TYPES(NVRAR_CODE)}) + 1;  // every code is less than this
#undef NVRAR_CODE

// Indexed by code.
constexpr std::array<ElementType, kElementCodes> kElementTypes = [] {
  std::array<ElementType, kElementCodes> types{};
#define NVRAR_TYPE(code, name, element, packets, source, in_teams) \
  types[code] = make_element_type<protocol::element, protocol::packets>(#name, #source, in_teams);
  NVRAR_ELEMENT_TYPES(NVRAR_TYPE)
#undef NVRAR_TYPE
  return types;
}();

// For a code that does not exist: no name and 0 bytes.
constexpr ElementType element_type(int32_t data_type) noexcept {
  return data_type >= 0 && data_type < kElementCodes ? kElementTypes[static_cast<size_t>(data_type)] : ElementType{};
}

constexpr uint32_t element_bytes(int32_t data_type) noexcept { return element_type(data_type).bytes; }

}  // namespace nvrar

#endif  // NVRAR_CALL_ELEMENT_TYPE_H
