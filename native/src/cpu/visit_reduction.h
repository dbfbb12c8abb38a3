// Maps the codes of the C ABI to the element types and operators of protocol/element.h.
#ifndef NVRAR_CPU_VISIT_REDUCTION_H
#define NVRAR_CPU_VISIT_REDUCTION_H

#include <nvrar.h>

#include "protocol/element_types.h"

namespace nvrar::cpu {

// Returns visit.operator()<Element, Op>(). The codes must have passed check_call.
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
#define NVRAR_VISIT(code, name, element, ...) \
  case code:                                  \
    return visit_op<protocol::element>(op, visit);
    NVRAR_ELEMENT_TYPES(NVRAR_VISIT)
#undef NVRAR_VISIT
    default:
      return visit_op<protocol::Float32>(op, visit);  // unreachable: no other code passes check_call
  }
}

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_VISIT_REDUCTION_H
