// Runs the protocol's steps over a recorded memory: what each rank sends, awaits and combines, and which event happens
// before which. Control flow does not depend on data or timing, so one run represents every order in which stores can
// arrive and ranks can be scheduled: events that are ordered here are always ordered, and a missing order is a fault,
// whether or not this run was affected.
#ifndef NVRAR_TEST_INVARIANTS_TRACE_H
#define NVRAR_TEST_INVARIANTS_TRACE_H

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "protocol/launch.h"

namespace nvrar::test {

struct TracedLaunch {
  Algorithm algorithm;
  protocol::PacketKind kind;
  uint64_t bytes;
  uint32_t root = 0;
  uint32_t in_teams = 0;  // bit r: rank r runs it by protocol/team.h or team_move.h
};

class Trace {
 public:
  explicit Trace(const protocol::Topology& topology);

  // Runs the launches on all ranks, after those of earlier calls. Returns "" or the first fault.
  std::string run(const std::vector<TracedLaunch>& launches);

 private:
  friend class TracePort;
  template <bool kTwoShot>
  friend class TraceTeam;
  friend class TraceTeamMove;
  static constexpr uint32_t kMostRanks = 24;
  using Clock = std::array<uint64_t, kMostRanks>;

  // The state of a run of packets in a rank's memory after its last send.
  struct Place {
    uint64_t epoch = 0;
    uint32_t packets = 0;
    bool unread = false;
    bool kept = false;  // a team has taken it, and has not emptied the slot
    uint32_t source = 0;
    std::string value;
    Clock sent{};
    uint64_t taken = 0;  // the clock of its reader
  };
  struct Stored {
    uint64_t bytes;
    std::string value;
  };
  struct Rank {
    Clock clock{};
    bool has_sent = false;
    uint64_t epoch = 0;  // of this launch
    bool waits = false;
    std::pair<uint64_t, uint64_t> awaited{0, 0};  // slot and epoch
    bool left = false;
    std::map<uint64_t, Stored> output;
  };

  void run_rank(uint32_t rank, const std::vector<TracedLaunch>& launches);
  void enter(uint32_t rank, uint64_t epoch);
  void leave(uint32_t rank, const TracedLaunch& launch, uint64_t epoch);
  void send(uint32_t rank, uint32_t peer, uint64_t slot, uint32_t packets, uint64_t epoch, const std::string& value);
  bool take(uint32_t rank, uint64_t slot, uint32_t source, uint32_t packets, uint64_t epoch, std::string* value);
  void keep(uint32_t rank, uint64_t slot);
  void clear(uint32_t rank, uint64_t slot);
  void store(uint32_t rank, uint64_t at, uint64_t bytes, const std::string& value);
  void sent(uint32_t rank);
  void check_output(uint32_t rank, const TracedLaunch& launch);
  void look_for_circle();
  bool there(uint32_t rank, const std::pair<uint64_t, uint64_t>& awaited);
  void fault(const std::string& sentence);
  std::string sum_of(uint32_t first, uint32_t count, const std::vector<std::string>& values) const;
  static std::string tree_of(std::vector<std::string> nodes);
  static std::string pair_of(const std::string& lower, const std::string& upper) {
    return "(" + lower + " )(" + upper + " )";
  }
  // A rank that may not have entered the launch yet, for all that this rank knows; the number of ranks: there is none.
  bool knows_entry(uint32_t rank, uint32_t other, uint64_t epoch) const;
  uint32_t not_known_to_have_entered(uint32_t rank, uint64_t epoch) const;

  protocol::RingLayout layout_;
  std::mutex mutex_;
  // One per rank, so that a rank is woken only for the packet that it waits for.
  std::array<std::condition_variable, kMostRanks> arrived_;
  std::map<std::pair<uint32_t, uint64_t>, Place> memory_;
  std::vector<Rank> ranks_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> entered_;  // the clock of a rank at its entry into an epoch
  uint64_t epoch_ = 0;
  std::string fault_;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_INVARIANTS_TRACE_H
