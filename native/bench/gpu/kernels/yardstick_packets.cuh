// The packets of the study: what its kernels share. A packet is 16 bytes, written and read by one access each; a slot
// is empty while its last word is kEmpty, and emptied right after it is read. Two areas in turn suffice, as no rank is
// more than one call ahead. A "team" of a warp for each rank owns 32 vectors; warp k sends to, and polls from, rank
// (rank + k) % ranks; the values meet in shared memory and are summed in the order of ranks.
#pragma once

#include "yardstick_args.h"

namespace nvrar::bench::yardstick {

using Word = uint32_t;

constexpr Word kEmpty = 0xffffffffu;
constexpr Word kCanonical = 0xfffffffeu;  // what is sent for a payload that looks empty: a NaN with another mantissa
constexpr Word kLooksBetweenChecks = 4096;
constexpr Word kLooksMost = 4096u * 1024;  // about 2 s

template <bool kBig>
constexpr uint64_t kArea = (kBig ? kBigArea : kSmallArea) / kVectorBytes;

__device__ __forceinline__ void put(uint4* to, uint4 v) {
  asm volatile(
      "{.reg .b128 t; .reg .b64 a, b; mov.b64 a, {%1, %2}; mov.b64 b, {%3, %4}; mov.b128 t, {a, b};"
      " st.relaxed.sys.global.b128 [%0], t;}" ::"l"(to),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}

__device__ __forceinline__ uint4 get(const uint4* from) {
  uint4 v;
  asm volatile(
      "{.reg .b128 t; .reg .b64 a, b; ld.relaxed.sys.global.b128 t, [%4]; mov.b128 {a, b}, t;"
      " mov.b64 {%0, %1}, a; mov.b64 {%2, %3}, b;}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from)
      : "memory");
  return v;
}

__device__ __forceinline__ uint4 load(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

__device__ __forceinline__ Word load_epoch(const Word* from) {
  Word value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ uint4 canonical(uint4 v) {
  if (v.w == kEmpty) v.w = kCanonical;
  return v;
}

__device__ __forceinline__ uint4 empty() { return make_uint4(kEmpty, kEmpty, kEmpty, kEmpty); }

__device__ __forceinline__ float low(Word w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float high(Word w) { return __uint_as_float(w & 0xffff0000u); }

__device__ __forceinline__ Word pack(float a, float b) {
  Word w;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
  return w;
}

// A branch that is never taken, and that keeps in front of the first access what the compiler would compute after it.
template <class... Pointer>
__device__ __forceinline__ bool is_ready(Pointer... pointers) {
  return ((unsigned long long)pointers ^ ...) != 0x9e3779b97f4a7c15ull;
}

// Where the study waits for the grid before it, and lets the next one in. Does nothing without programmatic dependent
// launch.
__device__ __forceinline__ void grid_edge() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Looks until the packet is there. At the end of its patience the result is wrong, and control says so.
__device__ __forceinline__ uint4 poll(const uint4* from, Word* control) {
  for (Word looks = 1;; ++looks) {
    const uint4 v = get(from);
    if (v.w != kEmpty) return v;
    if (looks % kLooksBetweenChecks == 0) {
      Word given_up;
      asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(given_up) : "l"(control) : "memory");
      if (given_up != 0) return v;
      if (looks >= kLooksMost) {
        *control = 1;
        return v;
      }
    }
  }
}

// Every call advances all words, whatever its grid; after a __syncthreads behind the read of this block's.
__device__ __forceinline__ void advance(Word* words, Word epoch) {
  for (Word i = blockIdx.x + threadIdx.x * gridDim.x; i < kMaxBlocks; i += blockDim.x * gridDim.x) words[i] = epoch + 1;
}

template <int kRanks>
__device__ __forceinline__ Word sum_word(const uint4 (&vectors)[kRanks][kGroupVectors], Word t) {
  const Word* s = reinterpret_cast<const Word*>(&vectors[0][0]) + t;
  Word w = s[0];
  float x = low(w);
  float y = high(w);
#pragma unroll
  for (int j = 1; j < kRanks; ++j) {
    w = s[j * 128];
    x += low(w);
    y += high(w);
  }
  return pack(x, y);
}

template <int kRanks>
__device__ __forceinline__ void team_sync(Word team, Word teams) {
  if (teams == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kRanks * 32) : "memory");
  }
}

struct Place {
  Word lane, k, team, teams, t, peer, group;
};

template <int kRanks>
__device__ __forceinline__ Place place(const Peers& peers) {
  const Word warp = threadIdx.x >> 5;
  Place p;
  p.lane = threadIdx.x & 31;
  p.k = warp % kRanks;
  p.team = warp / kRanks;
  p.teams = blockDim.x / (32 * kRanks);
  p.t = threadIdx.x - p.team * kRanks * 32;
  p.peer = peers.rank + p.k;
  if (p.peer >= kRanks) p.peer -= kRanks;
  p.group = blockIdx.x * p.teams + p.team;
  return p;
}

__device__ __forceinline__ uint4* ring(const Peers& peers, Word k) { return reinterpret_cast<uint4*>(peers.rings[k]); }

}  // namespace nvrar::bench::yardstick
