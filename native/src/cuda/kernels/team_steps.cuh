// All-reduces of float sums by teams: the steps of protocol/one_shot.h and two_shot.h with their packets, slots and
// order of sums, but a warp for each peer. A team of as many warps as the group has ranks does a tile: one run of a
// one-shot message, a run of each slice of a two-shot one. Warp k of a team sends to rank + k and waits for rank + k
// only, so a thread has one packet in flight each way; the packets of all meet in shared memory, where each thread sums
// one word. (A warp that sends to all and waits for all takes 0.4 to 0.8 us more a hop.) For messages of whole packets
// at addresses that are multiples of a packet's size; a rank whose message is none runs the steps of protocol/ instead,
// and the others need not know.
#pragma once

#include "kernels/entry.cuh"
#include "protocol/element.h"
#include "protocol/slices.h"

namespace nvrar::cuda {

using protocol::Hop;
using protocol::PacketKind;
using protocol::SentinelPacket;

// The sum of a word's elements, in rank order, rounded once; what element.h says, in the device's own instructions.
template <class Element>
struct WordSum;

template <>
struct WordSum<protocol::Float32> {
  float sum;
  __device__ __forceinline__ explicit WordSum(uint32_t word) : sum(__uint_as_float(word)) {}
  __device__ __forceinline__ void add(uint32_t word) { sum += __uint_as_float(word); }
  __device__ __forceinline__ uint32_t round() const { return __float_as_uint(sum); }
};

template <>
struct WordSum<protocol::Bfloat16> {
  float low, high;
  __device__ __forceinline__ explicit WordSum(uint32_t word)
      : low(__uint_as_float(word << 16)), high(__uint_as_float(word & 0xFFFF0000u)) {}
  __device__ __forceinline__ void add(uint32_t word) {
    low += __uint_as_float(word << 16);
    high += __uint_as_float(word & 0xFFFF0000u);
  }
  __device__ __forceinline__ uint32_t round() const {
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

template <>
struct WordSum<protocol::Float16> {
  float low, high;
  static __device__ __forceinline__ void widen(uint32_t word, float* low, float* high) {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(*low), "=f"(*high)
        : "r"(word));
  }
  __device__ __forceinline__ explicit WordSum(uint32_t word) { widen(word, &low, &high); }
  __device__ __forceinline__ void add(uint32_t word) {
    float other_low, other_high;
    widen(word, &other_low, &other_high);
    low += other_low;
    high += other_high;
  }
  __device__ __forceinline__ uint32_t round() const {
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

// Always true. ptxas sinks address arithmetic below the entry's load; a branch that is never taken pins it above.
__device__ __forceinline__ bool pins_addresses(uint32_t even, uint32_t odd, const void* theirs, const void* own) {
  return (even ^ uint64_t{odd} << 32 ^ reinterpret_cast<uint64_t>(theirs) ^ reinterpret_cast<uint64_t>(own)) !=
         0x9E3779B97F4A7C15ull;
}

// call_header.h, by one thread for each peer of a launch. Where the headers lie is known before the launch's number is.
class HeaderExchange {
 public:
  HeaderExchange() = default;
  __device__ __forceinline__ HeaderExchange(const KernelArgs& args, uint32_t peer)
      : to_(args.rings[peer] + protocol::RingLayout::header_slot(0, args.launch.rank)),
        from_(args.rings[args.launch.rank] + protocol::RingLayout::header_slot(0, peer)) {}
  __device__ __forceinline__ void send(const KernelArgs& args, uint64_t epoch) const {
    Packet payload{};
    payload[0] = args.launch.header_hash;
    send_packet(args, to_ + of(epoch), protocol::EpochPacket::seal(payload, epoch));
  }
  __device__ __forceinline__ bool check(const KernelArgs& args, uint32_t peer, uint64_t epoch) const {
    if (protocol::planted(protocol::Defect::kNoHeaderWait)) return true;
    Packet packet;
    if (!await<protocol::EpochPacket>(args, from_ + of(epoch), peer, epoch, &packet)) return false;
    if (packet[0] == args.launch.header_hash) return true;
    fail(args, FailureKind::kMismatch, 1u << peer);
    return false;
  }

 private:
  static __device__ __forceinline__ uint32_t of(uint64_t epoch) {
    return static_cast<uint32_t>(protocol::RingLayout::header_slot(epoch, 0));
  }
  Packet* to_;
  Packet* from_;
};

// kRanks: the world, or 0 for any. kSingle: a team has one tile at most, and the code no loops.
template <class Element, uint32_t kRanks, bool kTwoShot, bool kSingle>
class TeamAllReduce {
 public:
  static constexpr uint32_t kRunBytes = SentinelPacket::kRunBytes;
  // Bytes and slots of a launch fit into 32 bits.
  static_assert(8 * protocol::kMaxRingBytes / protocol::kPacketBytes < uint64_t{1} << 32);
  static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");
  static constexpr uint32_t kWordsPerRun = kRunBytes / sizeof(uint32_t);

  __device__ __forceinline__ TeamAllReduce(const KernelArgs& args, Packet* gathered, Packet* results)
      : args_(args),
        gathered_(gathered),
        results_(results),
        world_(kRanks != 0 ? kRanks : args.launch.topology().world),
        rank_(args.launch.rank),
        lane_(threadIdx.x % kWarpThreads),
        warp_(threadIdx.x / kWarpThreads % world_),
        team_(threadIdx.x / kWarpThreads / world_),
        thread_(threadIdx.x - team_ * world_ * kWarpThreads),
        first_(block_index() * teams() + team_),
        bytes_(static_cast<uint32_t>(args.launch.bytes)) {
    peer_ = rank_ + warp_;
    if (peer_ >= world_) peer_ -= world_;
    own_ = args.rings[rank_];
    theirs_ = args.rings[peer_];
  }

  __device__ __forceinline__ bool prepare() {
    input_ = load(first_);
    const protocol::RingLayout& layout = args_.launch.layout;
    even_data_ = static_cast<uint32_t>(layout.slot(PacketKind::kSentinel, 0, Hop::kData, 0));
    odd_data_ = static_cast<uint32_t>(layout.slot(PacketKind::kSentinel, 1, Hop::kData, 0));
    return pins_addresses(even_data_, odd_data_, theirs_, own_);
  }

  __device__ __forceinline__ void send(uint64_t epoch) {
    epoch_ = epoch;
    data_ = epoch_ % protocol::kParities == 0 ? even_data_ : odd_data_;
    each_tile([&](uint32_t tile) {
      const Packet payload = is_first(tile) ? input_ : load(tile);
      if (warp_ != 0 && has(run_of_peer(tile))) {
        send_packet(args_, theirs_ + data_ + slot(tile, rank_), SentinelPacket::seal(payload, epoch_));
      }
    });
    header_ = HeaderExchange(args_, header_peer());
    if (is_for_header()) header_.send(args_, epoch_);
  }

  __device__ __forceinline__ void finish(uint64_t) {
    bool good = !is_for_header() || header_.check(args_, header_peer(), epoch_);
    each_tile([&](uint32_t tile) {
      // Of the run that this rank sums; the own part of it warp 0 has at hand.
      Packet packet = input_;
      const bool sums = has(run_of_rank(tile));
      if (sums && warp_ != 0) {
        good = good && await<SentinelPacket>(args_, own_ + data_ + slot(tile, peer_), peer_, epoch_, &packet);
      } else if (sums && !is_first(tile)) {
        packet = load(tile);
      }
      gathered_[(team_ * world_ + peer_) * kWarpThreads + lane_] = packet;
      // What is no sum of all may neither be stored nor reach a peer.
      good = sync_team_and(good);
      for (uint32_t word = thread_; word < kWordsPerRun; word += world_ * kWarpThreads) {
        const uint32_t sum = sum_of(word);
        if (kTwoShot) {
          reinterpret_cast<uint32_t*>(results_ + team_ * kWarpThreads)[word] = sum;
        } else if (good) {
          store_word(tile * kRunBytes + word * sizeof(uint32_t), sum);
        }
      }
      if (sums && warp_ != 0) clear_packet(args_, own_ + data_ + slot(tile, peer_));
      if (kTwoShot) {
        sync_team();
        const Packet result = results_[team_ * kWarpThreads + lane_];
        if (good && sums) {
          if (warp_ != 0) {
            send_packet(args_, theirs_ + data_ + result_hop() + slot(tile, rank_),
                        SentinelPacket::seal(result, epoch_));
          } else {
            store(run_of_rank(tile), result);
          }
        }
      } else if (!kSingle && (tile + step()) * tile_bytes() < bytes_) {
        sync_team();  // before the next tile overwrites what is summed here
      }
    });

    if (kTwoShot) {
      each_tile([&](uint32_t tile) {
        if (!good || warp_ == 0 || !has(run_of_peer(tile))) return;
        Packet packet;
        Packet* const at = own_ + data_ + result_hop() + slot(tile, peer_);
        good = await<SentinelPacket>(args_, at, peer_, epoch_, &packet);
        if (!good) return;
        store(run_of_peer(tile), packet);
        clear_packet(args_, at);
      });
    }
  }

 private:
  template <class Visit>
  __device__ __forceinline__ void each_tile(Visit visit) const {
    if (kSingle) {
      if (first_ * tile_bytes() < bytes_) visit(first_);
    } else {
      for (uint32_t tile = first_; tile * tile_bytes() < bytes_; tile += step()) visit(tile);
    }
  }
  __device__ __forceinline__ bool is_first(uint32_t tile) const { return kSingle || tile == first_; }

  __device__ __forceinline__ uint32_t teams() const { return blockDim.x / (kWarpThreads * world_); }
  __device__ __forceinline__ uint32_t step() const { return grid_blocks() * teams(); }
  __device__ __forceinline__ uint32_t tile_bytes() const { return kTwoShot ? world_ * kRunBytes : kRunBytes; }
  // The run of a tile that the peer sums, and that this rank sums: slices.h. In one-shot there is one.
  __device__ __forceinline__ uint32_t run_of_peer(uint32_t tile) const {
    return kTwoShot ? tile * world_ + peer_ : tile;
  }
  __device__ __forceinline__ uint32_t run_of_rank(uint32_t tile) const {
    return kTwoShot ? tile * world_ + rank_ : tile;
  }
  __device__ __forceinline__ uint32_t slot(uint32_t tile, uint32_t source) const {
    return (tile * world_ + source) * protocol::kRunPackets + lane_;
  }
  // From a slot of the data to that of the results.
  __device__ __forceinline__ uint32_t result_hop() const {
    if (protocol::planted(protocol::Defect::kSharedHops)) return 0;
    return static_cast<uint32_t>(args_.launch.layout.area_slots(PacketKind::kSentinel));
  }
  __device__ __forceinline__ uint32_t offset(uint32_t run) const {
    return run * kRunBytes + lane_ * protocol::kPacketBytes;
  }
  __device__ __forceinline__ bool has(uint32_t run) const { return offset(run) < bytes_; }
  __device__ __forceinline__ Packet load(uint32_t tile) const {
    const uint32_t at = offset(run_of_peer(tile));
    return at < bytes_ ? *reinterpret_cast<const Packet*>(args_.launch.send + at) : Packet{};
  }
  __device__ __forceinline__ void store(uint32_t run, const Packet& packet) const {
    *reinterpret_cast<Packet*>(args_.launch.recv + offset(run)) = packet;
  }
  __device__ __forceinline__ void store_word(uint32_t at, uint32_t word) const {
    if (at < bytes_) *reinterpret_cast<uint32_t*>(args_.launch.recv + at) = word;
  }
  __device__ __forceinline__ uint32_t sum_of(uint32_t word) const {
    const auto* const words = reinterpret_cast<const uint32_t*>(gathered_ + team_ * world_ * kWarpThreads) + word;
    const auto in_order = [&](uint32_t turn) {
      if (!protocol::planted(protocol::Defect::kOwnFirst)) return turn;
      return turn == 0 ? rank_ : turn == rank_ ? 0 : turn;
    };
    WordSum<Element> sum(words[in_order(0) * kWordsPerRun]);
#pragma unroll
    for (uint32_t source = 1; source < protocol::kMaxRanks; ++source) {
      if (source < world_) sum.add(words[in_order(source) * kWordsPerRun]);
    }
    return sum.round();
  }
  __device__ __forceinline__ void sync_team() const {
    asm volatile("bar.sync %0, %1;" ::"r"(team_ + 1), "r"(world_ * kWarpThreads) : "memory");
  }

  // Whether all of the team are good.
  __device__ __forceinline__ bool sync_team_and(bool good) const {
    uint32_t all;
    asm volatile("{.reg .pred p, q; setp.ne.u32 p, %3, 0; barrier.cta.red.and.pred q, %1, %2, p; selp.u32 %0, 1, 0, q;}"
                 : "=r"(all)
                 : "r"(team_ + 1), "r"(world_ * kWarpThreads), "r"(static_cast<uint32_t>(good))
                 : "memory");
    return all != 0;
  }

  // One team does it for all: its warp 0, which has no peer, has a lane for each.
  __device__ __forceinline__ bool is_for_header() const {
    return block_index() == 0 && team_ == 0 && warp_ == 0 && lane_ != 0 && lane_ < world_;
  }
  __device__ __forceinline__ uint32_t header_peer() const {
    const uint32_t peer = rank_ + lane_ % protocol::kMaxRanks;
    return peer < world_ ? peer : peer - world_;
  }

  const KernelArgs& args_;
  Packet* const gathered_;  // shared by a block's threads
  Packet* const results_;
  uint32_t world_;
  uint32_t rank_;
  uint32_t lane_;
  uint32_t warp_;
  uint32_t team_;
  uint32_t thread_;
  uint32_t peer_;
  uint32_t first_;  // tile
  uint32_t bytes_;
  Packet* own_;
  Packet* theirs_;
  Packet input_;  // of the first tile
  uint32_t even_data_ = 0;
  uint32_t odd_data_ = 0;
  uint64_t epoch_ = 0;
  uint32_t data_ = 0;  // first slot of the launch's area
  HeaderExchange header_;
};

// One-shot between two ranks: there is one packet to wait for, so the thread that has it also has all that it adds. A
// warp does a run; a block's last warp does none, in block 0 it has the header.
template <class Element, bool kSingle>
class PairAllReduce {
 public:
  static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");
  static constexpr uint32_t kRunBytes = SentinelPacket::kRunBytes;
  static constexpr uint32_t kRanks = 2;

  __device__ __forceinline__ explicit PairAllReduce(const KernelArgs& args)
      : args_(args),
        bytes_(static_cast<uint32_t>(args.launch.bytes)),
        rank_(args.launch.rank),
        peer_(1 - rank_),
        lane_(threadIdx.x % kWarpThreads) {
    const uint32_t warp = threadIdx.x / kWarpThreads;
    const uint32_t warps = blockDim.x / kWarpThreads - 1;
    for_header_ = warp == warps;
    first_run_ = for_header_ ? ~0u / kRunBytes : block_index() * warps + warp;
    step_ = grid_blocks() * warps;
    own_ = args.rings[rank_];
    theirs_ = args.rings[peer_];
  }

  __device__ __forceinline__ bool prepare() {
    first_at_ = first_run_ * kRunBytes + lane_ * protocol::kPacketBytes;
    input_ = load(first_at_);
    const protocol::RingLayout& layout = args_.launch.layout;
    even_data_ = static_cast<uint32_t>(layout.slot(PacketKind::kSentinel, 0, Hop::kData, 0));
    odd_data_ = static_cast<uint32_t>(layout.slot(PacketKind::kSentinel, 1, Hop::kData, 0));
    header_ = HeaderExchange(args_, peer_);
    return pins_addresses(even_data_, odd_data_, theirs_, own_);
  }

  __device__ __forceinline__ void send(uint64_t epoch) {
    data_ = (epoch % protocol::kParities == 0 ? even_data_ : odd_data_) + lane_;
    for (uint32_t run = first_run_, at = first_at_; at < bytes_; run += step_, at += step_ * kRunBytes) {
      const Packet payload = is_first(at) ? input_ : load(at);
      send_packet(args_, theirs_ + slot(run, rank_), SentinelPacket::seal(payload, epoch));
      if (kSingle) break;
    }
    has_header_ = for_header_ && block_index() == 0 && lane_ == 0;
    if (has_header_) header_.send(args_, epoch);
  }

  __device__ __forceinline__ void finish(uint64_t epoch) {
    if (has_header_) (void)header_.check(args_, peer_, epoch);
    bool good = true;
    for (uint32_t run = first_run_, at = first_at_; at < bytes_ && good; run += step_, at += step_ * kRunBytes) {
      const Packet mine = is_first(at) ? input_ : load(at);
      Packet other;
      Packet* const from = own_ + slot(run, peer_);
      good = await<SentinelPacket>(args_, from, peer_, epoch, &other);
      if (!good) break;
      Packet sum;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        WordSum<Element> word(rank_ == 0 ? mine[i] : other[i]);
        word.add(rank_ == 0 ? other[i] : mine[i]);
        sum[i] = word.round();
      }
      *reinterpret_cast<Packet*>(args_.launch.recv + at) = sum;
      clear_packet(args_, from);
      if (kSingle) break;
    }
  }

 private:
  __device__ __forceinline__ bool is_first(uint32_t at) const { return kSingle || at == first_at_; }
  __device__ __forceinline__ uint32_t slot(uint32_t run, uint32_t source) const {
    return data_ + (run * kRanks + source) * protocol::kRunPackets;
  }
  __device__ __forceinline__ Packet load(uint32_t at) const {
    return at < bytes_ ? *reinterpret_cast<const Packet*>(args_.launch.send + at) : Packet{};
  }

  const KernelArgs& args_;
  uint32_t bytes_;
  uint32_t rank_;
  uint32_t peer_;
  uint32_t lane_;
  bool for_header_;  // this warp, of whatever block
  bool has_header_ = false;
  uint32_t first_run_;
  uint32_t step_;
  Packet* own_;
  Packet* theirs_;
  uint32_t first_at_ = 0;
  Packet input_;  // of the first run
  uint32_t even_data_ = 0;
  uint32_t odd_data_ = 0;
  uint32_t data_ = 0;  // this lane's first slot of the launch's area
  HeaderExchange header_;
};

template <class Element, uint32_t kRanks, bool kTwoShot, bool kSingle>
__device__ __forceinline__ void team_all_reduce(const KernelArgs& args) {
  __shared__ Packet gathered[kTeamWarps * kWarpThreads];
  __shared__ Packet results[kTwoShot ? kTeamWarps / 2 * kWarpThreads : 1];
  TeamAllReduce<Element, kRanks, kTwoShot, kSingle> body(args, gathered, results);
  run_in_launch(args, body);
}

template <class Element, bool kSingle>
__device__ __forceinline__ void pair_all_reduce(const KernelArgs& args) {
  PairAllReduce<Element, kSingle> body(args);
  run_in_launch(args, body);
}

}  // namespace nvrar::cuda

#define NVRAR_TEAM_KERNEL(name, ...) NVRAR_KERNEL(name, kTeamWarps* kWarpThreads, 3, __VA_ARGS__)
#define NVRAR_PAIR_KERNEL(name, ...) NVRAR_KERNEL(name, kPairWarps* kWarpThreads, kPlaces, __VA_ARGS__)
#define NVRAR_TWO_SHOT_KERNELS_OF(type, element, ranks)                                                \
  NVRAR_TEAM_KERNEL(two_shot_##type##_##ranks, team_all_reduce<protocol::element, ranks, true, false>) \
  NVRAR_TEAM_KERNEL(two_shot_##type##_##ranks##_single, team_all_reduce<protocol::element, ranks, true, true>)
#define NVRAR_ONE_SHOT_KERNELS_OF(type, element, ranks)                                                 \
  NVRAR_TEAM_KERNEL(one_shot_##type##_##ranks, team_all_reduce<protocol::element, ranks, false, false>) \
  NVRAR_TEAM_KERNEL(one_shot_##type##_##ranks##_single, team_all_reduce<protocol::element, ranks, false, true>)
// For every world, and for those that are most used.
#define NVRAR_TEAM_KERNELS(type, element)                                                     \
  NVRAR_PAIR_KERNEL(one_shot_##type##_2, pair_all_reduce<protocol::element, false>)           \
  NVRAR_PAIR_KERNEL(one_shot_##type##_2_single, pair_all_reduce<protocol::element, true>)     \
  NVRAR_ONE_SHOT_KERNELS_OF(type, element, 4)                                                 \
  NVRAR_ONE_SHOT_KERNELS_OF(type, element, 8)                                                 \
  NVRAR_TEAM_KERNEL(one_shot_##type##_0, team_all_reduce<protocol::element, 0, false, false>) \
  NVRAR_TWO_SHOT_KERNELS_OF(type, element, 2)                                                 \
  NVRAR_TWO_SHOT_KERNELS_OF(type, element, 4)                                                 \
  NVRAR_TWO_SHOT_KERNELS_OF(type, element, 8)                                                 \
  NVRAR_TEAM_KERNEL(two_shot_##type##_0, team_all_reduce<protocol::element, 0, true, false>)
