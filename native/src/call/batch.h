// The checks of a batch's transfers as the caller passed them, and the result of a batch.
#ifndef NVRAR_CALL_BATCH_H
#define NVRAR_CALL_BATCH_H

#include <nvrar.h>

#include <cstdint>
#include <vector>

#include "call/call.h"
#include "common/rank_set.h"
#include "protocol/point_to_point.h"

namespace nvrar {

// What a check needs, kept from batch to batch, because a call allocates nothing once it has had one like it.
struct BatchBuffer {
  Range range;
  uint32_t index;
};
using BatchRoom = std::vector<BatchBuffer>;

// Throws NVRAR_INVALID_ARGUMENT with the reason. A batch that passes accesses only memory that the caller named, and
// each send to the own rank has its recv.
void check_batch(const nvrar_transfer* transfers, uint32_t count, uint32_t rank, uint32_t world, BatchRoom* room);

struct BatchResult {
  nvrar_status status = NVRAR_OK;     // NVRAR_ABORTED: the poison says why
  RankSet ranks{};                    // that were missing (NVRAR_TIMEOUT) or made a different transfer (NVRAR_MISMATCH)
  nvrar_call call{};                  // the transfer that failed, or the first that had not completed
  protocol::TransferHeader theirs{};  // NVRAR_MISMATCH: the header that was received
};

}  // namespace nvrar

#endif  // NVRAR_CALL_BATCH_H
