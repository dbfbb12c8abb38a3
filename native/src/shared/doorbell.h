// Sleeping and waking of ranks, by a futex word in the sleeper's control block.
#ifndef NVRAR_SHARED_DOORBELL_H
#define NVRAR_SHARED_DOORBELL_H

#include <cstdint>

#include "shared/control_block.h"

namespace nvrar::shared {

// Called after the last packet of a phase. It costs a system call only if the peer sleeps. The caller must have ordered
// its packets before this call.
void wake_if_asleep(ControlBlock& peer) noexcept;
// Called after writing a poison word; wakes the peer whether or not it is marked as sleeping.
void wake(ControlBlock& peer) noexcept;

// Sleeps until the doorbell is rung after it had the value `seen`, or the time is over. May also wake spuriously.
void sleep_on_doorbell(ControlBlock& own, uint32_t seen, uint64_t at_most_ns) noexcept;

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_DOORBELL_H
