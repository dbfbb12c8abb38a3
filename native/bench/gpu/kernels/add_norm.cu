// What a user does with the sums of an all-reduce in a kernel of its own: the forms of nvrar_all_reduce_fused, with a
// vector of 16 bytes for each thread. A row is on one block, or on several, so that it is read by more
// multiprocessors; for the RMS norm these are a cluster.
#include "add_norm_args.h"
#include "row_sum.cuh"

using namespace nvrar::bench;
using namespace nvrar::bench::add_norm;

namespace {

struct BFloat16 {
  static constexpr int kInWord = 2;
  static __device__ __forceinline__ float get(uint32_t word, int i) {
    return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);
  }
  static __device__ __forceinline__ uint32_t word(const float (&values)[2]) {
    uint32_t w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(values[1]), "f"(values[0]));
    return w;
  }
};

struct Float16 {
  static constexpr int kInWord = 2;
  static __device__ __forceinline__ float get(uint32_t word, int i) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(i == 0 ? word : word >> 16)));
    return value;
  }
  static __device__ __forceinline__ uint32_t word(const float (&values)[2]) {
    uint32_t w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(values[1]), "f"(values[0]));
    return w;
  }
};

struct Float32 {
  static constexpr int kInWord = 1;
  static __device__ __forceinline__ float get(uint32_t word, int) { return __uint_as_float(word); }
  static __device__ __forceinline__ uint32_t word(const float (&values)[1]) { return __float_as_uint(values[0]); }
};

template <class Element>
struct Vector {
  static constexpr int kSize = 4 * Element::kInWord;
  float values[kSize];

  __device__ __forceinline__ explicit Vector(uint4 from) {
    const uint32_t words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = Element::get(words[i / Element::kInWord], i % Element::kInWord);
  }

  __device__ __forceinline__ uint4 round() const {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float of_word[Element::kInWord];
#pragma unroll
      for (int j = 0; j < Element::kInWord; ++j) of_word[j] = values[i * Element::kInWord + j];
      words[i] = Element::word(of_word);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  __device__ __forceinline__ void add(const Vector& other) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] += other.values[i];
  }

  __device__ __forceinline__ void scale(float by, const Vector& weight) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = values[i] * by * weight.values[i];
  }

  __device__ __forceinline__ float squares() const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum += values[i] * values[i];
    return sum;
  }
};

// Where this thread's vector is, if it has one.
struct Place {
  uint32_t column;
  size_t at;  // both in vectors
  bool on;
};

__device__ __forceinline__ Place place(const Arguments& a) {
  Place p;
  const uint32_t row = blockIdx.x / a.blocks;
  p.column = (blockIdx.x % a.blocks) * blockDim.x + threadIdx.x;
  p.at = static_cast<size_t>(row) * a.vectors + p.column;
  p.on = p.column < a.vectors;
  return p;
}

__device__ __forceinline__ uint4 load(uint64_t from, size_t at, bool on) {
  uint4 v = make_uint4(0, 0, 0, 0);
  if (on) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from + at * kVectorBytes));
  }
  return v;
}

__device__ __forceinline__ void store(uint64_t to, size_t at, bool on, uint4 v) {
  if (on) reinterpret_cast<uint4*>(to)[at] = v;
}

// Nobody writes the weights, so that they may be read before it. Does nothing without programmatic dependent launch.
__device__ __forceinline__ void grid_edge() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// y = x + residual, or x + bias.
template <class Element, bool kBias>
__device__ __forceinline__ void add(const Arguments& a) {
  const Place p = place(a);
  uint4 addend;
  if (kBias) addend = load(a.weight, p.column, p.on);
  grid_edge();
  if (!kBias) addend = load(a.residual, p.at, p.on);
  Vector<Element> x(load(a.in, p.at, p.on));
  x.add(Vector<Element>(addend));
  store(a.out, p.at, p.on, x.round());
}

// h = x + residual; y = h / rms(h) * weight
template <class Element, uint32_t kBlocks>
__device__ __forceinline__ void norm(const Arguments& a) {
  __shared__ RowSum<kBlocks> sum;
  sum.begin();
  const Place p = place(a);
  const Vector<Element> weight(load(a.weight, p.column, p.on));
  grid_edge();
  Vector<Element> x(load(a.in, p.at, p.on));
  x.add(Vector<Element>(load(a.residual, p.at, p.on)));
  const uint4 rounded = x.round();
  store(a.residual_out, p.at, p.on, rounded);
  Vector<Element> h(rounded);
  h.scale(rsqrtf(sum.of(h.squares()) / a.hidden + a.eps), weight);
  store(a.out, p.at, p.on, h.round());
}

// h = x + residual; y = h * weight; a sum of squares for each 128 bytes of h, which eight threads have
template <class Element>
__device__ __forceinline__ void fold(const Arguments& a) {
  constexpr uint32_t kPartThreads = 8;
  const Place p = place(a);
  const Vector<Element> weight(load(a.weight, p.column, p.on));
  grid_edge();
  Vector<Element> x(load(a.in, p.at, p.on));
  x.add(Vector<Element>(load(a.residual, p.at, p.on)));
  const uint4 rounded = x.round();
  store(a.residual_out, p.at, p.on, rounded);
  Vector<Element> h(rounded);
  float squares = h.squares();
#pragma unroll
  for (uint32_t step = kPartThreads / 2; step != 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
  if (p.on && p.column % kPartThreads == 0) {
    const uint32_t parts = (a.vectors + kPartThreads - 1) / kPartThreads;
    reinterpret_cast<float*>(a.squares)[blockIdx.x / a.blocks * parts + p.column / kPartThreads] = squares;
  }
  h.scale(1.0f, weight);
  store(a.out, p.at, p.on, h.round());
}

}  // namespace

#define NVRAR_BENCH_ADD(form, type, body)                                            \
  extern "C" __global__ void __launch_bounds__(kMostThreads)                         \
      nvrar_bench_add_##form##_##type(const __grid_constant__ Arguments arguments) { \
    body(arguments);                                                                 \
  }
#define NVRAR_BENCH_ADD_FORMS(type, Element)             \
  NVRAR_BENCH_ADD(residual, type, (add<Element, false>)) \
  NVRAR_BENCH_ADD(bias, type, (add<Element, true>))      \
  NVRAR_BENCH_ADD(rms_norm, type, (norm<Element, 1>))    \
  NVRAR_BENCH_ADD(rms_fold, type, (fold<Element>))
NVRAR_BENCH_ADD_FORMS(bfloat16, BFloat16)
NVRAR_BENCH_ADD_FORMS(float16, Float16)
NVRAR_BENCH_ADD_FORMS(float32, Float32)

#if __CUDA_ARCH__ >= 900  // below there are no clusters
#define NVRAR_BENCH_ADD_CLUSTERS(type, Element)         \
  NVRAR_BENCH_ADD(rms_norm_2, type, (norm<Element, 2>)) \
  NVRAR_BENCH_ADD(rms_norm_4, type, (norm<Element, 4>)) \
  NVRAR_BENCH_ADD(rms_norm_8, type, (norm<Element, 8>))
NVRAR_BENCH_ADD_CLUSTERS(bfloat16, BFloat16)
NVRAR_BENCH_ADD_CLUSTERS(float16, Float16)
NVRAR_BENCH_ADD_CLUSTERS(float32, Float32)
#endif
