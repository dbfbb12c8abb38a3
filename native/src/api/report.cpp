#include "api/report.h"

#include <algorithm>
#include <cstdio>

#include "call/call.h"

namespace nvrar {
namespace {

struct Clause {
  std::string singular;  // a clause with its verb
  std::string plural;
  std::string short_form;  // used after another clause with the same verb
  std::vector<uint32_t> ranks;
};

// More ranks than this are named by ranges.
constexpr size_t kMostNamed = 8;
// More ranges than this are counted.
constexpr size_t kMostRanges = 16;
// What ranks do is told of so many different things.
constexpr size_t kMostClauses = 8;

// "rank 3", "ranks 0, 1, 3", "ranks 0 to 62, 64, 66 to 127", "ranks 1, 3, 5 and 253 more".
std::string name_ranks(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t ranges = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (++ranges > kMostRanges) return text + " and " + std::to_string(ranks.size() - i) + " more";
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    const size_t first = i;
    while (ranks.size() > kMostNamed && i + 1 < ranks.size() && ranks[i + 1] == ranks[i] + 1) ++i;
    if (i != first) text += (i == first + 1 ? ", " : " to ") + std::to_string(ranks[i]);
  }
  return text;
}

std::vector<uint32_t> ranks_of(const RankSet& set) {
  std::vector<uint32_t> ranks;
  set.each([&](uint32_t rank) { ranks.push_back(rank); });
  return ranks;
}

Clause clause_of(const RankActivity& rank) {
  if (!rank.known) return {"is unknown", "are unknown", "", {}};
  // The call that failed says more than that the rank left afterwards.
  if (rank.closed && rank.call.state != NVRAR_CALL_FAILED) return {"has left the group", "have left the group", "", {}};
  switch (rank.call.state) {
    case NVRAR_CALL_NONE:
      return {"has entered no call", "have entered no call", "", {}};
    case NVRAR_CALL_DONE: {
      const std::string last = describe(rank.call);
      return {"has finished " + last, "have finished " + last, "", {}};
    }
    case NVRAR_CALL_QUEUED: {
      const std::string last = describe(rank.call);
      return {"has queued " + last, "have queued " + last, "", {}};
    }
    default: {
      // A failed call is reported like a running one: readers want to know the call, not the order in which ranks
      // noticed the failure.
      const std::string call = "in " + describe(rank.call);
      return {"is " + call, "are " + call, call, {}};
    }
  }
}

// Transfers are numbered within their pair of ranks, so without its record such a call cannot be named.
std::string call_of(const shared::Poison& poison, const std::vector<RankActivity>& ranks) {
  if (poison.origin < ranks.size() && ranks[poison.origin].known && ranks[poison.origin].call.transfers != 0) {
    return describe(ranks[poison.origin].call);
  }
  return "call #" + std::to_string(poison.sequence);
}

// Calls that look alike differ in what no record has.
const char* unrecorded_difference(const std::vector<RankActivity>& ranks) {
  const auto alike = [&](auto is_one) {
    return std::all_of(ranks.begin(), ranks.end(), [&](const RankActivity& rank) {
      return rank.known && is_one(rank.call) && describe(rank.call) == describe(ranks[0].call);
    });
  };
  if (alike([](const nvrar_call& call) { return call.fusion == NVRAR_FUSION_RMS_NORM; }))
    return ", which differ in eps";
  if (alike([](const nvrar_call& call) { return call.collective == NVRAR_ALL_GATHER && call.hidden != 0; })) {
    return ", which differ in the rows or the type of their top-k";
  }
  return "";
}

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(ns) * 1e-9);
  return text;
}

}  // namespace

std::string describe_activities(const std::vector<RankActivity>& ranks) {
  std::vector<Clause> clauses;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    Clause clause = clause_of(ranks[r]);
    const auto same = std::find_if(clauses.begin(), clauses.end(),
                                   [&](const Clause& other) { return other.singular == clause.singular; });
    if (same != clauses.end()) {
      same->ranks.push_back(r);
    } else {
      clause.ranks.push_back(r);
      clauses.push_back(clause);
    }
  }
  // The clause with the fewest ranks comes first: it is what the reader looks for.
  std::stable_sort(clauses.begin(), clauses.end(),
                   [](const Clause& a, const Clause& b) { return a.ranks.size() < b.ranks.size(); });
  std::string text;
  bool verb_said = false;
  size_t untold = ranks.size();
  for (const Clause& clause : clauses) {
    if (&clause - clauses.data() == kMostClauses)
      return text + ", " + (untold == 1 ? "1 other rank" : std::to_string(untold) + " other ranks") + " elsewhere";
    untold -= clause.ranks.size();
    const std::string& full = clause.ranks.size() == 1 ? clause.singular : clause.plural;
    const bool brief = verb_said && !clause.short_form.empty();
    text += (text.empty() ? "" : ", ") + name_ranks(clause.ranks) + " " + (brief ? clause.short_form : full);
    verb_said = !clause.short_form.empty();
  }
  return text;
}

std::string describe_failure(const shared::Poison& poison, uint32_t own, const std::string& running, uint64_t waited_ns,
                             const std::vector<RankActivity>& ranks) {
  const bool here = poison.origin == own;
  const std::string origin = "rank " + std::to_string(poison.origin);
  const std::string in_call = running.empty() ? "" : " during " + running;
  const std::string missing = name_ranks(ranks_of(poison.ranks));
  switch (poison.status) {
    case NVRAR_MISMATCH:
      // Without a rank, no rank differed from another.
      if (poison.ranks.empty()) {
        return "launches of the group overlapped on " + origin + in_call +
               ": its calls need one order, by one stream or by events between streams";
      }
      return "the calls of the ranks differ: " + describe_activities(ranks) + unrecorded_difference(ranks);
    case NVRAR_TIMEOUT:
      if (here) {
        return (running.empty() ? "a call" : running) + " timed out after " + seconds(waited_ns) + " without " +
               missing + ": " + describe_activities(ranks);
      }
      return origin + " timed out in its " + call_of(poison, ranks) + " without " + missing +
             ", which ended the group" + in_call + ": " + describe_activities(ranks);
    case NVRAR_ABORTED:
      return (here ? "the group was aborted by this rank (" + origin + ")" : origin + " aborted the group") + in_call;
    case NVRAR_SYSTEM:
      return origin + " could enqueue only a part of its " + call_of(poison, ranks) + ", which ended the group" +
             in_call;
    case NVRAR_PEER_LOST:
      if (poison.origin < ranks.size() && poison.ranks == RankSet::of(poison.origin)) {
        return "the threads for the links of " + origin +
               " did not run for a second although it had something to send" + in_call;
      }
      return origin + " lost its connection to " + missing + in_call;
    case NVRAR_INTERNAL:
      return "a packet of " + missing + " was overwritten before " + origin + " had read it: a defect of this library" +
             in_call;
    default:
      return "the group is poisoned with status " + std::to_string(poison.status) + " by " + origin;
  }
}

}  // namespace nvrar
