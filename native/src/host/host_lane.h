// The Lane of the CPU backend (protocol/launch.h says what a Lane is): one thread of one rank, peers' rings mapped.
#ifndef NVRAR_HOST_HOST_LANE_H
#define NVRAR_HOST_HOST_LANE_H

#include <cstring>

#include "host/control_block.h"
#include "host/packet_access.h"
#include "host/vector_elements.h"
#include "host/waiter.h"
#include "protocol/launch.h"

namespace nvrar::host {

struct MappedRank {
  ControlBlock* control = nullptr;
  protocol::Packet* rings = nullptr;
  uint64_t rings_name = 0;  // announce_packet_sent
};

class HostLane {
 public:
  using Packet = protocol::Packet;
  template <class Element, class Op>
  using Accumulator = VectorAccumulator<Element, Op>;

  HostLane(const MappedRank* ranks, uint32_t rank, uint32_t world, Waiter* waiter) noexcept
      : ranks_(ranks), rank_(rank), world_(world), own_rings_(ranks[rank].rings), waiter_(waiter) {}

  NVRAR_HD void put(uint32_t peer, uint64_t slot, Packet packet) {
#if defined(NVRAR_TEST_ADVERSE)  // a stall within a phase, so that packets of one phase arrive far apart
    if (++test_puts_ % 509 == 0) ::sched_yield();
#endif
    announce_packet_sent(ranks_[peer].rings_name + slot * protocol::kPacketBytes);
    store_packet(ranks_[peer].rings + slot, packet);
  }

  template <class Packets>
  NVRAR_HD bool take(uint64_t slot, uint32_t source, uint64_t epoch, Packet* packet) {
    Packet* const own = own_rings_ + slot;
    *packet = load_packet(own);
    if (!Packets::arrived(*packet, epoch)) [[unlikely]] {
      if (!wait<Packets>(own, source, epoch)) return false;
      *packet = load_packet(own);
    }
    announce_packet_taken(ranks_[rank_].rings_name + slot * protocol::kPacketBytes);
#if !defined(NVRAR_TEST_KEEP_SLOTS)  // a negative control: without this, ring reuse must show as wrong sums
    if constexpr (Packets::kMustClear) store_packet(own, Packets::empty());
#endif
    return true;
  }

  template <uint32_t kBytes>
  NVRAR_HD Packet load(const uint8_t* from) {
    Packet packet{};
    __builtin_memcpy(&packet, from, kBytes);
    return packet;
  }
  template <uint32_t kBytes>
  NVRAR_HD void store(uint8_t* to, Packet packet) {
    __builtin_memcpy(to, &packet, kBytes);
  }
  Packet load_part(const uint8_t* from, uint32_t bytes) {
    Packet packet{};
    std::memcpy(&packet, from, bytes);
    return packet;
  }
  void store_part(uint8_t* to, Packet packet, uint32_t bytes) { std::memcpy(to, &packet, bytes); }
  void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (to != from && bytes != 0) std::memcpy(to, from, bytes);
  }

  void sent() {
    full_fence();
    for (uint32_t hop = 1; hop < world_; ++hop) wake_if_asleep(*ranks_[(rank_ + hop) % world_].control);
  }
  void differ(uint32_t source) { differing_ |= static_cast<uint8_t>(1u << source); }

  uint8_t differing() const noexcept { return differing_; }
  WaitResult result() const noexcept { return result_; }
  uint32_t waiting_for() const noexcept { return waiting_for_; }

 private:
  template <class Packets>
  __attribute__((noinline)) bool wait(const Packet* slot, uint32_t source, uint64_t epoch) {
    result_ = waiter_->wait([&] { return Packets::arrived(load_packet(slot), epoch); });
    waiting_for_ = source;
    return result_ == WaitResult::kArrived;
  }

  const MappedRank* ranks_;
  uint32_t rank_;
  uint32_t world_;
  Packet* own_rings_;
  Waiter* waiter_;
  uint8_t differing_ = 0;
  WaitResult result_ = WaitResult::kArrived;
  uint32_t waiting_for_ = 0;
#if defined(NVRAR_TEST_ADVERSE)
  uint32_t test_puts_ = 0;
#endif
};

}  // namespace nvrar::host

#endif  // NVRAR_HOST_HOST_LANE_H
