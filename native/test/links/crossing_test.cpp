// Collectives that cross between nodes by chunks, proxies and links (protocol/crossing.h), with threads of the host in
// the place of kernels.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "call/call.h"
#include "call/steps.h"
#include "cpu/float_control.h"
#include "cuda/proxy/proxy.h"
#include "plan/crossing_shape.h"
#include "support/crossing_port.h"
#include "support/group.h"
#include "support/topologies.h"

namespace nvrar::test {
namespace {

using protocol::CrossingLayout;
using protocol::CrossingMemory;
using protocol::CrossingShape;
using protocol::Launch;
using protocol::Packet;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::Topology;

constexpr uint64_t kHash = 4711;
constexpr uint64_t kTimeoutNs = 20'000'000'000;
constexpr uint64_t kSpinNs = 2'000'000;
constexpr uint32_t kTeams = 2;
constexpr uint32_t kMembers = 2;  // of a team

struct CrossingCase {
  Algorithm algorithm;
  int32_t data_type;
  int32_t op;
  uint64_t count;
  uint32_t root = 0;
};

struct FreeBytes {
  void operator()(uint8_t* bytes) const { std::free(bytes); }
};

class Rank {
 public:
  Rank(uint32_t rank, const RingLayout& layout, uint64_t area_bytes, bool encrypted)
      : segments_(rank, layout.topology.world, kHash, &layout),
        layout_(layout),
        proxy_(layout.topology.world, "127.0.0.1", 0, 0, encrypted),
        ranks_(layout.topology.world) {
    const uint32_t node = layout.topology.node_of(rank);
    crossing_.layout = {area_bytes, layout.topology.world, layout.topology.first_of(node),
                        layout.topology.size_of(node)};
    arena_.reset(static_cast<uint8_t*>(std::aligned_alloc(4096, (crossing_.layout.bytes() + 4095) / 4096 * 4096)));
    std::memset(arena_.get(), 0, crossing_.layout.bytes());
    counts_.resize(CrossingMemory::kCounts);
    sums_.resize(2 * area_bytes);
    crossing_.arena = arena_.get();
    crossing_.counts = counts_.data();
    crossing_.sums = sums_.data();
  }

  link::Remote address() const { return {segments_.rank(), proxy_.talk().address(), true}; }
  shared::SegmentAddress segment() const { return segments_.address(); }
  const CrossingLayout& layout() const { return crossing_.layout; }
  shared::GroupSegments& segments() { return segments_; }
  cuda::Proxy& proxy() { return proxy_; }
  uint8_t* arena() { return arena_.get(); }

  void connect(const std::vector<std::unique_ptr<Rank>>& all, const cuda::Proxy::Budget& budget) {
    std::vector<shared::SegmentAddress> addresses;
    std::vector<link::Remote> remotes;
    RankSet remote;
    for (const auto& other : all) {
      addresses.push_back(other->segment());
      const link::Remote address = other->address();
      if (!crossing_.layout.is_remote(address.rank)) continue;
      remotes.push_back(address);
      remote.add(address.rank);
    }
    segments_.map_peers(addresses, remote);
    for (uint32_t peer = 0; peer < all.size(); ++peer) {
      shared::ControlBlock& control = segments_.control(peer);
      ranks_[peer] = {&control, nullptr, 0, nullptr};
      if (remote.has(peer)) continue;
      ranks_[peer].rings = segments_.rings(peer);
      ranks_[peer].rings_name = control.owner_base + shared::kControlBytes;
    }
    proxy_.start(&segments_, crossing_.layout, arena_.get(), Digest{1}, remotes, monotonic_ns() + kTimeoutNs, budget);
    proxy_has_threads_ = budget.threads > 1;
  }

  // Runs a thread's part of the next launch.
  bool run(const CrossingCase& c, const std::vector<uint8_t>& send, std::vector<uint8_t>* recv, uint64_t epoch,
           CrossingPort::Place place, uint32_t hash = 1) {
    place.proxy_has_threads = proxy_has_threads_;
    const ElementType& type = element_type(c.data_type);
    const PacketKind kind = c.op == kNoOp ? PacketKind::kEpoch : type.sum_packets;
    const uint64_t bytes = c.count * element_bytes(c.data_type);
    const Launch launch{.layout = layout_,
                        .rank = segments_.rank(),
                        .epoch = epoch,
                        .header_hash = hash,
                        .root = c.root,
                        .send = send.data(),
                        .recv = recv->data(),
                        .bytes = bytes,
                        .send_stride_bytes = bytes,
                        .recv_stride_bytes = bytes,
                        .partial_parts = c.op == kNoOp ? 0 : type.partial_parts};
    CrossingShape shape =
        crossing_shape_of(c.algorithm, kind, layout_.topology, launch.partial_parts, bytes, proxy_.budget().threads);
    give_own_part(&shape, c.algorithm, launch);
    const uint64_t run_bytes = run_bytes_of(kind);
    const uint64_t runs = (bytes + run_bytes - 1) / run_bytes;
    EXPECT_LE(runs, most_crossing_runs(c.algorithm, kind, layout_.topology, launch.partial_parts,
                                       crossing_.layout.area_bytes));
    if (place.team == nullptr) {
      const uint64_t due = proxy_.due_with_next();
      __atomic_store_n(&reinterpret_cast<protocol::CrossingPage*>(arena_.get())->epoch, epoch, __ATOMIC_RELEASE);
      proxy_.launched(due);
    }
    const CrossingPort::HostCrossing crossing(crossing_, shape, layout_.topology, segments_.rank(), epoch, hash, runs);
    cpu::Waiter waiter(&segments_.own(), {64, 64}, kTimeoutNs, nullptr);
    cpu::RankNotes notes;
    const cpu::FloatControl same_on_all_ranks;
    CrossingPort port(ranks_.data(), launch, &waiter, kTimeoutNs,
                      c.op == kNoOp ? nullptr : &cpu::reduction_of(c.data_type, c.op), &notes, &crossing, place);
    const bool good = !nvrar::sums(c.algorithm) ? crossing_move_steps<protocol::EpochPacket>(port, c.algorithm, launch)
                      : kind == PacketKind::kSentinel
                          ? crossing_sum_steps<protocol::SentinelPacket>(port, c.algorithm, launch)
                          : crossing_sum_steps<protocol::EpochPacket>(port, c.algorithm, launch);
    if (!notes.differing.empty()) {
      differing_ = notes.differing;
      if (fails_on_difference_) {
        segments_.poison({NVRAR_MISMATCH, segments_.rank(), notes.differing, 1});
        proxy_.talk().tell(segments_.poisoned());
      }
    }
    return good;
  }
  const RankSet& differing() const { return differing_; }
  void fail_on_difference() { fails_on_difference_ = true; }

 private:
  shared::GroupSegments segments_;
  RingLayout layout_;
  std::unique_ptr<uint8_t, FreeBytes> arena_;
  std::vector<uint32_t> counts_;
  std::vector<uint8_t> sums_;
  CrossingMemory crossing_;
  cuda::Proxy proxy_;
  std::vector<cpu::MappedRank> ranks_;
  RankSet differing_;
  bool fails_on_difference_ = false;
  bool proxy_has_threads_ = false;
};

class Group {
 public:
  explicit Group(const Topology& topology, uint64_t area_bytes = uint64_t{4} << 20, bool encrypted = false,
                 const cuda::Proxy::Budget& budget = {.connections = 2, .spin_ns = kSpinNs}) {
    const RingLayout layout{uint64_t{2} << 20, topology};
    for (uint32_t rank = 0; rank < topology.world; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(rank, layout, area_bytes, encrypted));
    }
    each([&](uint32_t rank) { ranks_[rank]->connect(ranks_, budget); });
  }
  ~Group() {
    each([&](uint32_t rank) { ranks_[rank]->proxy().stop(kTimeoutNs, [] { return false; }); });
  }

  Rank& operator[](uint32_t rank) { return *ranks_[rank]; }
  // As a member does: the group fails where a rank sees that another one is in another call.
  void fail_on_difference() {
    for (auto& rank : ranks_) rank->fail_on_difference();
  }
  uint32_t world() const { return static_cast<uint32_t>(ranks_.size()); }

  // One launch on all ranks, or without `absent`. Returns each one's result, empty if it failed. hashes: of the calls,
  // by rank; empty: the same.
  std::vector<std::vector<uint8_t>> run(const CrossingCase& c, const std::vector<std::vector<uint8_t>>& send,
                                        size_t recv_bytes, const std::vector<uint32_t>& hashes = {},
                                        uint32_t absent = ~0u) {
    std::vector<std::vector<uint8_t>> recv(world(), std::vector<uint8_t>(recv_bytes, 0x5B));
    std::vector<std::atomic<bool>> good(world());
    for (auto& one : good) one = true;
    ++epoch_;
    std::deque<Team> teams;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      if (rank == absent) continue;
      const auto start = [&, rank](const CrossingPort::Place& place) {
        threads.emplace_back([&, rank, place] {
          const uint32_t hash = hashes.empty() ? 1 : hashes[rank];
          if (!ranks_[rank]->run(c, send[rank], &recv[rank], epoch_, place, hash)) good[rank] = false;
        });
      };
      start({});
      for (uint32_t index = 0; index < kTeams; ++index) {
        Team& team = teams.emplace_back(kMembers);
        for (uint32_t member = 0; member < kMembers; ++member) start({&team, index, kTeams, member, kMembers});
      }
    }
    for (std::thread& thread : threads) thread.join();
    for (uint32_t rank = 0; rank < world(); ++rank) {
      if (!good[rank]) recv[rank].clear();
    }
    return recv;
  }

  // Many launches of each rank, which waits for the others only in them, and leaves after them if it `leaves`. Returns
  // whether all were good.
  bool run_freely(const CrossingCase& c, int launches, bool leaves = false) {
    const std::vector<uint8_t> send(c.count * element_bytes(c.data_type), 0x3C);
    std::atomic<bool> good{true};
    each([&](uint32_t rank) {
      std::vector<uint8_t> recv(send.size());
      for (int i = 1; i <= launches && good; ++i) {
        Team team(kMembers);
        const auto one = [&](const CrossingPort::Place& place) {
          if (!ranks_[rank]->run(c, send, &recv, epoch_ + static_cast<uint64_t>(i), place)) good = false;
        };
        std::thread other([&] { one({&team, 0, 1, 1, kMembers}); });
        std::thread headers([&] { one({}); });
        one({&team, 0, 1, 0, kMembers});
        other.join();
        headers.join();
      }
      if (leaves) ranks_[rank]->proxy().stop(kTimeoutNs, [] { return false; });
    });
    epoch_ += static_cast<uint64_t>(launches);
    return good;
  }

 private:
  template <class Visit>
  void each(Visit visit) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) threads.emplace_back([&, rank] { visit(rank); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  uint64_t epoch_ = protocol::first_epoch() - 1;
};

std::vector<uint8_t> random_elements(std::mt19937_64& random, int32_t data_type, uint64_t count) {
  std::vector<uint8_t> bytes(std::max<uint64_t>(count * element_bytes(data_type), 1));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  if (data_type == NVRAR_FLOAT32 || data_type == NVRAR_BFLOAT16 || data_type == NVRAR_FLOAT16) {
    // Not so large that sums overflow: bits that all ranks agree on are compared, whatever they are.
    for (size_t i = element_bytes(data_type) - 1; i < bytes.size(); i += element_bytes(data_type)) bytes[i] = 0x3C;
  }
  return bytes;
}

// The bits of the CPU backend: the sums of nodes in rank order, combined level by level.
std::vector<uint8_t> sum_of(const Topology& topology, const CrossingCase& c,
                            const std::vector<std::vector<uint8_t>>& inputs, uint64_t first, uint64_t bytes) {
  const cpu::Reduction& reduction = cpu::reduction_of(c.data_type, c.op);
  const cpu::FloatControl same_on_all_ranks;
  std::vector<uint8_t> result(bytes);
  constexpr uint32_t kVector = 16;
  for (uint64_t at = 0; at < bytes; at += kVector) {
    uint8_t rooms[protocol::kMaxRanks][kVector] = {};
    const uint8_t* runs[protocol::kMaxRanks];
    const uint64_t part = std::min<uint64_t>(kVector, bytes - at);
    for (uint32_t rank = 0; rank < topology.world; ++rank) {
      std::memcpy(rooms[rank], inputs[rank].data() + first + at, part);
      runs[rank] = rooms[rank];
    }
    uint8_t sum[kVector];
    if (topology.sums_in_rank_order()) {
      reduction.sum(runs, topology.world, topology.world, sum, 1);
    } else {
      cpu::Partial of_nodes[protocol::kMaxRanks];
      for (uint32_t node = 0; node < topology.nodes(); ++node) {
        reduction.partial_sum(runs + topology.first_of(node), topology.size_of(node), &of_nodes[node], 1);
      }
      reduction.finish(of_nodes, topology.nodes(), topology.world, sum, 1);
    }
    std::memcpy(result.data() + at, sum, part);
  }
  return result;
}

void expect_right(Group& group, const Topology& topology, const CrossingCase& c, std::mt19937_64& random) {
  const uint32_t world = topology.world;
  const uint64_t part = c.count * element_bytes(c.data_type);
  const bool sends_parts = c.algorithm == Algorithm::kReduceScatter || c.algorithm == Algorithm::kAllToAll;
  const bool receives_parts = c.algorithm == Algorithm::kAllGather || c.algorithm == Algorithm::kAllToAll;
  std::vector<std::vector<uint8_t>> send;
  for (uint32_t rank = 0; rank < world; ++rank) {
    send.push_back(random_elements(random, c.data_type, c.count * (sends_parts ? world : 1)));
  }
  const auto recv = group.run(c, send, part * (receives_parts ? world : 1));
  for (uint32_t rank = 0; rank < world; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank) + " algorithm " + std::to_string(static_cast<int>(c.algorithm)) +
                 " type " + std::to_string(c.data_type) + " count " + std::to_string(c.count));
    const auto slice = [&](uint32_t of, uint64_t first) {
      return std::vector<uint8_t>(send[of].begin() + static_cast<ptrdiff_t>(first),
                                  send[of].begin() + static_cast<ptrdiff_t>(first + part));
    };
    std::vector<uint8_t> expected;
    switch (c.algorithm) {
      case Algorithm::kOneShot:
      case Algorithm::kHierarchical:
        expected = sum_of(topology, c, send, 0, part);
        break;
      case Algorithm::kReduce:
        expected = rank == c.root ? sum_of(topology, c, send, 0, part) : std::vector<uint8_t>(part, 0x5B);
        break;
      case Algorithm::kReduceScatter:
        expected = sum_of(topology, c, send, rank * part, part);
        break;
      case Algorithm::kBroadcast:
        expected = slice(c.root, 0);
        break;
      case Algorithm::kBarrier:
        break;
      default:
        for (uint32_t source = 0; source < world; ++source) {
          const std::vector<uint8_t> one = slice(source, c.algorithm == Algorithm::kAllToAll ? rank * part : 0);
          expected.insert(expected.end(), one.begin(), one.end());
        }
        break;
    }
    ASSERT_EQ(recv[rank], expected);
  }
}

constexpr Topology kSpans[] = {{2, 1}, {4, 2}, {3, 1}, nodes_of<1, 3>(), nodes_of<3, 1>(), {4, 1}, nodes_of<2, 1, 3>(),
                               {8, 1}};

// By the topology and the number of the proxy's threads.
class Spans : public testing::TestWithParam<std::tuple<size_t, uint32_t>> {};

TEST_P(Spans, AllCollectivesHaveTheBitsOfTheCpuBackend) {
  const auto [index, threads] = GetParam();
  const Topology topology = kSpans[index];
  Group group(topology, uint64_t{4} << 20, false, {2 * threads, threads, kSpinNs});
  std::mt19937_64 random(index);
  for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{20'001}}) {
    for (const int32_t type : {NVRAR_BFLOAT16, NVRAR_FLOAT32, NVRAR_INT64}) {
      for (const Algorithm algorithm :
           {Algorithm::kOneShot, Algorithm::kHierarchical, Algorithm::kReduce, Algorithm::kReduceScatter}) {
        if (count > 5000 && algorithm == Algorithm::kReduceScatter) continue;
        expect_right(group, topology, {algorithm, type, NVRAR_SUM, count, topology.world - 1}, random);
        if (HasFatalFailure()) return;
      }
    }
    const uint64_t part = std::min<uint64_t>(count, 5001);
    for (const Algorithm algorithm : {Algorithm::kAllGather, Algorithm::kAllToAll, Algorithm::kBroadcast}) {
      expect_right(group, topology, {algorithm, NVRAR_UINT8, kNoOp, part, 1}, random);
      if (HasFatalFailure()) return;
    }
    expect_right(group, topology, {Algorithm::kBarrier, NVRAR_UINT8, kNoOp, 0}, random);
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, Spans,
                         testing::Combine(testing::Range(size_t{0}, std::size(kSpans)), testing::Values(1)));
INSTANTIATE_TEST_SUITE_P(Threads, Spans, testing::Combine(testing::Values(0, 1, 3), testing::Values(2, 4)));

TEST(Crossing, EncryptedLinksCarryChunks) {
  const Topology topology = kSpans[1];
  Group group(topology, uint64_t{4} << 20, true);
  std::mt19937_64 random(5);
  for (const uint64_t count : {10, 3000, 60'000}) {
    expect_right(group, topology, {Algorithm::kHierarchical, NVRAR_BFLOAT16, NVRAR_SUM, count}, random);
    expect_right(group, topology, {Algorithm::kOneShot, NVRAR_FLOAT32, NVRAR_SUM, count}, random);
  }
}

class CrossingBudgets : public ::testing::TestWithParam<cuda::Proxy::Budget> {};

// Any call after any other, of all sizes: nothing of one is left for the next, and chunks on connections that the calls
// before have not used are found.
TEST_P(CrossingBudgets, CallsOfAllSizesFollowEachOther) {
  const Topology topology = kSpans[3];
  Group group(topology, uint64_t{1} << 20, false, GetParam());
  std::mt19937_64 random(7);
  constexpr Algorithm kAll[] = {Algorithm::kOneShot,   Algorithm::kHierarchical, Algorithm::kReduce,
                                Algorithm::kAllGather, Algorithm::kBroadcast,    Algorithm::kBarrier,
                                Algorithm::kAllToAll,  Algorithm::kReduceScatter};
  for (int i = 0; i < 60; ++i) {
    const Algorithm algorithm = kAll[random() % std::size(kAll)];
    const bool sums = nvrar::sums(algorithm);
    expect_right(group, topology,
                 {algorithm, NVRAR_FLOAT32, sums ? NVRAR_SUM : kNoOp,
                  algorithm == Algorithm::kBarrier ? 0 : 1 + random() % 20'000, static_cast<uint32_t>(random() % 4)},
                 random);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CrossingBudgets,
                         ::testing::Values(cuda::Proxy::Budget{2, 1, kSpinNs}, cuda::Proxy::Budget{4, 1, kSpinNs},
                                           cuda::Proxy::Budget{4, 2, kSpinNs}, cuda::Proxy::Budget{4, 4, kSpinNs}));

// Two ranks that are alone in their nodes share both slices of the third node, and the second slice of a small message
// is empty.
TEST(Crossing, EmptyChunksOfSharedSlicesAreAwaited) {
  for (const uint32_t connections : {1u, 4u}) {
    Group group(nodes_of<1, 1, 2>(), uint64_t{1} << 20, false, {connections, connections, kSpinNs});
    EXPECT_TRUE(group.run_freely({Algorithm::kHierarchical, NVRAR_FLOAT32, NVRAR_SUM, 64}, 40));
    for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(group[rank].segments().poisoned().status, NVRAR_OK) << rank;
  }
}

TEST(Crossing, DifferingCallsAreFoundByAllWhoHearOfThem) {
  const Topology topology = kSpans[1];
  Group group(topology);
  std::mt19937_64 random(3);
  const CrossingCase c{Algorithm::kHierarchical, NVRAR_FLOAT32, NVRAR_SUM, 5000};
  std::vector<std::vector<uint8_t>> send;
  for (uint32_t rank = 0; rank < 4; ++rank) send.push_back(random_elements(random, NVRAR_FLOAT32, c.count));
  group.fail_on_difference();
  const auto recv = group.run(c, send, c.count * 4, {1, 1, 1, 2});
  // Ranks 2 and 3 find each other, and their node tells nobody that it is in the call.
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(recv[rank].empty()) << rank;
  EXPECT_EQ(group[2].differing(), RankSet::of(3));
  EXPECT_EQ(group[3].differing(), RankSet::of(2));
}

TEST(Crossing, ACutConnectionEndsTheWaitsOfBothEnds) {
  const Topology topology = kSpans[0];
  for (const uint32_t connection : {0u, 1u, 2u, 3u}) {
    SCOPED_TRACE(connection);
    Group group(topology, uint64_t{4} << 20, false, {4, 2, kSpinNs});
    std::mt19937_64 random(3);
    expect_right(group, topology, {Algorithm::kOneShot, NVRAR_FLOAT32, NVRAR_SUM, 100}, random);
    const CrossingCase c{Algorithm::kOneShot, NVRAR_FLOAT32, NVRAR_SUM, 5000};
    std::vector<std::vector<uint8_t>> send;
    for (uint32_t rank = 0; rank < 2; ++rank) send.push_back(random_elements(random, NVRAR_FLOAT32, c.count));
    std::thread cutting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      group[1].proxy().talk().links().to(0, connection)->end();
    });
    const double begin = seconds_now();
    const auto recv = group.run(c, send, c.count * 4, {}, 1);
    cutting.join();
    EXPECT_TRUE(recv[0].empty());
    EXPECT_LT(seconds_now() - begin, 2);
    const auto has_failed = [&](uint32_t rank) { return group[rank].segments().poisoned().status != NVRAR_OK; };
    while (!(has_failed(0) && has_failed(1)) && seconds_now() - begin < 2) ::usleep(1000);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(group[rank].segments().poisoned().status, NVRAR_PEER_LOST) << rank;
    }
  }
}

// Each rank leaves as soon as it has what it needs: what it has sent still arrives.
TEST(Crossing, WhatARankHasSentArrivesAlthoughItLeaves) {
  for (int i = 0; i < 8; ++i) {
    Group group(kSpans[0], uint64_t{4} << 20, false, {4, 4, kSpinNs});
    EXPECT_TRUE(group.run_freely({Algorithm::kOneShot, NVRAR_FLOAT32, NVRAR_SUM, 50'000}, 3, true));
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(group[rank].segments().poisoned().status, NVRAR_OK) << rank;
  }
}

TEST(Crossing, AReasonCountsThatCameBeforeAnotherConnectionEnded) {
  for (const uint32_t connection : {1u, 2u}) {  // of another thread, and of the same one
    for (int i = 0; i < 10; ++i) {
      Group group(kSpans[0], uint64_t{1} << 20, false, {4, 2, kSpinNs});
      group[1].segments().poison({NVRAR_ABORTED, 1, {}, 1});
      group[1].proxy().talk().tell(group[1].segments().poisoned());
      group[1].proxy().talk().links().to(0, connection)->end();
      const double begin = seconds_now();
      while (group[0].segments().poisoned().status == NVRAR_OK && seconds_now() - begin < 5) ::usleep(100);
      EXPECT_EQ(group[0].segments().poisoned().status, NVRAR_ABORTED);
    }
  }
}

// Sends to and receives from one rank of another node, each of a few sizes, in turn.
void exchange(Rank& own, uint32_t rank, uint32_t peer, const std::vector<uint64_t>& sizes) {
  FarTransferPort port(own.arena(), own.layout(), peer);
  protocol::PairEnd ends[2] = {FarTransferPort::end(peer), FarTransferPort::end(peer)};
  const auto pattern = [](uint32_t from, size_t turn, uint64_t at) {
    return static_cast<uint8_t>(from * 31 + turn * 7 + at * 13 + at / 251);
  };
  own.proxy().transfers_launched();
  for (size_t turn = 0; turn < sizes.size(); ++turn) {
    std::vector<uint8_t> send(sizes[turn]);
    std::vector<uint8_t> recv(sizes[turn], 0x5B);
    for (uint64_t i = 0; i < send.size(); ++i) send[i] = pattern(rank, turn, i);
    const auto transfer = [&](std::vector<uint8_t>& of) {
      protocol::Transfer made{};
      made.header = {of.size(), static_cast<uint32_t>(turn), NVRAR_UINT8};
      made.address = reinterpret_cast<uint64_t>(of.data());
      made.bytes = of.size();
      return made;
    };
    protocol::Transfer out = transfer(send);
    protocol::Transfer in = transfer(recv);
    const double begin = seconds_now();
    while ((!out.complete() || !in.complete()) && seconds_now() - begin < 20) {
      if (!out.complete() && protocol::push(port, ends[0], out) == protocol::Step::kMoved) port.ring();
      if (!in.complete()) {
        ASSERT_LE(protocol::pull(port, ends[1], in), protocol::Step::kMoved);
      }
    }
    ASSERT_TRUE(out.complete() && in.complete()) << "turn " << turn;
    for (uint64_t i = 0; i < recv.size(); ++i) ASSERT_EQ(recv[i], pattern(peer, turn, i)) << turn << " " << i;
  }
}

TEST(Crossing, TransfersBetweenNodesArriveWholeAndInOrder) {
  for (const bool encrypted : {false, true}) {
    Group group(kSpans[3], uint64_t{1} << 20, encrypted, {4, 2, kSpinNs});  // 1 + 3
    std::vector<uint64_t> sizes{1, 8, 13, 4096, 200'000, 1'000'003, 5};
    std::vector<std::thread> threads;
    threads.emplace_back([&] { exchange(group[0], 0, 1, sizes); });
    threads.emplace_back([&] { exchange(group[1], 1, 0, sizes); });
    threads.emplace_back([&] { exchange(group[0], 0, 3, sizes); });
    threads.emplace_back([&] { exchange(group[3], 3, 0, sizes); });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Crossing, TransfersThatNoRankSendsAreRefused) {
  Group group(kSpans[0], uint64_t{1} << 20);
  cuda::Proxy& proxy = group[0].proxy();
  link::Link& from = *proxy.talk().links().to(1);
  constexpr uint32_t kTransfer = uint32_t{1} << 30;
  link::FrameHead honest{};
  honest.kind = link::FrameKind::kChunk;
  honest.slot = kTransfer;
  honest.bytes = 512;
  using Kind = link::Destination::Kind;
  EXPECT_EQ(proxy.where(from, honest).kind, Kind::kMemory);
  const auto refused = [&](auto change) {
    link::FrameHead head = honest;
    change(&head);
    return proxy.where(from, head).kind == Kind::kRefused;
  };
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->epoch = 1; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->bytes = 511; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->bytes = protocol::kTransferSlots * 8 + 8; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->slot |= 2; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { *head = {0, head->kind, 0, 0, kTransfer | 1, 1}; }));
  EXPECT_EQ(proxy.where(*proxy.talk().links().to(1, 1), honest).kind, Kind::kRefused);
}

// The threads of a proxy that look at lines stand still, in a handler of faults, until this ends: a page of its lines
// cannot be read.
class StandingStill {
 public:
  explicit StandingStill(Rank& rank) {
    struct sigaction handler {};
    handler.sa_handler = wait;
    EXPECT_EQ(::sigaction(SIGSEGV, &handler, &before_), 0);
    page_ = rank.arena() + CrossingLayout::line(1, protocol::kMostChunks / 2);
    stands_ = true;
    EXPECT_EQ(::mprotect(page_, kPageBytes, PROT_NONE), 0);
  }
  // The handler stays until the end, because a thread may be in it.
  void go_on() { stands_ = false; }
  ~StandingStill() {
    go_on();
    EXPECT_EQ(::sigaction(SIGSEGV, &before_, nullptr), 0);
  }
  StandingStill(const StandingStill&) = delete;
  StandingStill& operator=(const StandingStill&) = delete;

 private:
  static constexpr size_t kPageBytes = 4096;

  static void wait(int) {
    while (stands_) ::usleep(1000);
    if (::mprotect(page_, kPageBytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  }

  static inline std::atomic<bool> stands_{false};
  static inline uint8_t* page_ = nullptr;
  struct sigaction before_ {};
};

TEST(Crossing, AThreadThatStandsStillIsFoundOnceABellHasRungForIt) {
  Group group(kSpans[0], uint64_t{1} << 20, false, {4, 2, kSpinNs});
  cuda::Proxy& proxy = group[0].proxy();
  const auto still_looks = [&] {
    int still = 0;
    for (int look = 0; look < 5; ++look) {
      ::usleep(100'000);
      if (proxy.stands_still()) ++still;
    }
    return still;
  };
  EXPECT_EQ(still_looks(), 0);
  StandingStill threads(group[0]);
  ::usleep(100'000);
  auto& line = *reinterpret_cast<protocol::ChunkLine*>(group[0].arena() + CrossingLayout::line(0, 0));
  line.to = 0;
  __atomic_store_n(&line.bell, protocol::first_epoch(), __ATOMIC_RELEASE);
  EXPECT_GE(still_looks(), 4);
  threads.go_on();
  ::usleep(100'000);
  EXPECT_EQ(still_looks(), 0);
}

// Chunks wait while a socket takes no more, and nothing but the socket wakes their thread then.
TEST(Crossing, ChunksThatWaitForASocketAreSentOnceItTakesThem) {
  Group group(kSpans[0], uint64_t{4} << 20, false, {1, 1, 1});
  link::Link& link = *group[0].proxy().talk().links().to(1);
  const int little = 4096;
  ASSERT_EQ(::setsockopt(link.fd(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
  StandingStill threads(group[1]);
  std::thread goes_on([&] {
    ::usleep(300'000);
    threads.go_on();
  });
  const CrossingCase c{Algorithm::kBroadcast, NVRAR_UINT8, kNoOp, 3 << 20};
  std::mt19937_64 random(11);
  const double begin = seconds_now();
  expect_right(group, kSpans[0], c, random);
  EXPECT_GT(seconds_now() - begin, 0.2) << "it did not wait for the other rank, which shows nothing";
  EXPECT_LT(seconds_now() - begin, 10);
  goes_on.join();
}

// A kernel that was enqueued may begin at any time, and its bell is then found at once.
TEST(Crossing, TheProxyLooksAllTheTimeWhileALaunchIsAwaited) {
  Group group(kSpans[0], uint64_t{1} << 20, false, {1, 1, 1'000'000});
  cuda::Proxy& proxy = group[0].proxy();
  const auto looks_in_20_ms = [&] {
    ::usleep(20'000);
    const uint64_t before = proxy.looks();
    ::usleep(20'000);
    return proxy.looks() - before;
  };
  EXPECT_LT(looks_in_20_ms(), 40);
  proxy.launched(0);
  EXPECT_LT(looks_in_20_ms(), 40);
  proxy.launched(proxy.due_with_next());
  EXPECT_GT(looks_in_20_ms(), 1000);
  auto& page = *reinterpret_cast<protocol::CrossingPage*>(group[0].arena());
  __atomic_store_n(&page.epoch, protocol::first_epoch(), __ATOMIC_RELEASE);
  EXPECT_LT(looks_in_20_ms(), 40);
  // A kernel that enters before the host says that it has enqueued it.
  const uint64_t due = proxy.due_with_next();
  __atomic_store_n(&page.epoch, protocol::first_epoch() + 1, __ATOMIC_RELEASE);
  proxy.launched(due);
  EXPECT_LT(looks_in_20_ms(), 40);
}

TEST(Crossing, ChunksThatNoRankSendsAreRefused) {
  const Topology topology = kSpans[0];
  Group group(topology, uint64_t{1} << 20);
  cuda::Proxy& proxy = group[0].proxy();
  link::Link& from = *proxy.talk().links().to(1);
  link::FrameHead honest{};
  honest.kind = link::FrameKind::kChunk;
  honest.bytes = 512;
  honest.epoch = protocol::first_epoch();
  using Kind = link::Destination::Kind;
  EXPECT_EQ(proxy.where(from, honest).kind, Kind::kMemory);
  const auto refused = [&](auto change) {
    link::FrameHead head = honest;
    change(&head);
    return proxy.where(from, head).kind == Kind::kRefused;
  };
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->slot = protocol::kMostChunks; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->offset = 8; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->offset = 1 << 20; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->offset = 0xFFFFFFF0; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->bytes = (1 << 20) + 16; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->epoch -= 2; }));
  EXPECT_TRUE(refused([](link::FrameHead* head) { head->kind = link::FrameKind::kPackets; }));
  // One launch more may be under way than this rank's kernel has told of.
  link::FrameHead late = honest;
  late.epoch += 1;
  EXPECT_EQ(proxy.where(from, late).kind, Kind::kLater);
}

}  // namespace
}  // namespace nvrar::test
