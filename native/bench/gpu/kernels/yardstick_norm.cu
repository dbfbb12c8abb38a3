// The fused all-reduces of the study: a sum, a residual added to it, and the RMS norm of the row. A row is on a cluster
// of blocks, which give each other the sums of their squares.
#include "row_sum.cuh"
#include "yardstick_packets.cuh"

#if __CUDA_ARCH__ >= 900  // below there are no clusters

using namespace nvrar::bench;
using namespace nvrar::bench::yardstick;

namespace {

__device__ __forceinline__ Word add_word(Word x, Word r, float* squares) {
  const Word h = pack(low(x) + low(r), high(x) + high(r));
  *squares += low(h) * low(h);
  *squares += high(h) * high(h);
  return h;
}

__device__ __forceinline__ uint4 add_vector(uint4 x, uint4 r, float* squares) {
  uint4 h;
  h.x = add_word(x.x, r.x, squares);
  h.y = add_word(x.y, r.y, squares);
  h.z = add_word(x.z, r.z, squares);
  h.w = add_word(x.w, r.w, squares);
  return h;
}

__device__ __forceinline__ Word scale_word(Word h, Word weight, float scale) {
  return pack(low(h) * scale * low(weight), high(h) * scale * high(weight));
}

__device__ __forceinline__ uint4 scale_vector(uint4 h, uint4 weight, float scale) {
  return make_uint4(scale_word(h.x, weight.x, scale), scale_word(h.y, weight.y, scale),
                    scale_word(h.z, weight.z, scale), scale_word(h.w, weight.w, scale));
}

// Every rank sends its vectors to all.
template <int kRanks, bool kBig, int kCluster>
__device__ __forceinline__ void one_shot_norm(const NormArguments& a) {
  constexpr int kTeamThreads = kRanks * 32;
  constexpr int kWords = kTeamThreads >= 128 ? 1 : 128 / kTeamThreads;  // of a thread
  __shared__ uint4 gathered[16 / kRanks][kRanks][32];
  __shared__ RowSum<kCluster> sum;
  sum.begin();
  const Place p = place<kRanks>(a.peers);
  const Word group_of_row = blockIdx.x % kCluster * p.teams + p.team;
  const size_t at = (size_t)p.group * 128 + p.t;  // in words
  const uint4* in = reinterpret_cast<const uint4*>(a.in) + (size_t)p.group * 32 + p.lane;
  uint4* to = ring(a.peers, p.k) + a.base + ((size_t)p.group * kRanks + a.peers.rank) * 32 + p.lane;
  uint4* from = ring(a.peers, 0) + a.base + ((size_t)p.group * kRanks + p.peer) * 32 + p.lane;
  Word* epochs = reinterpret_cast<Word*>(a.peers.epoch);
  Word* own_epoch = epochs + blockIdx.x;
  Word* control = reinterpret_cast<Word*>(a.peers.control);
  // Nobody writes the weights, so that they may be read before the wait.
  Word weight[kWords] = {};
  Word residual[kWords] = {};
  Word h[kWords] = {};
#pragma unroll
  for (int q = 0; q < kWords; ++q) {
    if (p.t < 128) weight[q] = reinterpret_cast<const Word*>(a.weight)[group_of_row * 128 + p.t + q * kTeamThreads];
  }
  if (!is_ready(in, to, from, own_epoch, weight[0], weight[kWords - 1])) return;
  grid_edge();
  const Word epoch = load_epoch(own_epoch);
  uint4 x = load(in);
#pragma unroll
  for (int q = 0; q < kWords; ++q) {
    if (p.t < 128) residual[q] = reinterpret_cast<const Word*>(a.residual)[at + q * kTeamThreads];
  }
  if (epoch & 1) {
    to += 2 * kArea<kBig>;
    from += 2 * kArea<kBig>;
  }
  x = canonical(x);
  if (p.k) put(to, x);
  __syncthreads();
  advance(epochs, epoch);
  if (p.k) x = poll(from, control);
  gathered[p.team][p.peer][p.lane] = x;
  team_sync<kRanks>(p.team, p.teams);
  float squares = 0;
#pragma unroll
  for (int q = 0; q < kWords; ++q) {
    if (p.t < 128) {
      h[q] = add_word(sum_word<kRanks>(gathered[p.team], p.t + q * kTeamThreads), residual[q], &squares);
      reinterpret_cast<Word*>(a.residual_out)[at + q * kTeamThreads] = h[q];
    }
  }
  if (p.k) *from = empty();
  squares = sum.of(squares);
  const float scale = rsqrtf(squares / static_cast<float>(kCluster * p.teams * 256) + a.eps);
#pragma unroll
  for (int q = 0; q < kWords; ++q) {
    if (p.t < 128) reinterpret_cast<Word*>(a.out)[at + q * kTeamThreads] = scale_word(h[q], weight[q], scale);
  }
}

// Every rank sums a slice of each row and sends the result to all, so that the row is in the blocks of its cluster.
template <int kRanks, bool kBig, int kCluster>
__device__ __forceinline__ void two_shot_norm(const NormArguments& a) {
  __shared__ uint4 gathered[16 / kRanks][kRanks][32];
  __shared__ uint4 summed[16 / kRanks][32];
  __shared__ RowSum<kCluster> sum;
  sum.begin();
  const Place p = place<kRanks>(a.peers);
  const Word slice = p.teams * kCluster * 32;
  const Word column = p.peer * slice + (blockIdx.x % kCluster * p.teams + p.team) * 32 + p.lane;
  const size_t at = (size_t)(blockIdx.x / kCluster) * slice * kRanks + column;
  const uint4* in = reinterpret_cast<const uint4*>(a.in) + at;
  uint4* to = ring(a.peers, p.k) + a.base + ((size_t)p.group * kRanks + a.peers.rank) * 32 + p.lane;
  uint4* from = ring(a.peers, 0) + a.base + ((size_t)p.group * kRanks + p.peer) * 32 + p.lane;
  Word* epochs = reinterpret_cast<Word*>(a.peers.epoch);
  Word* own_epoch = epochs + blockIdx.x;
  Word* control = reinterpret_cast<Word*>(a.peers.control);
  const uint4 weight = reinterpret_cast<const uint4*>(a.weight)[column];
  if (!is_ready(in, to, from, own_epoch, weight.x)) return;
  grid_edge();
  const Word epoch = load_epoch(own_epoch);
  uint4 x = load(in);
  const uint4 residual = load(reinterpret_cast<const uint4*>(a.residual) + at);
  if (epoch & 1) {
    to += 2 * kArea<kBig>;
    from += 2 * kArea<kBig>;
  }
  x = canonical(x);
  if (p.k) put(to, x);
  __syncthreads();
  advance(epochs, epoch);
  if (p.k) x = poll(from, control);
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
  if (p.k) *from = empty();
  team_sync<kRanks>(p.team, p.teams);
  x = summed[p.team][p.lane];
  if (p.k) {
    put(to + kArea<kBig>, x);
    from += kArea<kBig>;
    x = poll(from, control);
    *from = empty();
  }
  float squares = 0;
  const uint4 h = add_vector(x, residual, &squares);
  reinterpret_cast<uint4*>(a.residual_out)[at] = h;
  squares = sum.of(squares);
  const float scale = rsqrtf(squares / static_cast<float>(slice * kRanks * 8) + a.eps);
  reinterpret_cast<uint4*>(a.out)[at] = scale_vector(h, weight, scale);
}

}  // namespace

#define NVRAR_BENCH_NORM(shot, ranks, set, big, cluster)                                                       \
  extern "C" __global__ void __launch_bounds__(512)                                                            \
      nvrar_bench_##shot##_norm_##ranks##_##cluster##_##set(const __grid_constant__ NormArguments arguments) { \
    shot##_norm<ranks, big, cluster>(arguments);                                                               \
  }
NVRAR_BENCH_NORM(one_shot, 2, small, false, 8)
NVRAR_BENCH_NORM(one_shot, 2, big, true, 8)
NVRAR_BENCH_NORM(one_shot, 2, small, false, 16)
NVRAR_BENCH_NORM(one_shot, 4, small, false, 8)
NVRAR_BENCH_NORM(one_shot, 4, small, false, 16)
NVRAR_BENCH_NORM(two_shot, 4, small, false, 1)
NVRAR_BENCH_NORM(two_shot, 4, small, false, 4)
NVRAR_BENCH_NORM(two_shot, 4, small, false, 8)
NVRAR_BENCH_NORM(one_shot, 8, small, false, 16)
NVRAR_BENCH_NORM(two_shot, 8, small, false, 1)
NVRAR_BENCH_NORM(two_shot, 8, small, false, 4)

#endif
