// What a fused all-reduce does with the rows that it has summed: its arguments, their checks, and its name in messages.
#ifndef NVRAR_CALL_FUSION_H
#define NVRAR_CALL_FUSION_H

#include <nvrar.h>

#include "call/call.h"

namespace nvrar {

// The Call that it belongs to has the input (send), the output (recv), rows * hidden (count) and the type.
struct Fusion {
  int32_t form = 0;  // NVRAR_FUSION_*
  uint32_t rows = 0;
  uint32_t hidden = 0;
  float eps = 0;
  uint64_t residual = 0;
  uint64_t weight = 0;
  uint64_t residual_out = 0;
  uint64_t squares = 0;
};

// Throws NVRAR_INVALID_ARGUMENT if a reserved field is not 0; all else is checked with the call.
Fusion fusion_of(const nvrar_fused_all_reduce& given);
// The call refers to the fusion.
Call fused_call(const nvrar_fused_all_reduce& given, const Fusion& fusion);

// Of a call that has a fusion and whose codes are known to exist. Throws NVRAR_INVALID_ARGUMENT with the reason. A call
// that passes accesses only memory that the caller named.
void check_fusion(const Call& call);

// What follows the operator in the description of a call: " + residual + RMS norm".
std::string describe_form(int32_t form);

}  // namespace nvrar

#endif  // NVRAR_CALL_FUSION_H
