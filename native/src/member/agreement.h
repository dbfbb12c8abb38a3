// What the members of a group must have in common, as far as their descriptors say it.
#ifndef NVRAR_MEMBER_AGREEMENT_H
#define NVRAR_MEMBER_AGREEMENT_H

#include "member/descriptor.h"

namespace nvrar {

// Throws NVRAR_MISMATCH, or NVRAR_UNAVAILABLE for GPUs on several hosts, with the first difference between the member
// of this rank and this member. The descriptors' magic numbers are right, and their texts end and can be printed.
void require_agreement(uint32_t rank, const Descriptor& peer, const Descriptor& own);

}  // namespace nvrar

#endif  // NVRAR_MEMBER_AGREEMENT_H
