// All-reduces and reduce-scatters by teams: the packets, slots and order of sums of one_shot.h and two_shot.h, but with
// one worker for each rank. A team has as many workers as the group has ranks, and processes a tile at a time: one run
// of a one-shot message, or one run of each slice of a two-shot message. Worker k of a team sends only to rank + k and
// waits only for rank + k, so it has one packet in flight in each direction; the packets of all workers are gathered in
// the team's memory and summed there. (A worker that sends to all ranks and waits for all takes 0.4 to 0.8 us more per
// hop on a GPU.) This is for messages of whole packets at addresses that are multiples of a packet's size. A rank whose
// message is not like that runs one_shot.h or two_shot.h instead, and the other ranks need not know.
//
// The steps are templates on a Team. Slots are counted from the first slot of the launch's data, and fit into 32 bits.
//
//   uint32_t rank()
//   void each_tile(visit(uint32_t tile))      the tiles of this team, in turn
//   void each_peer(visit(uint32_t peer))      the worker's peer, or none for the worker of the own rank; if one thread
//                                             does the work of a whole team, all peers in turn
//   void each_source(visit(uint32_t source))  the same, but including the own rank
//   void push(uint32_t peer, uint32_t slot, uint32_t tile, uint32_t run)
//                                             sends a run of the own message into the peer's slots; in a
//                                             reduce-scatter, which is a one-shot otherwise, of the peer's part of it
//   bool gather(uint32_t source, uint32_t slot, uint32_t tile, uint32_t run, bool good)
//                                             if good, copies the source's contribution to a run to where it is summed,
//                                             out of own slots or the own message; false: the launch has failed
//   bool meet(bool good)                      a barrier of the team; returns whether all its workers are good
//   void sum(uint32_t run, bool good)         sums what was gathered; in one-shot, passes the result to the epilogue
//   void clear(uint32_t slot, uint32_t run)   empties the own slots of a run
//   void take_result()                        waits for the team's sum
//   void give_result(uint32_t to, uint32_t slot, uint32_t run)
//                                             sends the sum to a peer's slots or, if `to` is the own rank, passes it to
//                                             the epilogue
//   bool drain(uint32_t peer, uint32_t slot, uint32_t run)
//                                             waits for a run's result in own slots, passes it to the epilogue and
//                                             empties the slots
//   void next_tile(uint32_t tile)             called before the team's memory is reused
#ifndef NVRAR_PROTOCOL_TEAM_H
#define NVRAR_PROTOCOL_TEAM_H

#include "protocol/slices.h"

namespace nvrar::protocol {

// The runs and slots of a tile.
template <bool kTwoShot>
struct Tiles;

template <>
struct Tiles<false> {
  FlatRuns runs;
  NVRAR_HD uint32_t tile_bytes() const { return SentinelPacket::kRunBytes; }
  NVRAR_HD uint32_t run(uint32_t tile, uint32_t) const { return tile; }
  NVRAR_HD uint32_t run_for(uint32_t tile, uint32_t) const { return tile; }
  NVRAR_HD uint32_t data_slot(uint32_t tile, uint32_t source) const {
    return runs.data_run(tile, source) * kRunPackets;
  }
};

template <>
struct Tiles<true> {
  TwoShotRuns runs;
  NVRAR_HD uint32_t tile_bytes() const { return runs.topology.world * SentinelPacket::kRunBytes; }
  // The run that the owner sums, and the run that is sent to it (the same one, except for a planted defect).
  NVRAR_HD uint32_t run(uint32_t tile, uint32_t owner) const { return runs.run_of(tile, owner); }
  NVRAR_HD uint32_t run_for(uint32_t tile, uint32_t owner) const {
    const uint32_t world = runs.topology.world;
    return run(tile, planted(Defect::kNextOwner) ? (owner + world - 1) % world : owner);
  }
  NVRAR_HD uint32_t data_slot(uint32_t tile, uint32_t source) const {
    return runs.tile_data_run(tile, source) * kRunPackets;
  }
  NVRAR_HD uint32_t result_slot(const RingLayout& layout, uint32_t tile, uint32_t owner) const {
    return result_hop(layout) + runs.result_run(run(tile, owner)) * kRunPackets;
  }

 private:
  // The distance from a data slot to the result slot.
  static NVRAR_HD uint32_t result_hop(const RingLayout& layout) {
    if (planted(Defect::kSharedHops)) return 0;
    return static_cast<uint32_t>(layout.area_slots(PacketKind::kSentinel));
  }
};

template <bool kTwoShot, class Team>
NVRAR_HD void send_tiles(Team& team, const Tiles<kTwoShot>& tiles) {
  team.each_tile([&](uint32_t tile) {
    team.each_peer(
        [&](uint32_t peer) { team.push(peer, tiles.data_slot(tile, team.rank()), tile, tiles.run_for(tile, peer)); });
  });
}

// Called after the headers were sent. good: whether the headers that this worker has checked agree.
template <bool kTwoShot, class Team>
NVRAR_HD bool reduce_tiles(Team& team, const Tiles<kTwoShot>& tiles, const RingLayout& layout, bool good) {
  team.each_tile([&](uint32_t tile) {
    const uint32_t run = tiles.run(tile, team.rank());
    team.each_source(
        [&](uint32_t source) { good = team.gather(source, tiles.data_slot(tile, source), tile, run, good); });
    // An incomplete sum may neither be stored nor sent to a peer.
    good = team.meet(good);
    team.sum(run, good);
    if (good) team.each_peer([&](uint32_t peer) { team.clear(tiles.data_slot(tile, peer), run); });
    if constexpr (kTwoShot) {
      team.take_result();
      team.each_source([&](uint32_t to) {
        if (good) team.give_result(to, tiles.result_slot(layout, tile, team.rank()), run);
      });
    } else {
      team.next_tile(tile);
    }
  });
  if constexpr (kTwoShot) {
    team.each_tile([&](uint32_t tile) {
      team.each_peer([&](uint32_t peer) {
        good = good && team.drain(peer, tiles.result_slot(layout, tile, peer), tiles.run(tile, peer));
      });
    });
  }
  return good;
}

}  // namespace nvrar::protocol

#endif  // NVRAR_PROTOCOL_TEAM_H
