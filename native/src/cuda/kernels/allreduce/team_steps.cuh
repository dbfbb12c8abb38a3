// All-reduces and reduce-scatters of float sums by teams of warps (protocol/team.h). Each lane of a warp handles one
// packet of a run; each thread of a team sums some of the words.
#pragma once

#include "kernels/allreduce/epilogue.cuh"
#include "kernels/allreduce/pair_steps.cuh"
#include "kernels/allreduce/word_sum.cuh"
#include "kernels/launch/header_exchange.cuh"
#include "kernels/launch/lane_slots.cuh"
#include "kernels/launch/take_and_clear.cuh"
#include "protocol/team.h"

namespace nvrar::cuda {

// A reduce-scatter is a one-shot in which every worker sends another part of the message.
enum class TeamForm { kOneShot, kTwoShot, kReduceScatter };

// kRanks: the world size, or 0 for any. kSingle: a team has at most one tile, so the code has no loops over tiles.
template <class Element, uint32_t kRanks, TeamForm kForm, bool kSingle, class Part, class Epilogue>
class TeamSum {
 public:
  using MessagePart = Part;
  static constexpr bool kTwoShot = kForm == TeamForm::kTwoShot;
  static constexpr bool kChecks = false;
  static constexpr uint32_t kRunBytes = protocol::SentinelPacket::kRunBytes;
  static_assert(protocol::kFitsSentinels<Element>, "what a sentinel packet changes is a number in this type");
  static constexpr uint32_t kWordsPerRun = kRunBytes / sizeof(uint32_t);

  __device__ __forceinline__ TeamSum(const KernelArgs& args, Packet* gathered, Packet* results)
      : args_(args),
        part_(args),
        epilogue_(args, part_),
        gathered_(gathered),
        results_(results),
        world_(kRanks != 0 ? kRanks : args.launch.topology().world),
        rank_(args.launch.rank),
        lane_(threadIdx.x % kWarpThreads),
        warp_(threadIdx.x / kWarpThreads % world_),
        team_(threadIdx.x / kWarpThreads / world_),
        thread_(threadIdx.x - team_ * world_ * kWarpThreads),
        first_(part_.block() * teams() + team_),
        bytes_(part_.bytes) {
    peer_ = rank_ + warp_;
    if (peer_ >= world_) peer_ -= world_;
    const uint32_t begin = part_.first_slot(world_ * kWarpThreads);
    own_ = LaneSlots(args.launch.layout, args.rings[rank_] + begin, tiles().data_slot(first_, peer_));
    theirs_ = LaneSlots(args.launch.layout, args.rings[peer_] + begin, tiles().data_slot(first_, rank_));
    sent_ = args.launch.send + part_.begin() +
            (kForm == TeamForm::kReduceScatter ? peer_ * args.launch.send_stride_bytes : 0);
    from_ = sent_ + offset(tiles().run(first_, peer_));
  }

  __device__ __forceinline__ bool prepare() {
    return own_.prepare() && theirs_.prepare() && pins(from_) && epilogue_.prepare();
  }
  template <bool kAtOnce>
  __device__ __forceinline__ void load() {
    input_ = load_input<kAtOnce>(from_, has(tiles().run(first_, peer_)));
  }

  __device__ __forceinline__ void send(const Entered& entered) {
    theirs_.select(entered.odd);
    own_.select(entered.odd);
    if (entered.alive) protocol::send_tiles(*this, tiles());
  }

  __device__ __forceinline__ void finish(const Entered& entered) {
    if (kSingle) expect_first(first_);
    epilogue_.sent();
    const bool good = protocol::reduce_tiles(*this, tiles(), args_.launch.layout, entered.alive);
    epilogue_.finish(*this, good);
  }

  // For the epilogue. In a two-shot a thread has a packet of each run that its warp drains, else some of the words that
  // its team sums.
  template <class Visit>
  __device__ __forceinline__ void each_result(Visit visit) const {
    each_tile([&](uint32_t tile) {
      const uint32_t run = tiles().run(tile, peer_);
      if constexpr (kTwoShot) {
        visit(offset(run), has(run));
      } else {
        each_word([&](uint32_t word) { visit(at(run, word), at(run, word) < bytes_); });
      }
    });
  }

  // The interface of protocol/team.h.
  __device__ __forceinline__ uint32_t rank() const { return rank_; }
  template <class Visit>
  __device__ __forceinline__ void each_tile(Visit visit) const {
    const uint32_t tile_bytes = tiles().tile_bytes();
    if (kSingle) {
      if (first_ * tile_bytes < bytes_) visit(first_);
    } else {
      for (uint32_t tile = first_; tile * tile_bytes < bytes_; tile += step()) visit(tile);
    }
  }
  template <class Visit>
  __device__ __forceinline__ void each_peer(Visit visit) const {
    if (warp_ != 0) visit(peer_);
  }
  template <class Visit>
  __device__ __forceinline__ void each_source(Visit visit) const {
    visit(peer_);
  }
  __device__ __forceinline__ void push(uint32_t, uint32_t slot, uint32_t tile, uint32_t run) const {
    const bool is_loaded = is_first(tile) && !protocol::planted(protocol::Defect::kNextOwner);
    const Packet payload = is_loaded ? input_ : load(run);
    if (has(run)) send_packet(args_, theirs_.at(slot), protocol::SentinelPacket::seal(payload, 0));
  }
  __device__ __forceinline__ bool gather(uint32_t source, uint32_t slot, uint32_t tile, uint32_t run, bool good) {
    if (!kSingle && !kTwoShot) expect_first(tile);
    Packet packet = input_;
    if (has(run) && warp_ != 0) {
      good = good && await<protocol::SentinelPacket>(args_, own_.at(slot), source, 0, &packet);
    } else if (has(run) && !is_first(tile)) {
      packet = load(run);
    }
    gathered_[(team_ * world_ + source) * kWarpThreads + lane_] = packet;
    return good;
  }
  __device__ __forceinline__ bool meet(bool good) const {
    uint32_t all;
    asm volatile("{.reg .pred p, q; setp.ne.u32 p, %3, 0; barrier.cta.red.and.pred q, %1, %2, p; selp.u32 %0, 1, 0, q;}"
                 : "=r"(all)
                 : "r"(team_ + 1), "r"(world_ * kWarpThreads), "r"(static_cast<uint32_t>(good))
                 : "memory");
    return all != 0;
  }
  __device__ __forceinline__ void sum(uint32_t run, bool good) {
    each_word([&](uint32_t word) {
      const uint32_t sum = sum_of(word);
      if constexpr (kTwoShot) {
        reinterpret_cast<uint32_t*>(results_ + team_ * kWarpThreads)[word] = sum;
      } else if (good && at(run, word) < bytes_) {
        if (word != thread_) epilogue_.expect(at(run, word), true);
        epilogue_.take(at(run, word), sum);
      }
    });
  }
  __device__ __forceinline__ void clear(uint32_t slot, uint32_t run) const {
    if (has(run)) clear_packet(args_, own_.at(slot));
  }
  __device__ __forceinline__ void take_result() {
    sync_team();
    result_ = results_[team_ * kWarpThreads + lane_];
  }
  __device__ __forceinline__ void give_result(uint32_t, uint32_t slot, uint32_t run) {
    if (!has(run)) return;
    if (warp_ != 0) {
      send_packet(args_, theirs_.at(slot), protocol::SentinelPacket::seal(result_, 0));
    } else {
      if (!kSingle) epilogue_.expect(offset(run), true);
      epilogue_.take(offset(run), result_);
    }
  }
  __device__ __forceinline__ bool drain(uint32_t peer, uint32_t slot, uint32_t run) {
    if (!has(run)) return true;
    if (!kSingle) epilogue_.expect(offset(run), true);
    Packet packet;
    if (!await<protocol::SentinelPacket>(args_, own_.at(slot), peer, 0, &packet)) return false;
    epilogue_.take(offset(run), packet);
    clear_packet(args_, own_.at(slot));
    return true;
  }
  __device__ __forceinline__ void next_tile(uint32_t tile) const {
    if (!kSingle && (tile + step()) * tiles().tile_bytes() < bytes_) sync_team();
  }

 private:
  __device__ __forceinline__ protocol::Tiles<kTwoShot> tiles() const { return {{{world_, world_}}}; }
  __device__ __forceinline__ bool is_first(uint32_t tile) const { return kSingle || tile == first_; }
  __device__ __forceinline__ uint32_t teams() const { return blockDim.x / (kWarpThreads * world_); }
  __device__ __forceinline__ uint32_t step() const { return part_.blocks() * teams(); }

  __device__ __forceinline__ uint32_t offset(uint32_t run) const {
    return run * kRunBytes + lane_ * protocol::kPacketBytes;
  }
  __device__ __forceinline__ bool has(uint32_t run) const { return offset(run) < bytes_; }
  static __device__ __forceinline__ uint32_t at(uint32_t run, uint32_t word) {
    return run * kRunBytes + word * sizeof(uint32_t);
  }
  // The first vector of a tile's result that this thread takes.
  __device__ __forceinline__ void expect_first(uint32_t tile) {
    const uint32_t run = tiles().run(tile, peer_);
    if constexpr (kTwoShot) {
      epilogue_.expect(offset(run), has(run));
    } else {
      epilogue_.expect(at(run, thread_), thread_ < kWordsPerRun && at(run, thread_) < bytes_);
    }
  }
  // The words of a run that this thread sums.
  template <class Visit>
  __device__ __forceinline__ void each_word(Visit visit) const {
    for (uint32_t word = thread_; word < kWordsPerRun; word += world_ * kWarpThreads) visit(word);
  }
  __device__ __forceinline__ Packet load(uint32_t run) const {
    const uint32_t at = offset(run);
    return at < bytes_ ? *reinterpret_cast<const Packet*>(sent_ + at) : Packet{};
  }

  __device__ __forceinline__ uint32_t sum_of(uint32_t word) const {
    const auto* const words = reinterpret_cast<const uint32_t*>(gathered_ + team_ * world_ * kWarpThreads) + word;
    WordSum<Element> sum(words[protocol::source_in_turn(0, rank_) * kWordsPerRun]);
#pragma unroll
    for (uint32_t source = 1; source < protocol::kMaxRanks; ++source) {
      if (source < world_) sum.add(words[protocol::source_in_turn(source, rank_) * kWordsPerRun]);
    }
    return sum.round();
  }
  __device__ __forceinline__ void sync_team() const {
    asm volatile("bar.sync %0, %1;" ::"r"(team_ + 1), "r"(world_ * kWarpThreads) : "memory");
  }

  const KernelArgs& args_;
  const Part part_;
  Epilogue epilogue_;
  Packet* const gathered_;  // in shared memory
  Packet* const results_;
  uint32_t world_;
  uint32_t rank_;
  uint32_t lane_;
  uint32_t warp_;
  uint32_t team_;
  uint32_t thread_;
  uint32_t peer_;
  uint32_t first_;  // the first tile
  uint32_t bytes_;
  LaneSlots own_;
  LaneSlots theirs_;
  const uint8_t* sent_;  // what this worker sends, or keeps
  const uint8_t* from_;
  Packet input_;   // of the first tile
  Packet result_;  // of the current tile
};

template <class Element, uint32_t kRanks, TeamForm kForm, bool kSingle, bool kProgrammatic>
__device__ __forceinline__ void team_sum(const KernelArgs& args) {
  __shared__ Packet gathered[kTeamWarps * kWarpThreads];
  __shared__ Packet results[kForm == TeamForm::kTwoShot ? kTeamWarps / 2 * kWarpThreads : 1];
  run_beside_headers<TeamSum<Element, kRanks, kForm, kSingle, WholeMessage, StoreResult>, kProgrammatic>(args, gathered,
                                                                                                         results);
}

template <class Element, bool kScatters, bool kSingle, bool kProgrammatic>
__device__ __forceinline__ void pair_sum(const KernelArgs& args) {
  run_beside_headers<PairSum<Element, kScatters, kSingle, WholeMessage, StoreResult>, kProgrammatic>(args);
}

}  // namespace nvrar::cuda

#define NVRAR_TEAM_KERNEL(name, ...) NVRAR_KERNEL(name, kTeamWarps* kWarpThreads, 3, __VA_ARGS__)
#define NVRAR_PAIR_KERNEL(name, ...) NVRAR_KERNEL(name, kPairWarps* kWarpThreads, kPlaces, __VA_ARGS__)
// A kernel for blocks that repeat, and a faster one for blocks that do not.
#define NVRAR_TEAM_KERNEL_PAIR(name, suffix, element, ranks, form, programmatic)                           \
  NVRAR_TEAM_KERNEL(name##suffix, team_sum<protocol::element, ranks, TeamForm::form, false, programmatic>) \
  NVRAR_TEAM_KERNEL(name##_single##suffix, team_sum<protocol::element, ranks, TeamForm::form, true, programmatic>)
#define NVRAR_PAIR_KERNEL_PAIR(name, suffix, element, scatters, programmatic)                 \
  NVRAR_PAIR_KERNEL(name##suffix, pair_sum<protocol::element, scatters, false, programmatic>) \
  NVRAR_PAIR_KERNEL(name##_single##suffix, pair_sum<protocol::element, scatters, true, programmatic>)
// For any world size, and faster ones for the most common sizes.
#define NVRAR_TEAM_KERNELS_OF(type, element, suffix, programmatic)                                    \
  NVRAR_PAIR_KERNEL_PAIR(one_shot_##type##_2, suffix, element, false, programmatic)                   \
  NVRAR_TEAM_KERNEL_PAIR(one_shot_##type##_4, suffix, element, 4, kOneShot, programmatic)             \
  NVRAR_TEAM_KERNEL_PAIR(one_shot_##type##_8, suffix, element, 8, kOneShot, programmatic)             \
  NVRAR_TEAM_KERNEL(one_shot_##type##_0##suffix,                                                      \
                    team_sum<protocol::element, 0, TeamForm::kOneShot, false, programmatic>)          \
  NVRAR_TEAM_KERNEL_PAIR(two_shot_##type##_2, suffix, element, 2, kTwoShot, programmatic)             \
  NVRAR_TEAM_KERNEL_PAIR(two_shot_##type##_4, suffix, element, 4, kTwoShot, programmatic)             \
  NVRAR_TEAM_KERNEL_PAIR(two_shot_##type##_8, suffix, element, 8, kTwoShot, programmatic)             \
  NVRAR_TEAM_KERNEL(two_shot_##type##_0##suffix,                                                      \
                    team_sum<protocol::element, 0, TeamForm::kTwoShot, false, programmatic>)          \
  NVRAR_PAIR_KERNEL_PAIR(reduce_scatter_##type##_2, suffix, element, true, programmatic)              \
  NVRAR_TEAM_KERNEL_PAIR(reduce_scatter_##type##_4, suffix, element, 4, kReduceScatter, programmatic) \
  NVRAR_TEAM_KERNEL_PAIR(reduce_scatter_##type##_8, suffix, element, 8, kReduceScatter, programmatic) \
  NVRAR_TEAM_KERNEL(reduce_scatter_##type##_0##suffix,                                                \
                    team_sum<protocol::element, 0, TeamForm::kReduceScatter, false, programmatic>)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define NVRAR_TEAM_KERNELS(type, element)       \
  NVRAR_TEAM_KERNELS_OF(type, element, , false) \
  NVRAR_TEAM_KERNELS_OF(type, element, _programmatic, true)
#else
#define NVRAR_TEAM_KERNELS(type, element) NVRAR_TEAM_KERNELS_OF(type, element, , false)
#endif
