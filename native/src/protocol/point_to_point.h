// Transfers from one rank to another (protocol.md 16): the steps at the two ends of an ordered pair.
//
// The packets of a pair are numbered consecutively for as long as the group lives. Packet n lies in slot n % slots of a
// ring in the receiver's memory, which only the sender writes, and carries n + 1 as its epoch. So it validates itself,
// and an older packet in the slot is never mistaken for it. The receiver writes its credit, which is the number of
// packets that it has read, into a slot of the sender's memory; the sender writes a slot only if the credit shows the
// slot's former packet as read. A transfer consists of two header packets and its data.
//
// Each step moves what can be moved now and returns, so that one thread can make progress on all transfers of a batch.
// Packets are epoch packets, which a Port here handles as two words:
//
//   void put(uint32_t peer, uint64_t slot, uint64_t payload, uint64_t epoch)
//                                      one atomic 16-byte store into the peer's rings, ordered after all earlier calls
//                                      of look
//   WordPacket look(uint64_t slot)     the current content of an own slot
//   void took(uint64_t slot)           the packet that look returned is the expected one
//   uint64_t load(const uint8_t*), load_part(const uint8_t*, bytes)     up to 8 bytes of user memory at any alignment
//   void store(uint8_t*, uint64_t), store_part(uint8_t*, uint64_t, bytes)
#ifndef NVRAR_PROTOCOL_POINT_TO_POINT_H
#define NVRAR_PROTOCOL_POINT_TO_POINT_H

#include "protocol/ring_layout.h"

namespace nvrar::protocol {

struct WordPacket {
  uint64_t payload;
  uint64_t epoch;
};
static_assert(EpochPacket::kPayloadBytes == sizeof(uint64_t), "a payload is one word");

struct TransferHeader {
  static constexpr uint64_t kPackets = 2;

  uint64_t count;
  uint32_t sequence;  // the low bits of the transfer's number within its pair
  int32_t data_type;

  NVRAR_HD uint64_t word(uint64_t i) const {
    return i == 0 ? count : sequence | uint64_t{static_cast<uint32_t>(data_type)} << 32;
  }
  NVRAR_HD void take(uint64_t i, uint64_t word) {
    if (i == 0) {
      count = word;
    } else {
      sequence = static_cast<uint32_t>(word);
      data_type = static_cast<int32_t>(word >> 32);
    }
  }
  NVRAR_HD bool operator==(const TransferHeader& other) const {
    return count == other.count && sequence == other.sequence && data_type == other.data_type;
  }
};

// One end of an ordered pair.
struct PairEnd {
  uint32_t peer;
  uint64_t ring;    // first slot of the ring, in the receiver's memory
  uint64_t slots;   // size of the ring
  uint64_t credit;  // slot of the credit, in the sender's memory

  uint64_t packets;    // sent or read so far
  uint64_t credited;   // packets known to be read: what the receiver has reported as credit
  uint64_t transfers;  // begun so far
};

struct Transfer {
  TransferHeader header;
  TransferHeader theirs;  // a recv's header as received
  uint64_t address;
  uint64_t bytes;
  uint64_t moved;  // packets moved so far, including the headers

  NVRAR_HD uint64_t packets() const {
    return TransferHeader::kPackets + (bytes + EpochPacket::kPayloadBytes - 1) / EpochPacket::kPayloadBytes;
  }
  NVRAR_HD bool complete() const { return moved == packets(); }
};

enum class Step {
  kNothing,  // nothing can move yet
  kMoved,    // some packets have moved, perhaps all
  kDiffers,  // the received header is of another transfer than this one
  kOverrun   // a packet was overwritten before it was read
};

// A step moves at most this fraction of a ring, so that the other end can work on the rest meanwhile, and so that no
// transfer delays the others of its batch. A receiver reports credit once it owes this much, so a sender with a full
// ring always gets credit. It also reports all credit at the end of a transfer, so that the next transfer finds the
// ring empty.
constexpr uint64_t kStepsPerRing = 4;

NVRAR_HD uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

// The number of slots known to be free; reads the credit if none are.
template <class Port>
NVRAR_HD uint64_t room(Port& port, PairEnd& end) {
  if (planted(Defect::kIgnoredCredit)) return end.slots;
  if (end.packets - end.credited == end.slots) end.credited = port.look(end.credit).payload;
  return end.slots - (end.packets - end.credited);
}

// The payload of packet i.
template <class Port>
NVRAR_HD uint64_t load_payload(Port& port, const Transfer& transfer, uint64_t i) {
  constexpr uint32_t kBytes = EpochPacket::kPayloadBytes;
  if (i < TransferHeader::kPackets) return transfer.header.word(i);
  const uint64_t offset_bytes = (i - TransferHeader::kPackets) * kBytes;
  const uint8_t* from = reinterpret_cast<const uint8_t*>(transfer.address + offset_bytes);
  const uint64_t left_bytes = transfer.bytes - offset_bytes;
  return left_bytes >= kBytes ? port.load(from) : port.load_part(from, static_cast<uint32_t>(left_bytes));
}

template <class Port>
NVRAR_HD Step push(Port& port, PairEnd& end, Transfer& transfer) {
  const uint64_t left = smaller(transfer.packets() - transfer.moved, end.slots / kStepsPerRing);
  const uint64_t count = smaller(left, room(port, end));
  if (count == 0) return Step::kNothing;
  const uint64_t first = end.packets % end.slots;
  for (uint64_t n = 0; n < count; ++n) {
#if defined(NVRAR_TEST_ADVERSE)  // backwards: nothing may depend on the order in which packets arrive
    const uint64_t i = count - 1 - n;
#else
    const uint64_t i = n;
#endif
    const uint64_t slot = first + i < end.slots ? first + i : first + i - end.slots;
    port.put(end.peer, end.ring + slot, load_payload(port, transfer, transfer.moved + i), end.packets + i + 1);
  }
  end.packets += count;
  transfer.moved += count;
  return Step::kMoved;
}

template <class Port>
NVRAR_HD void store_payload(Port& port, const Transfer& transfer, uint64_t i, uint64_t payload) {
  constexpr uint32_t kBytes = EpochPacket::kPayloadBytes;
  const uint64_t offset_bytes = (i - TransferHeader::kPackets) * kBytes;
  uint8_t* to = reinterpret_cast<uint8_t*>(transfer.address + offset_bytes);
  const uint64_t left_bytes = transfer.bytes - offset_bytes;
  if (left_bytes >= kBytes) {
    port.store(to, payload);
  } else {
    port.store_part(to, payload, static_cast<uint32_t>(left_bytes));
  }
}

template <class Port>
NVRAR_HD Step pull(Port& port, PairEnd& end, Transfer& transfer) {
  const uint64_t limit = smaller(transfer.packets() - transfer.moved, end.slots / kStepsPerRing);
  uint64_t slot = end.packets % end.slots;
  uint64_t count = 0;
  for (; count < limit; ++count) {
    const uint64_t epoch = end.packets + count + 1;
    const WordPacket packet = port.look(end.ring + slot);
    if (packet.epoch > epoch) return Step::kOverrun;
    if (packet.epoch != epoch) break;
    port.took(end.ring + slot);
    const uint64_t i = transfer.moved + count;
    if (i >= TransferHeader::kPackets) {
      store_payload(port, transfer, i, packet.payload);
    } else {
      transfer.theirs.take(i, packet.payload);
      if (i + 1 == TransferHeader::kPackets && !(transfer.theirs == transfer.header)) return Step::kDiffers;
    }
    if (++slot == end.slots) slot = 0;
  }
  if (count == 0) return Step::kNothing;
  end.packets += count;
  transfer.moved += count;
  if (end.packets - end.credited >= end.slots / kStepsPerRing || transfer.complete()) {
    port.put(end.peer, end.credit, end.packets, end.packets);
    end.credited = end.packets;
  }
  return Step::kMoved;
}

// Whether a step could make progress.
template <class Port>
NVRAR_HD bool can_push(Port& port, PairEnd& end) {
  return room(port, end) != 0;
}
template <class Port>
NVRAR_HD bool can_pull(Port& port, const PairEnd& end) {
  return port.look(end.ring + end.packets % end.slots).epoch > end.packets;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_POINT_TO_POINT_H
