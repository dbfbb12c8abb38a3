// What a team does when something fails: its workers still meet as often as the others do, and nothing that is no sum
// of all is stored or sent.
#include "protocol/team.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nvrar::test {
namespace {

constexpr uint32_t kTiles = 3;
constexpr uint32_t kNever = ~0u;

// One worker of a team of two, which writes down what it is asked to do.
struct RecordingTeam {
  uint32_t fails_gather = kNever;  // in this tile
  uint32_t fails_drain = kNever;   // of this run
  uint32_t tile = 0;
  std::vector<std::string> log{};

  static uint32_t rank() { return 0; }
  template <class Visit>
  void each_tile(Visit visit) {
    for (tile = 0; tile < kTiles; ++tile) visit(tile);
  }
  template <class Visit>
  static void each_peer(Visit visit) {
    visit(1);
  }
  template <class Visit>
  static void each_source(Visit visit) {
    visit(1);
  }
  void push(uint32_t, uint32_t, uint32_t, uint32_t) { note("push"); }
  bool gather(uint32_t, uint32_t, uint32_t of_tile, uint32_t, bool good) const {
    return good && of_tile != fails_gather;
  }
  bool meet(bool good) {
    note("meet");
    return good;
  }
  void sum(uint32_t, bool good) { note(good ? "sum" : "sum nothing"); }
  void clear(uint32_t, uint32_t) { note("clear"); }
  void take_result() { note("take"); }
  void give_result(uint32_t, uint32_t, uint32_t) { note("give"); }
  bool drain(uint32_t, uint32_t, uint32_t run) {
    note("drain");
    return run != fails_drain;
  }
  void next_tile(uint32_t) { note("next"); }

  void note(const std::string& what) { log.push_back(std::to_string(tile) + " " + what); }
};

template <bool kTwoShot>
std::vector<std::string> reduced(RecordingTeam team, bool good) {
  const protocol::RingLayout layout{protocol::kMinRingBytes, {2, 2}};
  protocol::reduce_tiles(team, protocol::Tiles<kTwoShot>{{layout.topology}}, layout, good);
  return team.log;
}

using Log = std::vector<std::string>;

TEST(Team, OfAOneShotThatFailedMeetsForEveryTileAndStoresNothing) {
  EXPECT_EQ(reduced<false>({}, true), (Log{"0 meet", "0 sum", "0 clear", "0 next", "1 meet", "1 sum", "1 clear",
                                           "1 next", "2 meet", "2 sum", "2 clear", "2 next"}));
  EXPECT_EQ(reduced<false>({.fails_gather = 1}, true),
            (Log{"0 meet", "0 sum", "0 clear", "0 next", "1 meet", "1 sum nothing", "1 next", "2 meet", "2 sum nothing",
                 "2 next"}));
  EXPECT_EQ(reduced<false>({}, false), (Log{"0 meet", "0 sum nothing", "0 next", "1 meet", "1 sum nothing", "1 next",
                                            "2 meet", "2 sum nothing", "2 next"}));
}

TEST(Team, OfATwoShotThatFailedMeetsForEveryTileAndSendsNoResult) {
  const Log whole = {"0 meet", "0 sum",  "0 clear", "0 take",  "0 give", "1 meet", "1 sum",   "1 clear", "1 take",
                     "1 give", "2 meet", "2 sum",   "2 clear", "2 take", "2 give", "0 drain", "1 drain", "2 drain"};
  EXPECT_EQ(reduced<true>({}, true), whole);
  EXPECT_EQ(reduced<true>({.fails_gather = 1}, true),
            (Log{"0 meet", "0 sum", "0 clear", "0 take", "0 give", "1 meet", "1 sum nothing", "1 take", "2 meet",
                 "2 sum nothing", "2 take"}));
  EXPECT_EQ(reduced<true>({}, false), (Log{"0 meet", "0 sum nothing", "0 take", "1 meet", "1 sum nothing", "1 take",
                                           "2 meet", "2 sum nothing", "2 take"}));
  // Run 3 is the peer's of tile 1.
  EXPECT_EQ(reduced<true>({.fails_drain = 3}, true), (Log{whole.begin(), whole.end() - 1}));
}

}  // namespace
}  // namespace nvrar::test
