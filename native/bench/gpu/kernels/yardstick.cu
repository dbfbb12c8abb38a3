// The all-reduces of the study: what the packets of ours cost without anything around them.
#include "yardstick_packets.cuh"

using namespace nvrar::bench::yardstick;

namespace {

// Every rank sends its vectors to all.
template <int kRanks, bool kBig>
__device__ __forceinline__ void one_shot(const Arguments& a) {
  __shared__ uint4 gathered[16 / kRanks][kRanks][32];
  const Place p = place<kRanks>(a.peers);
  const Word v = p.group * 32 + p.lane;
  const bool on = v < a.vectors;
  const uint4* in = reinterpret_cast<const uint4*>(a.in) + v;
  Word* out = reinterpret_cast<Word*>(a.out) + (size_t)p.group * 128 + p.t;
  Word* epochs = reinterpret_cast<Word*>(a.peers.epoch);
  Word* own_epoch = epochs + blockIdx.x;
  Word* control = reinterpret_cast<Word*>(a.peers.control);
  uint4* to = ring(a.peers, p.k) + a.base + ((size_t)p.group * kRanks + a.peers.rank) * 32 + p.lane;
  uint4* from = ring(a.peers, 0) + a.base + ((size_t)p.group * kRanks + p.peer) * 32 + p.lane;
  const Word vectors = a.vectors;
  if (!is_ready(in, out, own_epoch, to, from)) return;
  grid_edge();
  const Word epoch = load_epoch(own_epoch);
  uint4 x = empty();
  if (on) x = load(in);
  if (epoch & 1) {
    to += 2 * kArea<kBig>;
    from += 2 * kArea<kBig>;
  }
  x = canonical(x);
  if (on && p.k) put(to, x);
  __syncthreads();
  advance(epochs, epoch);
  if (on && p.k) x = poll(from, control);
  gathered[p.team][p.peer][p.lane] = x;
  team_sync<kRanks>(p.team, p.teams);
#pragma unroll
  for (Word q = 0; q < 128; q += kRanks * 32) {
    if (p.t + q < 128 && p.group * 32 + ((p.t + q) >> 2) < vectors)
      out[q] = sum_word<kRanks>(gathered[p.team], p.t + q);
  }
  if (on && p.k) *from = empty();
}

// Every rank sums a slice and sends the result to all.
template <int kRanks, bool kBig>
__device__ __forceinline__ void two_shot(const Arguments& a) {
  __shared__ uint4 gathered[16 / kRanks][kRanks][32];
  __shared__ uint4 summed[16 / kRanks][32];
  const Place p = place<kRanks>(a.peers);
  const Word slice = (a.vectors + kRanks - 1) / kRanks;
  const Word i = p.group * 32 + p.lane;
  const bool theirs = i < slice && p.peer * slice + i < a.vectors;
  const bool mine = i < slice && a.peers.rank * slice + i < a.vectors;
  const uint4* in = reinterpret_cast<const uint4*>(a.in) + (size_t)p.peer * slice + i;
  uint4* out = reinterpret_cast<uint4*>(a.out) + (size_t)p.peer * slice + i;
  Word* epochs = reinterpret_cast<Word*>(a.peers.epoch);
  Word* own_epoch = epochs + blockIdx.x;
  Word* control = reinterpret_cast<Word*>(a.peers.control);
  uint4* to = ring(a.peers, p.k) + a.base + ((size_t)p.group * kRanks + a.peers.rank) * 32 + p.lane;
  uint4* from = ring(a.peers, 0) + a.base + ((size_t)p.group * kRanks + p.peer) * 32 + p.lane;
  if (!is_ready(in, out, own_epoch, to, from)) return;
  grid_edge();
  const Word epoch = load_epoch(own_epoch);
  uint4 x = empty();
  if (theirs) x = load(in);
  if (epoch & 1) {
    to += 2 * kArea<kBig>;
    from += 2 * kArea<kBig>;
  }
  x = canonical(x);
  if (theirs && p.k) put(to, x);
  __syncthreads();
  advance(epochs, epoch);
  if (mine && p.k) x = poll(from, control);
  gathered[p.team][p.peer][p.lane] = x;
  team_sync<kRanks>(p.team, p.teams);
#pragma unroll
  for (Word q = 0; q < 128; q += kRanks * 32) {
    if (p.t + q < 128) {
      Word r = sum_word<kRanks>(gathered[p.team], p.t + q);
      if (((p.t + q) & 3) == 3 && r == kEmpty) r = kCanonical;
      reinterpret_cast<Word*>(&summed[p.team][0])[p.t + q] = r;
    }
  }
  if (mine && p.k) *from = empty();
  team_sync<kRanks>(p.team, p.teams);
  x = summed[p.team][p.lane];
  if (mine) {
    if (p.k) {
      put(to + kArea<kBig>, x);
    } else {
      *out = x;
    }
  }
  if (theirs && p.k) {
    from += kArea<kBig>;
    x = poll(from, control);
    *out = x;
    *from = empty();
  }
}

// Two ranks: one-shot without teams, a vector for each thread.
template <bool kBig>
__device__ __forceinline__ void pair(const Arguments& a) {
  const Word v = blockIdx.x * blockDim.x + threadIdx.x;
  const Word rank = a.peers.rank;
  const bool on = v < a.vectors;
  const uint4* in = reinterpret_cast<const uint4*>(a.in) + v;
  uint4* out = reinterpret_cast<uint4*>(a.out) + v;
  const size_t at = a.base + (size_t)(v >> 5) * 64 + (v & 31);
  uint4* to = ring(a.peers, 1) + at + rank * 32;
  uint4* from = ring(a.peers, 0) + at + (rank ^ 1) * 32;
  Word* epochs = reinterpret_cast<Word*>(a.peers.epoch);
  Word* own_epoch = epochs + blockIdx.x;
  Word* control = reinterpret_cast<Word*>(a.peers.control);
  if (!is_ready(in, out, own_epoch, to, from)) return;
  grid_edge();
  const Word epoch = load_epoch(own_epoch);
  uint4 x = empty();
  if (on) x = load(in);
  if (epoch & 1) {
    to += 2 * kArea<kBig>;
    from += 2 * kArea<kBig>;
  }
  x = canonical(x);
  if (on) put(to, x);
  __syncthreads();
  advance(epochs, epoch);
  if (!on) return;
  const uint4 y = poll(from, control);
  *out = make_uint4(pack(low(x.x) + low(y.x), high(x.x) + high(y.x)), pack(low(x.y) + low(y.y), high(x.y) + high(y.y)),
                    pack(low(x.z) + low(y.z), high(x.z) + high(y.z)), pack(low(x.w) + low(y.w), high(x.w) + high(y.w)));
  *from = empty();
}

}  // namespace

#define NVRAR_BENCH_TEAMS(ranks, set, big)                                                \
  extern "C" __global__ void __launch_bounds__(512)                                       \
      nvrar_bench_one_shot_##ranks##_##set(const __grid_constant__ Arguments arguments) { \
    one_shot<ranks, big>(arguments);                                                      \
  }                                                                                       \
  extern "C" __global__ void __launch_bounds__(512, 2)                                    \
      nvrar_bench_two_shot_##ranks##_##set(const __grid_constant__ Arguments arguments) { \
    two_shot<ranks, big>(arguments);                                                      \
  }
NVRAR_BENCH_TEAMS(4, small, false)
NVRAR_BENCH_TEAMS(4, big, true)
NVRAR_BENCH_TEAMS(8, small, false)
NVRAR_BENCH_TEAMS(8, big, true)

#define NVRAR_BENCH_PAIR(set, big)                                          \
  extern "C" __global__ void __launch_bounds__(512, 4)                      \
      nvrar_bench_pair_##set(const __grid_constant__ Arguments arguments) { \
    pair<big>(arguments);                                                   \
  }
NVRAR_BENCH_PAIR(small, false)
NVRAR_BENCH_PAIR(big, true)
