#include "cpu/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "call/call.h"

namespace nvrar::cpu {

using protocol::Step;

PointToPoint::PointToPoint(const protocol::RingLayout& layout, uint32_t rank) : rank_(rank) {
  for (auto& queues : queues_) queues.resize(layout.topology.world);
  active_.resize(2 * size_t{layout.topology.world});
  for (uint32_t peer = 0; peer < layout.topology.world; ++peer) {
    for (const bool sends : {true, false}) {
      Queue& queue = queues_[sends ? 0 : 1][peer];
      queue.sends = sends;
      queue.end.peer = peer;
      queue.end.transfers = protocol::first_epoch() - 1;
      queue.end.slots = layout.transfer_ring_slots();
      queue.end.ring = layout.transfer_ring_begin(sends ? rank : peer);
      queue.end.credit = layout.credit_slot(sends ? peer : rank);
    }
  }
}

void PointToPoint::append(Queue& queue, uint32_t item) noexcept {
  items_[item].next = kNone;
  if (queue.first == kNone) {
    queue.first = item;
  } else {
    items_[queue.last].next = item;
  }
  queue.last = item;
}

void PointToPoint::begin(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence) {
  items_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const nvrar_transfer& given = transfers[i];
    Queue& queue = queues_[given.kind == NVRAR_SEND ? 0 : 1][static_cast<uint32_t>(given.peer)];
    const uint64_t sequence = ++queue.end.transfers;
    Item& item = items_[i];
    item.transfer = {};
    item.transfer.header = {given.count, static_cast<uint32_t>(sequence), given.data_type};
    item.transfer.address = given.address;
    item.transfer.bytes = given.count * element_bytes(given.data_type);
    item.call = {};
    item.call.size = sizeof item.call;
    item.call.sequence = sequence;
    item.call.group_sequence = group_sequence;
    item.call.count = given.count;
    item.call.collective = given.kind;
    item.call.data_type = given.data_type;
    item.call.op = kNoOp;
    item.call.root = given.peer;
    item.call.transfers = count;
    item.call.launches = given.count == 0 ? 0 : 1;
    append(queue, i);
  }
}

void PointToPoint::copy_own(shared::FlightRecord& flight) noexcept {
  Queue& sends = queues_[0][rank_];
  Queue& recvs = queues_[1][rank_];
  for (; sends.first != kNone; sends.first = items_[sends.first].next, recvs.first = items_[recvs.first].next) {
    const Item& from = items_[sends.first];
    const Item& to = items_[recvs.first];
    if (from.transfer.bytes != 0) {
      std::memcpy(reinterpret_cast<void*>(to.transfer.address), reinterpret_cast<const void*>(from.transfer.address),
                  from.transfer.bytes);
    }
    flight.begin(from.call, NVRAR_CALL_DONE);
    flight.begin(to.call, NVRAR_CALL_DONE);
  }
}

bool PointToPoint::begin_first(Queue& queue, shared::FlightRecord& flight) noexcept {
  for (; queue.first != kNone; queue.first = items_[queue.first].next) {
    Item& item = items_[queue.first];
    if (item.call.count != 0) {
      item.flight_number = flight.begin(item.call);
      return true;
    }
    flight.begin(item.call, NVRAR_CALL_DONE);  // sends nothing, but the numbers in later headers count it
  }
  return false;
}

Step PointToPoint::step(TransferPort& port, Queue& queue, shared::FlightRecord& flight) noexcept {
  Item& item = items_[queue.first];
  const Step step =
      queue.sends ? protocol::push(port, queue.end, item.transfer) : protocol::pull(port, queue.end, item.transfer);
  if (step != Step::kMoved) return step;
  port.wake(queue.end.peer);
  if (item.transfer.complete()) {
    flight.end(item.flight_number, NVRAR_CALL_DONE);
    queue.first = item.next;
  }
  return step;
}

bool PointToPoint::any_can_move(TransferPort& port) noexcept {
  return std::any_of(active_.data(), active_.data() + active_count_, [&](Queue* queue) {
    return queue->sends ? protocol::can_push(port, queue->end) : protocol::can_pull(port, queue->end);
  });
}

RankSet PointToPoint::active_peers() const noexcept {
  RankSet peers;
  for (uint32_t i = 0; i < active_count_; ++i) peers.add(active_[i]->end.peer);
  return peers;
}

BatchResult PointToPoint::run(TransferPort& port, Waiter& waiter, shared::ControlBlock& own) noexcept {
  shared::FlightRecord& flight = own.flight;
  copy_own(flight);
  active_count_ = 0;
  const auto world = static_cast<uint32_t>(queues_[0].size());
  for (uint32_t hop = 1; hop < world; ++hop) {  // so that not all ranks start with the same peer
    const uint32_t peer = rank_ + hop < world ? rank_ + hop : rank_ + hop - world;
    for (auto& queues : queues_) {
      Queue& queue = queues[peer];
      if (begin_first(queue, flight)) active_[active_count_++] = &queue;
    }
  }

  while (active_count_ != 0) {
    bool moved = false;
    for (uint32_t i = 0; i < active_count_;) {
      Queue& queue = *active_[i];
      const uint32_t item = queue.first;
      const Step step = this->step(port, queue, flight);
      if (step == Step::kDiffers) return fail(flight, NVRAR_MISMATCH, &queue);
      if (step == Step::kOverrun) return fail(flight, NVRAR_INTERNAL, &queue);
      moved = moved || step == Step::kMoved;
      if (queue.first == item || begin_first(queue, flight)) {
        ++i;
      } else {
        active_[i] = active_[--active_count_];
      }
    }
    if (active_count_ == 0) break;
    // A batch that never waits must detect an abort, too.
    if (own.poison.is_set()) return fail(flight, NVRAR_ABORTED, nullptr);
    if (moved) {
      waiter.look();
      waiter.restart();
      continue;
    }
    switch (waiter.wait_for_any([&] { return active_peers(); }, [&] { return any_can_move(port); })) {
      case WaitResult::kArrived:
        break;
      case WaitResult::kPoisoned:
        return fail(flight, NVRAR_ABORTED, nullptr);
      case WaitResult::kExpired:
        return fail(flight, NVRAR_TIMEOUT, nullptr);
    }
  }
  return {};
}

BatchResult PointToPoint::fail(shared::FlightRecord& flight, nvrar_status status, const Queue* queue) noexcept {
  BatchResult result;
  result.status = status;
  uint32_t failed = kNone;
  for (uint32_t i = 0; i < active_count_; ++i) {
    Queue& active = *active_[i];
    flight.end(items_[active.first].flight_number, NVRAR_CALL_FAILED);
    if (queue == nullptr) failed = std::min(failed, active.first);
  }
  if (queue == nullptr) {
    result.ranks = active_peers();
  } else {
    result.ranks = RankSet::of(queue->end.peer);
    failed = queue->first;
  }
  if (failed != kNone) {
    result.call = items_[failed].call;
    result.theirs = items_[failed].transfer.theirs;
  }
  return result;
}

}  // namespace nvrar::cpu
