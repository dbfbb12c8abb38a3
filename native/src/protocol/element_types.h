// The table of element types. A type's row and its element hold all that the library knows of the type; the kernels,
// the CPU's reductions and the host's queries (call/element_type.h) are generated from the rows.
#ifndef NVRAR_PROTOCOL_ELEMENT_TYPES_H
#define NVRAR_PROTOCOL_ELEMENT_TYPES_H

#include <nvrar.h>

#include "protocol/element.h"
#include "protocol/packet.h"

// X(code, name, element, packets, source, in_teams)
//   code      in the C ABI
//   name      in messages and in the names of kernels
//   element   its bits and its arithmetic (element.h)
//   packets   the packet kind that its sums use
//   source    the source in cuda/kernels/steps/ of the kernels for any of its sums
//   in_teams  whether cuda/kernels/allreduce/team_<name>.cu has faster kernels, too
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
