// What a fused all-reduce does with its sums: the forms of nvrar_all_reduce_fused, whose arithmetic nvrar.h states. The
// sum of a row's squares is made of those of its parts, which the threads that have the part's words add up; the blocks
// that share a row give each other those of their parts.
#pragma once

#include <nvrar.h>

#include "kernels/allreduce/epilogue.cuh"
#include "kernels/allreduce/word_sum.cuh"
#include "kernels/launch/access.cuh"
#include "kernels/launch/cluster.cuh"
#include "kernels/launch/lane_slots.cuh"
#include "protocol/fusion.h"

namespace nvrar::cuda {

// One or two elements in a word. Products and sums are not contracted.
template <class Element>
struct WordOf {
  float low, high;
  __device__ __forceinline__ explicit WordOf(uint32_t word) {
    const WordSum<Element> values(word);
    low = values.low;
    high = values.high;
  }
  __device__ __forceinline__ uint32_t round() const {
    WordSum<Element> values(0);
    values.low = low;
    values.high = high;
    return values.round();
  }
  __device__ __forceinline__ void scale(const WordOf& by) {
    low = __fmul_rn(low, by.low);
    high = __fmul_rn(high, by.high);
  }
  __device__ __forceinline__ void scale(float by) {
    low = __fmul_rn(low, by);
    high = __fmul_rn(high, by);
  }
  __device__ __forceinline__ float square() const { return __fadd_rn(__fmul_rn(low, low), __fmul_rn(high, high)); }
};

template <>
struct WordOf<protocol::Float32> {
  float value;
  __device__ __forceinline__ explicit WordOf(uint32_t word) : value(__uint_as_float(word)) {}
  __device__ __forceinline__ uint32_t round() const { return __float_as_uint(value); }
  __device__ __forceinline__ void scale(const WordOf& by) { value = __fmul_rn(value, by.value); }
  __device__ __forceinline__ void scale(float by) { value = __fmul_rn(value, by); }
  __device__ __forceinline__ float square() const { return __fmul_rn(value, value); }
};

// The words of a vector as a thread has it, a word or a packet.
__device__ __forceinline__ uint32_t& word_of(uint32_t& vector, int) { return vector; }
__device__ __forceinline__ uint32_t word_of(const uint32_t& vector, int) { return vector; }
__device__ __forceinline__ uint32_t& word_of(Packet& vector, int i) { return vector[i]; }
__device__ __forceinline__ uint32_t word_of(const Packet& vector, int i) { return vector[i]; }

// kNorm: the form is RMS_NORM, whose blocks meet; else it is one of the others.
template <class Element, class Vector, bool kSingle, bool kNorm>
class RowEpilogue {
 public:
  __device__ __forceinline__ RowEpilogue(const KernelArgs& args, const OneRow& row)
      : args_(OneRow::of(args)),
        form_(args_.form),
        addend_from_(form_ == NVRAR_FUSION_BIAS ? args_.weight : args_.residual + row.begin()),
        weight_from_(args_.weight),
        sum_to_((scales() ? args_.residual_out : args_.launch.recv) + row.begin()),
        output_(args_.launch.recv + row.begin()),
        squares_to_(args_.squares + row.row * parts()) {
    if (kNorm) squares().begin(args_.blocks_per_row, runs() * kNumbersOfARun);
  }
  __device__ __forceinline__ bool prepare() const {
    return pins(addend_from_, weight_from_, sum_to_, output_, squares_to_);
  }

  __device__ __forceinline__ void sent() const {
    if (kNorm) squares().await_others(args_.blocks_per_row);
  }

  __device__ __forceinline__ void expect(uint32_t at, bool exists) {
    addend_ = load(addend_from_ + at, exists);
    weight_ = load(weight_from_ + at, exists && scales());
  }

  __device__ __forceinline__ void take(uint32_t at, const Vector& vector) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      WordSum<Element> word(word_of(vector, i));
      word.add(word_of(addend_, i));
      word_of(kept_, i) = word.round();
    }
    *reinterpret_cast<Vector*>(sum_to_ + at) = kept_;
    if (!kNorm && scales()) store_scaled(at, kept_, 1.0f, weight_);
  }

  template <class Body>
  __device__ __forceinline__ void finish(const Body& body, bool good) {
    if constexpr (kNorm) {
      normalise(body, good);
    } else if (form_ == NVRAR_FUSION_RMS_FOLD) {
      body.each_result([&](uint32_t at, bool exists) {
        const float square = square_of_part(taken(at, exists));
        const uint32_t part = at / protocol::kPartBytes;
        if (threadIdx.x % kPartThreads == 0 && part < parts() && good) squares_to_[part] = square;
      });
    }
  }

 private:
  static constexpr int kWords = sizeof(Vector) / sizeof(uint32_t);
  // The threads that have the words of a part. Packets of a run are all in one warp.
  static constexpr uint32_t kPartThreads = protocol::kPartWords / kWords;
  static constexpr uint32_t kNumbersOfARun = kWords == 1 ? protocol::kRunParts : 1;
  static constexpr uint32_t kRunBytes = protocol::kRunParts * protocol::kPartBytes;
  using Squares = ClusterNumbers<kMostRowParts / protocol::kRunParts * kNumbersOfARun>;

  static __device__ __forceinline__ Squares& squares() {
    __shared__ Squares of_this_block;
    return of_this_block;
  }

  static __device__ __forceinline__ Vector load(const uint8_t* from, bool exists) {
    if constexpr (kWords == 1) {
      return load_input_word<true>(from, exists);
    } else {
      return load_input<true>(from, exists);
    }
  }

  // Whether the sums are multiplied by the weight.
  __device__ __forceinline__ bool scales() const { return kNorm || form_ >= NVRAR_FUSION_RMS_NORM; }
  __device__ __forceinline__ uint32_t parts() const { return protocol::parts_of(args_.row_bytes); }
  __device__ __forceinline__ uint32_t runs() const { return (args_.row_bytes + kRunBytes - 1) / kRunBytes; }

  // What this thread has taken there. Of several vectors only the last one is kept.
  __device__ __forceinline__ Vector taken(uint32_t at, bool exists) const {
    if (kSingle) return kept_;
    return exists ? *reinterpret_cast<const Vector*>(sum_to_ + at) : Vector{};
  }

  // The balanced tree of the numbers of adjacent threads, from groups of `from` to groups of `to` of them.
  static __device__ __forceinline__ float add_adjacent(float number, uint32_t from, uint32_t to) {
#pragma unroll
    for (uint32_t step = from; step < to; step *= 2) {
      const bool distant = protocol::planted(protocol::Defect::kDistantSums);
      number = __fadd_rn(number, __shfl_xor_sync(~0u, number, distant ? from * to / 2 / step : step));
    }
    return number;
  }

  // Of the part to which the vector belongs; by all of a warp's threads.
  __device__ __forceinline__ float square_of_part(const Vector& vector) const {
    float words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = WordOf<Element>(word_of(vector, i)).square();
#pragma unroll
    for (int step = 1; step < kWords; step *= 2) {
#pragma unroll
      for (int i = 0; i < kWords; i += 2 * step) words[i] = __fadd_rn(words[i], words[i + step]);
    }
    return add_adjacent(words[0], 1, kPartThreads);
  }

  template <class Body>
  __device__ __forceinline__ void normalise(const Body& body, bool good) {
    Squares& squares = this->squares();
    const uint32_t lane = threadIdx.x % kWarpThreads;
    const uint32_t blocks = args_.blocks_per_row;
    body.each_result([&](uint32_t at, bool exists) {
      const float square = add_adjacent(square_of_part(taken(at, exists)), kPartThreads, kWarpThreads);
      const uint32_t number = at / (kRunBytes / kNumbersOfARun);
      if (lane < blocks && number < runs() * kNumbersOfARun) squares.give(blocks, lane, number, square);
    });
    squares.await(blocks);
    float sum = 0;
    for (uint32_t run = lane; run < runs(); run += kWarpThreads) sum = __fadd_rn(sum, square_of_run(squares, run));
    sum = add_adjacent(sum, 1, kWarpThreads);
    const float scale = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(sum, args_.hidden), args_.eps)));
    body.each_result([&](uint32_t at, bool exists) {
      if (!exists || !good) return;
      store_scaled(at, taken(at, exists), scale, kSingle ? weight_ : load(weight_from_ + at, true));
    });
  }

  static __device__ __forceinline__ float square_of_run(const Squares& squares, uint32_t run) {
    if constexpr (kNumbersOfARun == 1) {
      return squares.numbers[run];
    } else {
      const float4 parts = reinterpret_cast<const float4*>(squares.numbers)[run];
      return __fadd_rn(__fadd_rn(parts.x, parts.y), __fadd_rn(parts.z, parts.w));
    }
  }

  __device__ __forceinline__ void store_scaled(uint32_t at, const Vector& vector, float scale,
                                               const Vector& weight) const {
    Vector result;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      WordOf<Element> word(word_of(vector, i));
      word.scale(scale);
      word.scale(WordOf<Element>(word_of(weight, i)));
      word_of(result, i) = word.round();
    }
    *reinterpret_cast<Vector*>(output_ + at) = result;
  }

  const FusedArgs& args_;
  const int32_t form_;
  const uint8_t* const addend_from_;
  const uint8_t* const weight_from_;
  uint8_t* const sum_to_;
  uint8_t* const output_;
  float* const squares_to_;
  Vector addend_{};
  Vector weight_{};
  Vector kept_{};
};

}  // namespace nvrar::cuda
