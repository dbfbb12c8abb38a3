// The transfers of one batch as the caller gave them: their checks, and their records.
#ifndef NVRAR_BATCH_H
#define NVRAR_BATCH_H

#include <nvrar.h>

#include <cstdint>

namespace nvrar {

// Throws NVRAR_INVALID_ARGUMENT with the reason; a batch that passes touches only memory that the caller named, and
// every send to oneself has its recv.
void check_batch(const nvrar_transfer* transfers, uint32_t count, uint32_t rank, uint32_t world);

}  // namespace nvrar

#endif  // NVRAR_BATCH_H
