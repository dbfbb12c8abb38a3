// The table of element types. What the library knows of a type stands in its row, or follows from its element; kernels,
// the CPU's reductions and what the host asks for (call/element_type.h) are made from the rows.
#ifndef NVRAR_PROTOCOL_ELEMENT_TYPES_H
#define NVRAR_PROTOCOL_ELEMENT_TYPES_H

#include <nvrar.h>

#include "protocol/element.h"
#include "protocol/packet.h"

// X(code, name, element, packets, source, in_teams)
//   code      in the C ABI
//   name      in messages and in the names of kernels
//   element   its bits and its arithmetic (element.h)
//   packets   that its sums travel in
//   source    of cuda/kernels/, where the kernels for any of its sums are
//   in_teams  whether cuda/kernels/team_<name>.cu has quicker ones, too
#define NVRAR_INTEGER_TYPES(X)                                  \
  X(NVRAR_INT8, int8, Int8, EpochPacket, sum_integer, false)    \
  X(NVRAR_UINT8, uint8, Uint8, EpochPacket, sum_integer, false) \
  X(NVRAR_INT32, int32, Int32, EpochPacket, sum_integer, false) \
  X(NVRAR_INT64, int64, Int64, EpochPacket, sum_integer, false)
#define NVRAR_FLOAT_TYPES(X)                                             \
  X(NVRAR_FLOAT16, float16, Float16, SentinelPacket, sum_float, true)    \
  X(NVRAR_BFLOAT16, bfloat16, Bfloat16, SentinelPacket, sum_float, true) \
  X(NVRAR_FLOAT32, float32, Float32, SentinelPacket, sum_float, true)    \
  X(NVRAR_FLOAT64, float64, Float64, EpochPacket, sum_float, false)
#define NVRAR_ELEMENT_TYPES(X) NVRAR_INTEGER_TYPES(X) NVRAR_FLOAT_TYPES(X)

#endif  // NVRAR_PROTOCOL_ELEMENT_TYPES_H
