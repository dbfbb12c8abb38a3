// The Port of a warp in a group that spans nodes: ranks of its node are reached as by WarpPort, those of others by
// chunks (protocol/crossing.h).
#pragma once

#include "kernels/allreduce/word_sum.cuh"
#include "kernels/crossing/far_wait.cuh"
#include "kernels/steps/warp_port.cuh"
#include "protocol/crossing_steps.h"

namespace nvrar::cuda {

template <class Sums>
class CrossingPort : public WarpPort<Sums> {
 public:
  using Base = WarpPort<Sums>;
  using Run = typename Base::Run;
  using Partial = typename Base::Partial;

  __device__ CrossingPort(const CrossingArgs& args, const protocol::Launch& launch, uint64_t runs)
      : Base(args.member, launch.topology(), launch.rank - args.memory.layout.first),
        first_(args.memory.layout.first),
        launch_(launch),
        crossing_(args.memory, args.shape, launch.topology(), launch.rank, launch.epoch, launch.header_hash, runs) {}

  // Block 0 exchanges the headers, off the path of the data. Each other one is a team.
  __device__ bool checks() const { return block_index() == 0; }
  __device__ uint32_t team() const { return block_index() - 1; }
  __device__ uint32_t teams() const { return grid_blocks() - 1; }
  __device__ uint32_t member() const { return threadIdx.x / kWarpThreads; }
  __device__ uint32_t members() const { return blockDim.x / kWarpThreads; }
  __device__ uint64_t worker() const { return team() * members() + member(); }
  __device__ uint64_t workers() const { return uint64_t{teams()} * members(); }
  __device__ bool all(bool good) const { return __syncthreads_and(good) != 0; }
  __device__ const protocol::Crossing<CrossingAccess>& crossing() const { return crossing_; }

  template <class Packets>
  __device__ void push(const Peers& peers, uint64_t slot, const Run& run, uint32_t bytes, uint64_t epoch) {
    if (lane_ * Packets::kPayloadBytes >= bytes) return;
    const Packet packet = Packets::seal(run.payload, epoch);
    for (uint32_t i = 0; i < peers.count(); ++i) {
      send_packet(args_, args_.rings[peers[i] - first_] + slot + lane_, packet);
    }
  }
  template <class Packets>
  __device__ bool drain(uint64_t slot, uint32_t source, uint8_t* to, uint32_t bytes, uint64_t epoch) {
    return Base::template drain<Packets>(slot, source - first_, to, bytes, epoch);
  }
  __device__ void push_marked(const Peers& peers, uint64_t slot, uint64_t mark_slot, const Run& run, uint32_t bytes,
                              uint64_t epoch) {
    for (uint32_t i = 0; i < peers.count(); ++i) {
      Base::push_marked(Peers::one(peers[i] - first_), slot, mark_slot, run, bytes, epoch);
    }
  }
  __device__ bool drain_marked(uint64_t slot, uint64_t mark_slot, uint32_t source, uint8_t* to, uint32_t bytes,
                               uint64_t epoch) {
    return Base::drain_marked(slot, mark_slot, source - first_, to, bytes, epoch);
  }
  // Whole packets at multiples of their size, of ranks that are alone in their nodes: many loads are under way at once,
  // because one across the bus takes 2 us. No branch may come between them, so the cases that need one have the steps
  // of runs.
  template <class Packets>
  __device__ bool cross_chunk(const protocol::Launch& launch, uint32_t chunk) {
    if (Packets::kPayloadBytes != protocol::kPacketBytes || !is_plain(launch, launch.send)) return false;
    const Part part = part_of(launch, chunk);
    uint8_t* const to = crossing_.outbox(0, part.first);
#pragma unroll 1
    for (uint32_t at = part.begin; at < part.end; at += part.step * kPacketsAtOnce) {
      Packet packets[kPacketsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kPacketsAtOnce; ++i) {
        const uint32_t place = at + i * part.step;
        packets[i] = load_input<false>(launch.send + part.first + place, place < part.end);
      }
#pragma unroll
      for (uint32_t i = 0; i < kPacketsAtOnce; ++i) {
        const uint32_t place = at + i * part.step;
        if (place < part.end) store_vector(to + place, packets[i]);
      }
    }
    return true;
  }
  template <class Packets>
  __device__ bool reduce_chunk(const protocol::Launch& launch, const uint8_t* own, uint32_t chunk) {
    const bool can = Packets::kPayloadBytes == protocol::kPacketBytes && topology_.world == 2 &&
                     is_plain(launch, own) && reinterpret_cast<uint64_t>(launch.recv) % protocol::kPacketBytes == 0;
    if (!can) return false;
    const Part part = part_of(launch, chunk);
    const uint8_t* const far = crossing_.inbox(1 - launch.rank, crossing_.stream_from(), part.first);
    const bool is_first = launch.rank == 0;
#pragma unroll 1
    for (uint32_t at = part.begin; at < part.end; at += part.step * kPacketsAtOnce) {
      Packet theirs[kPacketsAtOnce];
      Packet ours[kPacketsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kPacketsAtOnce; ++i) {
        const uint32_t place = at + i * part.step;
        theirs[i] = load_far_vector(far + place, place < part.end);
      }
#pragma unroll
      for (uint32_t i = 0; i < kPacketsAtOnce; ++i) {
        const uint32_t place = at + i * part.step;
        ours[i] = load_input<false>(own + part.first + place, place < part.end);
      }
      // By itself, because the code for all operators takes a block 3 us more, which are spent on fetching it.
      if constexpr (kHasWordSum<typename Sums::Of>) {
        if (args_.op == NVRAR_SUM) {
#pragma unroll
          for (uint32_t i = 0; i < kPacketsAtOnce; ++i) {
            const uint32_t place = at + i * part.step;
            const Packet sum =
                sum_of_pair<typename Sums::Of>(is_first ? ours[i] : theirs[i], is_first ? theirs[i] : ours[i]);
            if (place < part.end) store_vector(launch.recv + part.first + place, sum);
          }
          continue;
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < kPacketsAtOnce; ++i) {
        const uint32_t place = at + i * part.step;
        typename Sums::OfPair sums(args_.op, topology_);
        sums.add(is_first ? ours[i] : theirs[i]);
        sums.add(is_first ? theirs[i] : ours[i]);
        const Packet sum = sums.result();
        if (place < part.end) store_vector(launch.recv + part.first + place, sum);
      }
    }
    return true;
  }
  template <class Packets>
  __device__ bool reduce_crossed(const Sources& sources, const Run& own, uint32_t at, uint8_t* to, uint32_t bytes,
                                 uint64_t epoch) {
    const uint32_t offset = lane_ * Packets::kPayloadBytes;
    bool came = true;
    if (offset < bytes) {
      Sums sums(args_.op, topology_);
      for (uint32_t i = 0; i < sources.count; ++i) {
        const uint32_t source = sources.first + i;
        Packet packet = own.payload;
        if (i == sources.own) {
        } else if (crossing_.is_remote(source)) {
          packet =
              load_far(crossing_.inbox(source, crossing_.stream_from(), at), offset, Packets::kPayloadBytes, bytes);
        } else {
          came = came && this->template take_own<Packets>(sources.slot_of(i), source - first_, epoch, &packet);
        }
        sums.add(packet);
      }
      if (came) {
        store_user<Packets::kPayloadBytes>(to + offset, sums.result(), Base::template part<Packets>(offset, bytes));
      }
    }
    return __all_sync(~0u, came) != 0;
  }
  template <class Packets>
  __device__ bool node_sum(const Sources& sources, const Run& own, uint32_t bytes, uint64_t epoch, Partial* partial) {
    return Base::template node_sum<Packets>({sources.slot, sources.first - first_, sources.count, sources.own}, own,
                                            bytes, epoch, partial);
  }
  __device__ void put(uint32_t peer, uint64_t slot, const Packet& packet) { Base::put(peer - first_, slot, packet); }
  template <class Packets>
  __device__ bool take(uint64_t slot, uint32_t source, uint64_t epoch, Packet* packet) {
    return Base::template take<Packets>(slot, source - first_, epoch, packet);
  }
  __device__ void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    Base::copy_part(worker(), workers(), to, from, bytes);
  }
  __device__ void differ(uint32_t source) {
    if (!crossing_.is_remote(source)) return Base::differ(source - first_);
    if (lane_ == 0) fail_far(args_, FailureKind::kMismatch, uint64_t{1} << source);
  }

  __device__ void node_is_here() {
    if (lane_ == 0) crossing_.node_is_here();
    __syncwarp();
  }
  __device__ void stored(uint32_t stream, uint32_t chunk) {
    if (threadIdx.x == 0) crossing_.stored(stream, chunk);
  }
  // For all threads of the warp.
  __device__ bool await_chunk(uint32_t source, uint32_t stream, uint32_t chunk) {
    bool came = true;
    if (lane_ == 0) {
      Patience patience{*this, source};
      came = crossing_.await(source, stream, chunk, [&] { return patience.lasts(); });
    }
    return __all_sync(~0u, came) != 0;
  }
  __device__ bool hear(uint32_t source, bool* same) {
    bool came = true;
    bool is_same = true;
    if (lane_ == 0) {
      Patience patience{*this, source};
      came = crossing_.hear(source, &is_same, [&] { return patience.lasts(); });
    }
    *same = __all_sync(~0u, is_same) != 0;
    return __all_sync(~0u, came) != 0;
  }
  template <class Packets>
  __device__ void cross(uint32_t stream, uint32_t at, const Run& run, uint32_t bytes) {
    const uint32_t offset = lane_ * Packets::kPayloadBytes;
    if (offset < bytes) {
      store_far<Packets::kPayloadBytes>(crossing_.outbox(stream, at) + offset, run.payload, bytes - offset);
    }
  }
  template <class Packets>
  __device__ Run crossed(uint32_t source, uint32_t stream, uint32_t at, uint32_t bytes) {
    return {
        load_far(crossing_.inbox(source, stream, at), lane_ * Packets::kPayloadBytes, Packets::kPayloadBytes, bytes)};
  }
  template <class Packets>
  __device__ void store(uint8_t* to, const Run& run, uint32_t bytes) {
    const uint32_t offset = lane_ * Packets::kPayloadBytes;
    if (offset >= bytes) return;
    store_user<Packets::kPayloadBytes>(to + offset, run.payload, Base::template part<Packets>(offset, bytes));
  }
  template <class Packets>
  __device__ void cross_partial(uint32_t stream, uint32_t at, const Partial& partial, uint32_t bytes) {
    constexpr uint32_t kBytes = Packets::kPayloadBytes;
    if (lane_ * kBytes >= bytes) return;
#pragma unroll
    for (uint32_t i = 0; i < Sums::kParts; ++i) {
      const uint32_t offset = (i * kWarpThreads + lane_) * kBytes;
      store_far<kBytes>(crossing_.outbox(stream, at) + offset, partial.packets[i], kBytes);
      store_far<kBytes>(crossing_.own_sums(stream, at) + offset, partial.packets[i], kBytes);
    }
  }
  // The own one is read by the thread that has stored it.
  template <class Packets>
  __device__ void crossed_partial(uint32_t source, uint32_t stream, uint32_t at, uint32_t bytes, Partial* partial) {
    constexpr uint32_t kBytes = Packets::kPayloadBytes;
    if (lane_ * kBytes >= bytes) return;
    const bool is_own = source == launch_.rank;
#pragma unroll
    for (uint32_t i = 0; i < Sums::kParts; ++i) {
      const uint32_t offset = (i * kWarpThreads + lane_) * kBytes;
      partial->packets[i] = is_own ? load_user<kBytes>(crossing_.own_sums(stream, at) + offset, kBytes)
                                   : load_far(crossing_.inbox(source, stream, at), offset, kBytes, ~0u);
    }
  }

 private:
  using Base::args_;
  using Base::lane_;
  using Base::topology_;

  // How long a thread still waits for a rank of another node.
  struct Patience {
    const CrossingPort& port;
    uint32_t source;
    uint32_t polls = 0;
    uint64_t since_ns = 0;

    __device__ bool lasts() {
      if (++polls % kPollsBetweenFarChecks != 0) return true;
      return far_wait_lasts(port.args_, source, &since_ns);
    }
  };
  // A worker's part of a chunk of the message, in bytes from `first` on; each thread has a packet every `step` bytes.
  static constexpr uint32_t kPacketsAtOnce = 8;
  struct Part {
    uint32_t first;
    uint32_t begin;
    uint32_t end;
    uint32_t step;
  };
  __device__ Part part_of(const protocol::Launch& launch, uint32_t chunk) const {
    const uint32_t first = chunk * crossing_.shape().chunk_bytes;
    const uint32_t left = static_cast<uint32_t>(launch.bytes) - first;
    return {first, threadIdx.x * protocol::kPacketBytes,
            left < crossing_.shape().chunk_bytes ? left : crossing_.shape().chunk_bytes,
            blockDim.x * protocol::kPacketBytes};
  }
  __device__ bool is_plain(const protocol::Launch& launch, const uint8_t* message) const {
    return ((reinterpret_cast<uint64_t>(message) | launch.bytes) % protocol::kPacketBytes) == 0 &&
           topology_.largest == 1;
  }
  static __device__ __forceinline__ void store_vector(uint8_t* to, const Packet& packet) {
    *reinterpret_cast<uint4*>(to) = make_uint4(packet[0], packet[1], packet[2], packet[3]);
  }
  // To a place for whole payloads.
  template <uint32_t kBytes>
  static __device__ __forceinline__ void store_far(uint8_t* to, const Packet& packet, uint32_t bytes) {
    if (bytes < kBytes) {
      store_user<kBytes>(to, packet, bytes);
    } else if (kBytes == protocol::kPacketBytes) {
      store_vector(to, packet);
    } else {
      *reinterpret_cast<uint2*>(to) = make_uint2(packet[0], packet[1]);
    }
  }
  static __device__ __forceinline__ Packet load_far_vector(const uint8_t* from, bool exists) {
    Packet packet;
    asm volatile(
        "{.reg .pred p; setp.ne.u32 p,%5,0; mov.u32 %0,0; mov.u32 %1,0; mov.u32 %2,0; mov.u32 %3,0;"
        " @p ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3},[%4];}"
        : "=&r"(packet[0]), "=&r"(packet[1]), "=&r"(packet[2]), "=&r"(packet[3])
        : "l"(from), "r"(static_cast<uint32_t>(exists))
        : "memory");
    return packet;
  }

  // A packet's payload out of the inbox, whose runs begin at multiples of a packet's size; zeros behind `bytes`. Loads
  // of vectors, which a warp makes together: of whole packets (load_packet) each would cross the bus by itself.
  static __device__ __forceinline__ Packet load_far(const uint8_t* from, uint32_t offset, uint32_t payload_bytes,
                                                    uint32_t bytes) {
    Packet packet{};
    if (offset >= bytes) return packet;
    if (payload_bytes == protocol::kPacketBytes) {
      asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3},[%4];"
                   : "=r"(packet[0]), "=r"(packet[1]), "=r"(packet[2]), "=r"(packet[3])
                   : "l"(from + offset)
                   : "memory");
    } else {
      asm volatile("ld.relaxed.sys.global.v2.u32 {%0,%1},[%2];"
                   : "=r"(packet[0]), "=r"(packet[1])
                   : "l"(from + offset)
                   : "memory");
    }
    if (bytes - offset >= payload_bytes) return packet;
    auto* const byte = reinterpret_cast<uint8_t*>(&packet);  // what lies behind is of an earlier launch
#pragma unroll
    for (uint32_t i = 0; i < protocol::kPacketBytes; ++i) {
      if (i >= bytes - offset) byte[i] = 0;
    }
    return packet;
  }

  uint32_t first_;  // rank of the node
  const protocol::Launch& launch_;
  protocol::Crossing<CrossingAccess> crossing_;
};

// The steps of a launch that crosses: a body (entry.cuh). Steps: static void run(const CrossingArgs&, launch).
template <class Steps>
class CrossingBody {
 public:
  static constexpr bool kChecks = true;

  __device__ __forceinline__ CrossingBody(const KernelArgs&, const CrossingArgs* args)
      : args_(*args), launch_(args->member.launch) {}
  __device__ __forceinline__ bool prepare() { return true; }
  template <bool>
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void send(const Entered&) {}
  __device__ __forceinline__ void finish(const Entered& entered) {
    // A warp that may not go on would leave the others of its team waiting.
    const bool alive = block_index() == 0 ? __all_sync(~0u, entered.alive) != 0 && threadIdx.x < kWarpThreads
                                          : __syncthreads_and(entered.alive) != 0;
    if (!alive) return;
    launch_.epoch = entered.epoch;
    if (block_index() == 0 && threadIdx.x == 0) {
      auto* const page = reinterpret_cast<protocol::CrossingPage*>(args_.memory.arena);
      *reinterpret_cast<volatile uint64_t*>(&page->epoch) = entered.epoch;
    }
    Steps::run(args_, launch_);
  }

 private:
  const CrossingArgs& args_;
  protocol::Launch launch_;
};

template <class Steps>
__device__ __forceinline__ void run_crossing(const CrossingArgs& args) {
  run_in_launch<CrossingBody<Steps>, false>(args.member, &args);
}

// Packets: the only packet kind that the type's sums use on GPUs.
template <class Element, class Packets>
struct CrossingSum {
  static __device__ __forceinline__ void run(const CrossingArgs& args, const protocol::Launch& launch) {
    CrossingPort<Sums<Element, Packets::kPayloadBytes, true>> port(
        args, launch, protocol::MessageRuns<Packets>{launch.bytes}.count());
    (void)crossing_sum_steps<Packets>(port, static_cast<Algorithm>(args.member.algorithm), launch);
  }
};

}  // namespace nvrar::cuda

#define NVRAR_CROSSING_SUM_KERNEL(code, name, element, packets, ...)                \
  NVRAR_KERNEL_OF(CrossingArgs, crossing_sum_##name, kWorkerWarps* kWarpThreads, 0, \
                  run_crossing<CrossingSum<protocol::element, protocol::packets>>)
