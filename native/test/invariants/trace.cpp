#include "invariants/trace.h"

#include <algorithm>
#include <thread>

#include "call/steps.h"
#include "invariants/trace_port.h"
#include "invariants/trace_team.h"
#include "invariants/trace_team_move.h"

namespace nvrar::test {
namespace {

using protocol::EpochPacket;
using protocol::Launch;
using protocol::MarkedPacket;
using protocol::SentinelPacket;
using protocol::Topology;

bool run_launch(Trace* trace, uint32_t rank, const TracedLaunch& traced, const Launch& launch) {
  if ((traced.in_teams >> rank & 1) != 0) {
    if (!sums(traced.algorithm)) return TraceTeamMove(trace, rank, launch, movement_of(traced.algorithm)).run();
    return traced.algorithm == Algorithm::kTwoShot
               ? TraceTeam<true>(trace, rank, launch).run()
               : TraceTeam<false>(trace, rank, launch, traced.algorithm == Algorithm::kReduceScatter).run();
  }
  TracePort port(trace, rank, launch);
  if (traced.kind == protocol::PacketKind::kMarked) return move_steps<MarkedPacket>(port, traced.algorithm, launch);
  if (!sums(traced.algorithm)) return move_steps<EpochPacket>(port, traced.algorithm, launch);
  return traced.kind == protocol::PacketKind::kSentinel
             ? sum_steps<SentinelPacket, true>(port, traced.algorithm, launch)
             : sum_steps<EpochPacket, true>(port, traced.algorithm, launch);
}

std::string rank_name(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Trace::Trace(const Topology& topology)
    : layout_{protocol::min_ring_bytes(topology.world, topology.nodes() > 1), topology}, ranks_(topology.world) {}

std::string Trace::run(const std::vector<TracedLaunch>& launches) {
  for (Rank& rank : ranks_) rank.left = false;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < layout_.topology.world; ++rank) {
    threads.emplace_back([&, rank] { run_rank(rank, launches); });
  }
  for (std::thread& thread : threads) thread.join();
  epoch_ += launches.size();
  for (const auto& [where, place] : memory_) {
    if (place.kept) fault(rank_name(where.first) + " leaves a slot full");
    if (place.unread) fault(rank_name(where.first) + " leaves unread what " + rank_name(place.source) + " sent");
  }
  return fault_;
}

void Trace::run_rank(uint32_t rank, const std::vector<TracedLaunch>& launches) {
  uint64_t epoch = epoch_;
  for (const TracedLaunch& traced : launches) {
    Launch launch{};
    launch.layout = layout_;
    launch.rank = rank;
    launch.epoch = ++epoch;
    launch.header_hash = 1;
    launch.root = traced.root;
    launch.send = reinterpret_cast<const uint8_t*>(kTraceSend);
    launch.recv = reinterpret_cast<uint8_t*>(kTraceRecv);
    launch.bytes = traced.bytes;
    launch.send_stride_bytes = traced.bytes;
    launch.recv_stride_bytes = traced.bytes;
    launch.partial_parts = traced.kind == protocol::PacketKind::kSentinel ? 2 : 1;
    enter(rank, epoch);
    if (!run_launch(this, rank, traced, launch)) break;
    leave(rank, traced, epoch);
  }
  const std::lock_guard lock(mutex_);
  ranks_[rank].left = true;
  look_for_circle();
}

void Trace::enter(uint32_t rank, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  Rank& own = ranks_[rank];
  entered_[{rank, epoch}] = ++own.clock[rank];
  own.has_sent = false;
  own.epoch = epoch;
  own.output.clear();
}

void Trace::leave(uint32_t rank, const TracedLaunch& launch, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const uint32_t other = not_known_to_have_entered(rank, epoch);
  if (other != layout_.topology.world) {
    fault(rank_name(rank) + " may leave launch " + std::to_string(epoch) + " before " + rank_name(other) +
          " has entered it");
  }
  check_output(rank, launch);
}

bool Trace::knows_entry(uint32_t rank, uint32_t other, uint64_t epoch) const {
  const auto entry = entered_.find({other, epoch});
  return entry != entered_.end() && ranks_[rank].clock[other] >= entry->second;
}

uint32_t Trace::not_known_to_have_entered(uint32_t rank, uint64_t epoch) const {
  uint32_t other = 0;
  while (other < layout_.topology.world && knows_entry(rank, other, epoch)) ++other;
  return other;
}

void Trace::send(uint32_t rank, uint32_t peer, uint64_t slot, uint32_t packets, uint64_t epoch,
                 const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (peer == rank && layout_.topology.nodes() == 1) fault(rank_name(rank) + " sends to itself");
  Rank& own = ranks_[rank];
  Place& place = memory_[{peer, slot}];
  if (place.kept) {
    fault(rank_name(rank) + " sends into a slot of " + rank_name(peer) + " that was not emptied");
  }
  if (place.epoch == epoch) {
    fault(rank_name(rank) + " and " + rank_name(place.source) + " write one slot of " + rank_name(peer) +
          " in one launch");
  } else if (place.unread || own.clock[peer] < place.taken) {
    fault(rank_name(rank) + " may overwrite in launch " + std::to_string(epoch) + " what " + rank_name(peer) +
          " has not read in launch " + std::to_string(place.epoch));
  }
  ++own.clock[rank];
  place.epoch = epoch;
  place.packets = packets;
  place.unread = true;
  place.source = rank;
  place.value = value;
  place.sent = own.clock;
  if (ranks_[peer].waits && there(peer, ranks_[peer].awaited)) arrived_[peer].notify_one();
}

bool Trace::there(uint32_t rank, const std::pair<uint64_t, uint64_t>& awaited) {
  const auto found = memory_.find({rank, awaited.first});
  return found != memory_.end() && found->second.unread && found->second.epoch == awaited.second;
}

bool Trace::take(uint32_t rank, uint64_t slot, uint32_t source, uint32_t packets, uint64_t epoch, std::string* value) {
  std::unique_lock lock(mutex_);
  Rank& own = ranks_[rank];
  const bool header = slot < protocol::RingLayout::kHeaderSlots;
  if (!own.has_sent) fault(rank_name(rank) + " waits in launch " + std::to_string(epoch) + " before it has sent");
  if (!header && !knows_entry(rank, source, epoch)) {
    fault(rank_name(rank) + " uses data of " + rank_name(source) + " before it has its header");
  }
  own.awaited = {slot, epoch};
  own.waits = true;
  look_for_circle();
  arrived_[rank].wait(lock, [&] { return there(rank, own.awaited) || !fault_.empty(); });
  own.waits = false;
  if (!fault_.empty()) return false;

  Place& place = memory_[{rank, slot}];
  if (place.source != source || place.packets != packets) {
    fault(rank_name(rank) + " awaits " + std::to_string(packets) + " packets of " + rank_name(source) + " where " +
          rank_name(place.source) + " sent " + std::to_string(place.packets));
  }
  ++own.clock[rank];
  for (uint32_t i = 0; i < layout_.topology.world; ++i) own.clock[i] = std::max(own.clock[i], place.sent[i]);
  place.unread = false;
  place.taken = own.clock[rank];
  *value = place.value;
  return true;
}

void Trace::sent(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  ranks_[rank].has_sent = true;
}

void Trace::keep(uint32_t rank, uint64_t slot) {
  const std::lock_guard lock(mutex_);
  memory_[{rank, slot}].kept = true;
}

void Trace::clear(uint32_t rank, uint64_t slot) {
  const std::lock_guard lock(mutex_);
  memory_[{rank, slot}].kept = false;
}

void Trace::store(uint32_t rank, uint64_t at, uint64_t bytes, const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) return;
  if (not_known_to_have_entered(rank, ranks_[rank].epoch) != layout_.topology.world) {
    fault(rank_name(rank) + " writes a result before it has the headers of all ranks");
  }
  if (!ranks_[rank].output.insert({at, {bytes, value}}).second) fault(rank_name(rank) + " writes a result twice");
}

void Trace::look_for_circle() {
  bool any = false;
  for (uint32_t rank = 0; rank < layout_.topology.world; ++rank) {
    if (ranks_[rank].left) continue;
    if (!ranks_[rank].waits || there(rank, ranks_[rank].awaited)) return;
    any = true;
  }
  if (any) fault("all ranks wait for each other");
}

// Only the first one says what is wrong.
void Trace::fault(const std::string& sentence) {
  if (fault_.empty()) fault_ = sentence;
  for (std::condition_variable& rank : arrived_) rank.notify_one();
}

std::string Trace::sum_of(uint32_t first, uint32_t count, const std::vector<std::string>& values) const {
  std::vector<std::string> nodes;
  for (uint32_t i = 0; i < count; ++i) {
    if (i == 0 || layout_.topology.is_first(first + i)) nodes.emplace_back();
    nodes.back() += " " + values[i];
  }
  return tree_of(nodes);
}

// Level by level: 2i and 2i + 1 are combined, an odd last one passes up unchanged.
std::string Trace::tree_of(std::vector<std::string> nodes) {
  while (nodes.size() > 1) {
    std::vector<std::string> level;
    for (size_t i = 0; i < nodes.size(); i += 2) {
      level.push_back(i + 1 < nodes.size() ? pair_of(nodes[i], nodes[i + 1]) : nodes[i]);
    }
    nodes = level;
  }
  return nodes[0];
}

void Trace::check_output(uint32_t rank, const TracedLaunch& launch) {
  const uint32_t world = layout_.topology.world;
  const uint64_t bytes = launch.bytes;
  const auto expected = [&](uint64_t at) {
    const auto sum = [&](uint64_t offset) {
      std::vector<std::string> values;
      for (uint32_t source = 0; source < world; ++source) values.push_back(value_name(source, offset));
      return sum_of(0, world, values);
    };
    switch (launch.algorithm) {
      case Algorithm::kAllGather:
        return value_name(static_cast<uint32_t>(at / bytes), at % bytes);
      case Algorithm::kAllToAll:
        return value_name(static_cast<uint32_t>(at / bytes), rank * bytes + at % bytes);
      case Algorithm::kBroadcast:
        return value_name(launch.root, at);
      case Algorithm::kReduceScatter:
        return sum(rank * bytes + at);
      default:
        return sum(at);
    }
  };
  const bool parts = launch.algorithm == Algorithm::kAllGather || launch.algorithm == Algorithm::kAllToAll;
  const bool none = launch.algorithm == Algorithm::kReduce && rank != launch.root;
  const uint64_t total = none ? 0 : bytes * (parts ? world : 1);
  uint64_t at = 0;
  for (const auto& [begin, stored] : ranks_[rank].output) {
    if (begin != at) fault(rank_name(rank) + " leaves a gap in its result at byte " + std::to_string(at));
    if (stored.value != expected(begin)) {
      fault(rank_name(rank) + " has " + stored.value + " at byte " + std::to_string(begin) + " instead of " +
            expected(begin));
    }
    at = begin + stored.bytes;
  }
  if (at != total) {
    fault(rank_name(rank) + " has a result of " + std::to_string(at) + " bytes instead of " + std::to_string(total));
  }
}

}  // namespace nvrar::test
