// How a rank that sleeps is woken, and how it sleeps: a futex word in its own control block, which peers ring.
#ifndef NVRAR_CONTROL_DOORBELL_H
#define NVRAR_CONTROL_DOORBELL_H

#include <cstdint>

#include "control/control_block.h"

namespace nvrar::control {

// After the last packet of a phase; costs a system call only if the peer sleeps. The caller has ordered its packets
// before this look.
void wake_if_asleep(ControlBlock& peer) noexcept;
// After a poison word: whether or not it sleeps.
void wake(ControlBlock& peer) noexcept;

// Until somebody rings who had not rung when the doorbell was `seen`, or the time is over, or for no reason at all.
void sleep_on_doorbell(ControlBlock& own, uint32_t seen, uint64_t at_most_ns) noexcept;

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_DOORBELL_H
