// From the codes of the C ABI to the element types and operators of protocol/element.h.
#ifndef NVRAR_CPU_VISIT_REDUCTION_H
#define NVRAR_CPU_VISIT_REDUCTION_H

#include <nvrar.h>

#include "protocol/element.h"

namespace nvrar::cpu {

// Returns visit.operator()<Element, Op>(). The codes have passed check_call.
template <class Element, class Visit>
auto visit_op(int32_t op, Visit visit) {
  switch (op) {
    case NVRAR_PRODUCT:
      return visit.template operator()<Element, protocol::Product>();
    case NVRAR_MAX:
      return visit.template operator()<Element, protocol::Max>();
    case NVRAR_MIN:
      return visit.template operator()<Element, protocol::Min>();
    default:
      if constexpr (Element::kFloat) {
        if (op == NVRAR_AVG) return visit.template operator()<Element, protocol::Avg>();
      }
      return visit.template operator()<Element, protocol::Sum>();
  }
}

template <class Visit>
auto visit_reduction(int32_t data_type, int32_t op, Visit visit) {
  switch (data_type) {
    case NVRAR_INT8:
      return visit_op<protocol::Int8>(op, visit);
    case NVRAR_UINT8:
      return visit_op<protocol::Uint8>(op, visit);
    case NVRAR_INT32:
      return visit_op<protocol::Int32>(op, visit);
    case NVRAR_INT64:
      return visit_op<protocol::Int64>(op, visit);
    case NVRAR_FLOAT16:
      return visit_op<protocol::Float16>(op, visit);
    case NVRAR_FLOAT64:
      return visit_op<protocol::Float64>(op, visit);
    case NVRAR_BFLOAT16:
      return visit_op<protocol::Bfloat16>(op, visit);
    default:
      return visit_op<protocol::Float32>(op, visit);
  }
}

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_VISIT_REDUCTION_H
