// All-gathers, all-to-alls and broadcasts by teams: the packets and slots of data_movement.h, but with one worker for
// each rank, as team.h has it for sums. A team moves a run of every part that its rank sends or receives, and then the
// next one. Worker k sends only to rank + k and takes only from rank + k, so it has one packet in flight in each
// direction; the worker of the own rank copies. No worker waits for another one of its rank. This is for parts of whole
// packets at addresses that are multiples of a packet's size. A rank whose buffers are not like that runs
// data_movement.h instead, and the other ranks need not know.
//
// The steps are templates on a Team. Runs of all sources are counted as in an area (FlatRuns), and fit into 32 bits.
//
//   uint32_t rank()
//   void each_tile(visit(uint32_t j))         the runs of a part that this team moves, in turn
//   void each_peer(visit(uint32_t peer)), void each_source(visit(uint32_t source))
//                                             as in team.h
//   void push(uint32_t peer, uint32_t place, uint32_t j)
//                                             sends run j of the peer's part to that place at the peer, with its mark
//                                             if it needs one
//   bool drain(uint32_t source, uint32_t place, uint32_t j)
//                                             waits for run j of the source's part in that place, empties its slots and
//                                             stores it; false: the launch has failed
//   void copy(uint32_t j)                     copies run j of the own part
#ifndef NVRAR_PROTOCOL_TEAM_MOVE_H
#define NVRAR_PROTOCOL_TEAM_MOVE_H

#include "protocol/data_movement.h"

namespace nvrar::protocol {

template <class Team>
NVRAR_HD void send_parts(Team& team, const FlatRuns& runs, const Parts& parts) {
  if (!parts.sends()) return;
  team.each_tile(
      [&](uint32_t j) { team.each_peer([&](uint32_t peer) { team.push(peer, runs.data_run(j, team.rank()), j); }); });
}

// Called after all sends. A worker whose launch has failed stores no more.
template <class Team>
NVRAR_HD bool take_parts(Team& team, const FlatRuns& runs, const Parts& parts) {
  bool good = true;
  team.each_tile([&](uint32_t j) {
    team.each_source([&](uint32_t source) {
      if (!good || !parts.takes_from(source)) return;
      if (source == team.rank()) {
        team.copy(j);
      } else {
        good = team.drain(source, runs.data_run(j, source), j);
      }
    });
  });
  return good;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TEAM_MOVE_H
