// What a chunk of a prompt needs beside large matrix products and the all-reduces: residual and RMSNorm, rotary
// embedding with the new keys and values into their pages, causal attention of many rows, SwiGLU. Rows are of the
// weights' type.
#include "chunk_attention.cuh"
#include "number.cuh"

namespace llama {

constexpr uint32_t kPieceElements = 8;

// 16 bytes of a row.
template <class T>
struct Piece {
  float numbers[kPieceElements];

  __device__ __forceinline__ static Piece load(const T* from) {
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
    Piece piece;
#pragma unroll
    for (uint32_t i = 0; i < kPieceElements; ++i) {
      piece.numbers[i] = widened(T{static_cast<uint16_t>(pairs[i / 2] >> (i % 2 * 16))});
    }
    return piece;
  }
  __device__ __forceinline__ void add(const float* numbers_to_add) {
#pragma unroll
    for (uint32_t i = 0; i < kPieceElements; ++i) numbers[i] += numbers_to_add[i];
  }
  __device__ __forceinline__ void store(T* to) const {
    *reinterpret_cast<uint4*>(to) = make_uint4(packed<T>(numbers[0], numbers[1]), packed<T>(numbers[2], numbers[3]),
                                               packed<T>(numbers[4], numbers[5]), packed<T>(numbers[6], numbers[7]));
  }
};

// Adds the bias, turns queries in place, and stores keys and values in their pages. A block a row; a thread has eight
// numbers of the first half of a head, and those of the second half that are turned with them.
template <class T, uint32_t kDim>
__device__ __forceinline__ void rotate_chunk(const ChunkArgs& args) {
  constexpr uint32_t kPieces = kPairs<kDim> / kPieceElements;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t row = blockIdx.x;
  const int32_t position = args.rows.positions[row];
  if (position < 0) return;
  const uint32_t all_heads = args.heads + 2 * args.kv_heads;
  T* const numbers = static_cast<T*>(args.qkv) + static_cast<size_t>(row) * all_heads * kDim;
  const int32_t* const pages = args.rows.pages + static_cast<size_t>(args.rows.sequences[row]) * args.rows.max_pages;
  const size_t first_row = args.first_row;
  for (uint32_t i = threadIdx.x; i < all_heads * kPieces; i += blockDim.x) {
    const uint32_t head = i / kPieces;
    const uint32_t at = i % kPieces * kPieceElements;
    T* const from = numbers + head * kDim + at;
    Piece<T> first = Piece<T>::load(from);
    Piece<T> second = Piece<T>::load(from + kPairs<kDim>);
    if (args.bias != nullptr) {
      first.add(args.bias + head * kDim + at);
      second.add(args.bias + head * kDim + at + kPairs<kDim>);
    }
    const bool is_value = head >= args.heads + args.kv_heads;
    if (!is_value) {
      const float2* const angles = args.rope + static_cast<size_t>(position) * kPairs<kDim> + at;
#pragma unroll
      for (uint32_t j = 0; j < kPieceElements; ++j) {
        const float2 angle = angles[j];
        const float a = first.numbers[j];
        const float b = second.numbers[j];
        first.numbers[j] = a * angle.x - b * angle.y;
        second.numbers[j] = b * angle.x + a * angle.y;
      }
    }
    T* to = from;
    if (head >= args.heads) {
      const uint32_t kv_head = head - args.heads - (is_value ? args.kv_heads : 0);
      to = static_cast<T*>(is_value ? args.values : args.keys) +
           (first_row + pool_place(pages, position, kv_head, args.kv_heads)) * kDim + at;
    }
    first.store(to);
    second.store(to + kPairs<kDim>);
  }
}

struct NormArgs {
  const void* sums;   // [rows][hidden]: of all ranks
  void* residual;     // [rows][hidden]: += sums
  const void* gamma;  // [hidden]
  void* out;          // [rows][hidden]: the normalised residual times gamma; with squares, the residual times gamma
  float* squares;  // [rows][hidden / 64], or null: sums of squares of the residual, as the fused all-reduce leaves them
  uint32_t hidden;  // a multiple of 64
  float epsilon;
  uint32_t begins;  // 1: the residual is the sums
};

constexpr uint32_t kNormThreads = 256;

// A block a row. The residual is rounded before it is normalised, so that all that follows sees the same numbers.
template <class T>
__device__ __forceinline__ void norm_chunk(const NormArgs& args) {
  constexpr uint32_t kLanesOfSquares = kBlockColumns / kPieceElements;
  __shared__ float warps[kNormThreads / 32];
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const size_t first = static_cast<size_t>(blockIdx.x) * args.hidden;
  const T* const sums = static_cast<const T*>(args.sums) + first;
  T* const residual = static_cast<T*>(args.residual) + first;
  T* const out = static_cast<T*>(args.out) + first;
  float total = 0;
  // All lanes of a warp make as many turns: they add up squares together.
  for (uint32_t begin = 0; begin < args.hidden; begin += kNormThreads * kPieceElements) {
    const uint32_t i = begin + threadIdx.x * kPieceElements;
    float square = 0;
    if (i < args.hidden) {
      Piece<T> piece = Piece<T>::load(sums + i);
      if (args.begins == 0) piece.add(Piece<T>::load(residual + i).numbers);
      piece.store(residual + i);
      piece = Piece<T>::load(residual + i);
#pragma unroll
      for (uint32_t j = 0; j < kPieceElements; ++j) square = fmaf(piece.numbers[j], piece.numbers[j], square);
    }
    total += square;
    if (args.squares != nullptr) {
#pragma unroll
      for (uint32_t distance = kLanesOfSquares / 2; distance != 0; distance /= 2) {
        square += __shfl_xor_sync(~0u, square, distance);
      }
      if (i < args.hidden && threadIdx.x % kLanesOfSquares == 0) {
        args.squares[static_cast<size_t>(blockIdx.x) * (args.hidden / kBlockColumns) + i / kBlockColumns] = square;
      }
    }
  }
  total = sum_of_warp(total);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
  __syncthreads();
  total = 0;
#pragma unroll
  for (uint32_t warp = 0; warp < kNormThreads / 32; ++warp) total += warps[warp];
  const float scale = args.squares != nullptr ? 1.0f : rsqrtf(total / static_cast<float>(args.hidden) + args.epsilon);
  for (uint32_t i = threadIdx.x * kPieceElements; i < args.hidden; i += kNormThreads * kPieceElements) {
    Piece<T> piece = Piece<T>::load(residual + i);
    const Piece<T> gamma = Piece<T>::load(static_cast<const T*>(args.gamma) + i);
#pragma unroll
    for (uint32_t j = 0; j < kPieceElements; ++j) piece.numbers[j] *= scale * gamma.numbers[j];
    piece.store(out + i);
  }
}

struct GateArgs {
  const void* gate_up;  // [rows][2 width]: gate, then up
  void* out;            // [rows][width]
  uint32_t width;       // a multiple of 8
};

// Grid of (width / 2048, rows).
template <class T>
__device__ __forceinline__ void gate_chunk(const GateArgs& args) {
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) * kPieceElements;
  if (i >= args.width) return;
  const size_t row = blockIdx.y;
  const T* const from = static_cast<const T*>(args.gate_up) + row * 2 * args.width + i;
  Piece<T> gate = Piece<T>::load(from);
  const Piece<T> up = Piece<T>::load(from + args.width);
#pragma unroll
  for (uint32_t j = 0; j < kPieceElements; ++j) {
    gate.numbers[j] = gate.numbers[j] / (1 + __expf(-gate.numbers[j])) * up.numbers[j];
  }
  gate.store(static_cast<T*>(args.out) + row * args.width + i);
}

}  // namespace llama

#define LLAMA_CHUNK(type, element, dim)                                                           \
  extern "C" __global__ void __launch_bounds__(256)                                               \
      llama_rotate_chunk_##type##_##dim(const __grid_constant__ llama::ChunkArgs args) {          \
    llama::rotate_chunk<llama::element, dim>(args);                                               \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(llama::kChunkThreads, 2)                           \
      llama_chunk_attention_##type##_##dim##_64(const __grid_constant__ llama::ChunkArgs args) {  \
    llama::chunk_attention<llama::element, dim, 1>(args);                                         \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(llama::kChunkThreads, 2)                           \
      llama_chunk_attention_##type##_##dim##_128(const __grid_constant__ llama::ChunkArgs args) { \
    llama::chunk_attention<llama::element, dim, 2>(args);                                         \
  }
// llama_chunk_attention_TYPE_HEADSIZE_ROWS: for tiles of up to ROWS rows
LLAMA_CHUNK(bfloat16, Bfloat16, 64)
LLAMA_CHUNK(bfloat16, Bfloat16, 128)
LLAMA_CHUNK(float16, Float16, 64)
LLAMA_CHUNK(float16, Float16, 128)

#define LLAMA_NORM_CHUNK(type, element)                                       \
  extern "C" __global__ void __launch_bounds__(llama::kNormThreads)           \
      llama_norm_chunk_##type(const __grid_constant__ llama::NormArgs args) { \
    llama::norm_chunk<llama::element>(args);                                  \
  }
LLAMA_NORM_CHUNK(bfloat16, Bfloat16)
LLAMA_NORM_CHUNK(float16, Float16)

#define LLAMA_GATE_CHUNK(type, element)                                       \
  extern "C" __global__ void __launch_bounds__(256)                           \
      llama_gate_chunk_##type(const __grid_constant__ llama::GateArgs args) { \
    llama::gate_chunk<llama::element>(args);                                  \
  }
LLAMA_GATE_CHUNK(bfloat16, Bfloat16)
LLAMA_GATE_CHUNK(float16, Float16)
