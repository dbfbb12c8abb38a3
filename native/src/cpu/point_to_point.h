// Runs the transfers of a batch together in the calling thread, by the steps of protocol/point_to_point.h.
#ifndef NVRAR_CPU_POINT_TO_POINT_H
#define NVRAR_CPU_POINT_TO_POINT_H

#include <nvrar.h>

#include <array>
#include <cstdint>
#include <vector>

#include "call/batch.h"
#include "cpu/transfer_port.h"
#include "protocol/point_to_point.h"
#include "shared/flight_record.h"

namespace nvrar::cpu {

// One call at a time.
class PointToPoint {
 public:
  PointToPoint() = default;
  PointToPoint(const protocol::RingLayout& layout, uint32_t rank);

  // Queues a batch that has passed check_batch. If it throws std::bad_alloc, nothing has changed.
  void begin(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence);
  // Runs the batch until it completes or fails.
  BatchResult run(TransferPort& port, Waiter& waiter, shared::ControlBlock& own) noexcept;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Item {
    protocol::Transfer transfer;
    nvrar_call call;
    uint64_t flight_number;
    uint32_t next;  // in its queue
  };
  // The transfers with one peer in one direction, which keep their order.
  struct Queue {
    protocol::PairEnd end{};
    bool sends = false;
    uint32_t first = kNone;
    uint32_t last = kNone;
  };

  void append(Queue& queue, uint32_t item) noexcept;
  void copy_own(shared::FlightRecord& flight) noexcept;
  // Begins the queue's next transfer; returns false if there is none.
  bool begin_first(Queue& queue, shared::FlightRecord& flight) noexcept;
  protocol::Step step(TransferPort& port, Queue& queue, shared::FlightRecord& flight) noexcept;
  bool any_can_move(TransferPort& port) noexcept;
  RankSet active_peers() const noexcept;
  BatchResult fail(shared::FlightRecord& flight, nvrar_status status, const Queue* queue) noexcept;

  uint32_t rank_ = 0;
  std::array<std::vector<Queue>, 2> queues_;  // sends, recvs; by peer
  std::vector<Item> items_;
  std::vector<Queue*> active_;  // the first active_count_
  uint32_t active_count_ = 0;
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_POINT_TO_POINT_H
