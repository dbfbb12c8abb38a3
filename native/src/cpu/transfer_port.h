// The Port of point-to-point on the CPU (described in protocol/point_to_point.h).
#ifndef NVRAR_CPU_TRANSFER_PORT_H
#define NVRAR_CPU_TRANSFER_PORT_H

#include <sched.h>

#include <cstring>

#include "cpu/cpu_port.h"
#include "cpu/waiter.h"
#include "protocol/point_to_point.h"
#include "shared/doorbell.h"
#include "shared/packet_access.h"

namespace nvrar::cpu {

class TransferPort {
 public:
  TransferPort(const MappedRank* ranks, uint32_t rank) noexcept : ranks_(ranks), own_(ranks[rank]) {}

  NVRAR_HD void put(uint32_t peer, uint64_t slot, uint64_t payload, uint64_t epoch) {
#if defined(NVRAR_TEST_ADVERSE)  // a stall within a step, so that its packets arrive far apart
    if (++test_puts_ % 509 == 0) ::sched_yield();
#endif
    if (ranks_[peer].link != nullptr) [[unlikely]] {
      ranks_[peer].link->put_numbered(slot, payload, epoch);
      return;
    }
    shared::announce_packet_sent(ranks_[peer].rings_name + slot * protocol::kPacketBytes);
    shared::store_packet(ranks_[peer].rings + slot, reinterpret_cast<protocol::Packet>(Words{payload, epoch}));
  }
  NVRAR_HD protocol::WordPacket look(uint64_t slot) {
    const Words words = reinterpret_cast<Words>(shared::load_packet(own_.rings + slot));
    return {words[0], words[1]};
  }
  NVRAR_HD void took(uint64_t slot) { shared::announce_packet_taken(own_.rings_name + slot * protocol::kPacketBytes); }

  NVRAR_HD uint64_t load(const uint8_t* from) {
    uint64_t word;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
  }
  uint64_t load_part(const uint8_t* from, uint32_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
  }
  NVRAR_HD void store(uint8_t* to, uint64_t word) { __builtin_memcpy(to, &word, sizeof word); }
  void store_part(uint8_t* to, uint64_t word, uint32_t bytes) { std::memcpy(to, &word, bytes); }

  // Called after the last put of a step.
  void wake(uint32_t peer) {
    if (ranks_[peer].link != nullptr) [[unlikely]] {
      ranks_[peer].link->flush();
      return;
    }
    shared::full_fence();
    shared::wake_if_asleep(*ranks_[peer].control);
  }

 private:
  typedef uint64_t Words __attribute__((vector_size(16)));

  const MappedRank* ranks_;
  MappedRank own_;
#if defined(NVRAR_TEST_ADVERSE)
  uint32_t test_puts_ = 0;
#endif
};

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_TRANSFER_PORT_H
