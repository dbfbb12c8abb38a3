// The two ends of a step: a token's embedding, and the choice of the next token.
#include "choice.cuh"
#include "launch.cuh"
#include "number.cuh"

namespace llama {

struct EmbedArgs {
  const void* table;         // [count][hidden]: this rank's words
  const int32_t* tokens;     // [rows]
  const int32_t* positions;  // [rows]; -1: the row is idle
  void* out;  // [rows][hidden]: zeros unless this rank has the word, so that the sum over ranks is the embedding
  uint32_t hidden;
  uint32_t first_token;
  uint32_t count;
};

// A block a row. The next kernel may begin only when this one has waited: so kernels behind it may read positions,
// which the kernel before it has written, without waiting.
template <class Weight, class Out>
__device__ __forceinline__ void embed(const EmbedArgs& args) {
  await_earlier_kernels();
  if (threadIdx.x == 0) allow_next_kernel();
  const uint32_t row = blockIdx.x;
  const uint32_t word = static_cast<uint32_t>(args.tokens[row]) - args.first_token;
  const bool here = args.positions[row] >= 0 && word < args.count;
  const Weight* const from =
      static_cast<const Weight*>(args.table) + static_cast<size_t>(here ? word : 0) * args.hidden;
  Out* const to = static_cast<Out*>(args.out) + static_cast<size_t>(row) * args.hidden;
  for (uint32_t i = threadIdx.x; i < args.hidden; i += blockDim.x) to[i] = rounded<Out>(here ? widened(from[i]) : 0);
}

__device__ __forceinline__ uint64_t greatest_of_warp(uint64_t key) {
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2) key = max(key, __shfl_xor_sync(~0u, key, distance));
  return key;
}

struct BestArgs {
  const uint64_t* keys;  // [rows][count]
  uint64_t* best;        // [rows]
  uint32_t count;
};

struct BestOfLogitsArgs {
  const float* logits;  // [rows][count]
  uint64_t* best;       // [rows]
  Sampling sampling;
  uint32_t count;
  uint32_t first_token;
};

struct ChooseArgs {
  const uint64_t* keys;       // [ranks][rows]
  int32_t* tokens;            // [rows]: of the next step
  int32_t* positions;         // [rows]: of the next step; -1 where a row has ended
  int32_t* remaining;         // [rows]: how many tokens are still wanted
  const int32_t* end_tokens;  // [end_count]
  uint32_t* step;             // how many steps were made
  uint64_t* ring;             // [ring_steps][rows] in the host's memory: step + 1, then the token
  uint32_t ranks;
  uint32_t rows;
  uint32_t end_count;
  uint32_t ring_steps;
};

// What the ring has in place of a token.
constexpr int32_t kIdle = -1;
constexpr int32_t kNotFinite = -2;

// Of the greatest key's value: neither an infinity nor no number at all.
__device__ __forceinline__ bool is_finite(uint64_t key) {
  const uint32_t order = static_cast<uint32_t>(key >> 32);
  constexpr uint32_t kInfinity = 0x7F800000u ^ (1u << 31);
  constexpr uint32_t kMinusInfinity = ~0xFF800000u;
  return order > kMinusInfinity && order < kInfinity;
}

__device__ __forceinline__ void tell_host(uint64_t* to, uint32_t number, int32_t token) {
  const uint64_t word = static_cast<uint64_t>(number) << 32 | static_cast<uint32_t>(token);
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

}  // namespace llama

#define LLAMA_EMBED(name, weight, out)                                                           \
  extern "C" __global__ void llama_embed_##name(const __grid_constant__ llama::EmbedArgs args) { \
    llama::embed<weight, out>(args);                                                             \
  }
// llama_embed_WEIGHTS_OUT
LLAMA_EMBED(float32_float32, float, float)
LLAMA_EMBED(bfloat16_float32, llama::Bfloat16, float)
LLAMA_EMBED(float16_float32, llama::Float16, float)
LLAMA_EMBED(bfloat16_bfloat16, llama::Bfloat16, llama::Bfloat16)
LLAMA_EMBED(float16_float16, llama::Float16, llama::Float16)

// The greatest key of a row, of the keys that blocks have found. A warp a row.
extern "C" __global__ void llama_best(const __grid_constant__ llama::BestArgs args) {
  using namespace llama;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  uint64_t best = 0;
  for (uint32_t i = threadIdx.x; i < args.count; i += 32) {
    best = max(best, load_written(args.keys + static_cast<size_t>(blockIdx.x) * args.count + i));
  }
  best = greatest_of_warp(best);
  if (threadIdx.x == 0) args.best[blockIdx.x] = best;
}

// The greatest key of a row's logits. A block a row.
extern "C" __global__ void llama_best_of_logits(const __grid_constant__ llama::BestOfLogitsArgs args) {
  using namespace llama;
  __shared__ uint64_t warps[32];
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t row = blockIdx.x;
  const RowChoice choice(args.sampling, row);
  uint64_t best = 0;
  for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    best = max(best, choice.key(args.logits[static_cast<size_t>(row) * args.count + i], args.first_token + i));
  }
  best = greatest_of_warp(best);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x < 32) {
    best = greatest_of_warp(threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0);
    if (threadIdx.x == 0) args.best[row] = best;
  }
}

// Chooses the tokens of all rows, of the greatest keys of all ranks, and makes them the next step's. One block.
extern "C" __global__ void llama_choose(const __grid_constant__ llama::ChooseArgs args) {
  using namespace llama;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t step = *args.step;
  for (uint32_t row = threadIdx.x; row < args.rows; row += blockDim.x) {
    const int32_t position = args.positions[row];
    int32_t token = kIdle;
    if (position >= 0) {
      uint64_t best = 0;
      for (uint32_t rank = 0; rank < args.ranks; ++rank) best = max(best, args.keys[rank * args.rows + row]);
      token = is_finite(best) ? static_cast<int32_t>(~static_cast<uint32_t>(best)) : kNotFinite;
      const int32_t remaining = args.remaining[row] - 1;
      bool ends = token == kNotFinite || remaining <= 0;
      for (uint32_t i = 0; i < args.end_count; ++i) ends |= token == args.end_tokens[i];
      args.remaining[row] = remaining;
      args.tokens[row] = max(token, 0);
      args.positions[row] = ends ? -1 : position + 1;
    }
    tell_host(args.ring + static_cast<size_t>(step % args.ring_steps) * args.rows + row, step + 1, token);
  }
  __syncthreads();
  if (threadIdx.x == 0) *args.step = step + 1;
}
