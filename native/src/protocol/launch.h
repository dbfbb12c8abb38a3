// What one launch is given. The steps in this folder are templates on a Lane, the port to a backend:
//
//   void put(uint32_t peer, uint64_t slot, Packet)            one atomic 16-byte store into the peer's rings
//   bool take<Packets>(uint64_t slot, uint32_t source, uint64_t epoch, Packet*)
//                                                             waits for the packet in an own slot, empties the slot
//                                                             where its kind asks for it; false: leave at once, nothing
//                                                             is a result
//   Packet load<bytes>(const uint8_t*), load_part(const uint8_t*, bytes)     user memory at any alignment
//   void store<bytes>(uint8_t*, Packet), store_part(uint8_t*, Packet, bytes)
//   void copy(uint8_t* to, const uint8_t* from, uint64_t bytes)
//   Accumulator<Element, Op>                                  of one vector, i.e. of all elements of one packet's
//   payload:
//     Accumulator(Packet), combine(Packet)                    elements, widened
//     combine(const Accumulator&)                             another's partial result, as where nodes' sums are added
//     kPartialPackets, partial(i) -> Packet,                  the partial result in the accumulator's type, to be
//     sealed of_partials(const Packet*) -> Accumulator               as packets of the kind that the elements came in:
//     an epoch
//                                                             packet's elements stand in the first 8 bytes of each. How
//                                                             elements lie in them is the lane's own
//     finish(uint32_t world) -> Packet                        AVG's division by world, and the one rounding
//   void sent()                                               all packets of a phase are on their way: wake who sleeps
//   void differ(uint32_t source)                              that rank's header is of another call
#ifndef NVRAR_PROTOCOL_LAUNCH_H
#define NVRAR_PROTOCOL_LAUNCH_H

#include "protocol/ring_layout.h"

namespace nvrar::protocol {

struct Launch {
  RingLayout layout;
  uint32_t rank;
  uint64_t epoch;        // the first of a group is 1
  uint32_t header_hash;  // call_header.h
  uint32_t root;         // broadcast
  const uint8_t* send;
  uint8_t* recv;
  uint64_t bytes;              // payload that one source contributes to this launch
  uint64_t recv_stride_bytes;  // all-gather: from one source's result to the next one's
};

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_LAUNCH_H
