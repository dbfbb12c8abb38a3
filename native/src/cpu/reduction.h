// The arithmetic of one reduction, selected once per call by type and operator. Only these loops exist for each type
// and operator; the steps that call them do not depend on either.
#ifndef NVRAR_CPU_REDUCTION_H
#define NVRAR_CPU_REDUCTION_H

#include <cstdint>

#include "protocol/packet.h"
#include "protocol/topology.h"

namespace nvrar::cpu {

constexpr uint32_t kMaxPartialParts = 2;

// The sum of a run in the accumulator's type. Vector v has the packets from v * parts on.
struct alignas(64) Partial {
  protocol::Packet packets[protocol::kRunPackets * kMaxPartialParts];
};

// A vector is 16 bytes of elements. runs[i] and `to` may have any alignment; `to` may be one of the runs.
struct Reduction {
  uint32_t parts;  // packets of a vector's partial sum
  // Writes the combination of the runs, in their order and rounded, to `to`; AVG divides by world.
  void (*sum)(const uint8_t* const* runs, uint32_t count, uint32_t world, uint8_t* to, uint32_t vectors);
  void (*partial_sum)(const uint8_t* const* runs, uint32_t count, Partial* to, uint32_t vectors);
  // Combines two sums of nodes into the lower one.
  void (*combine)(Partial* lower, const Partial& upper, uint32_t vectors);
  // Writes the combination of up to kMaxRanks sums of nodes, level by level and rounded, to `to`.
  void (*finish)(const Partial* of_nodes, uint32_t nodes, uint32_t world, uint8_t* to, uint32_t vectors);
};

// The codes must have passed check_call.
const Reduction& reduction_of(int32_t data_type, int32_t op) noexcept;

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_REDUCTION_H
