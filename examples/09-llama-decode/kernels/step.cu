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

// Where a step's tokens go.
struct NextStep {
  int32_t* tokens;            // [rows]: of the next step
  int32_t* positions;         // [rows]: of the next step; -1 where a row has ended
  int32_t* remaining;         // [rows]: how many tokens are still wanted
  const int32_t* end_tokens;  // [end_count]
  uint32_t* step;             // how many steps were made
  uint64_t* ring;             // [ring_steps][rows] in the host's memory: step + 1, then the token
  uint32_t rows;
  uint32_t end_count;
  uint32_t ring_steps;
};

struct ChooseArgs {
  NextStep next;
  const uint64_t* keys;  // [ranks][rows]
  uint32_t ranks;
};

struct TotalsArgs {
  const float* logits;  // [rows][count]
  uint64_t* totals;     // [rows][2]: the greatest logit as a float, and the sum of the weights beside it as a double
  const float* temperatures;
  uint32_t count;
};

struct DrawArgs {
  NextStep next;
  const float* values;     // [rows][k], of the likeliest tokens, the greatest first
  const int32_t* indices;  // [rows][k]: these tokens; -1: there are no more
  const uint64_t* totals;  // [ranks][rows][2] as TotalsArgs has them; null: only these tokens may be drawn
  const float* top_p;      // [1]
  Sampling sampling;
  uint32_t k;
  uint32_t ranks;
};

// What the ring has in place of a token.
constexpr int32_t kIdle = -1;
constexpr int32_t kNotFinite = -2;
constexpr int32_t kUndecided = -3;  // more of the likeliest tokens are needed than there are

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

// Makes the token of a row that is not idle the next step's, and tells the host. A row without a token becomes idle.
__device__ __forceinline__ void take_token(const NextStep& next, uint32_t row, int32_t position, int32_t token) {
  if (token == kUndecided) {
    next.positions[row] = -1;
    return;
  }
  const int32_t remaining = next.remaining[row] - 1;
  bool ends = token == kNotFinite || remaining <= 0;
  for (uint32_t i = 0; i < next.end_count; ++i) ends |= token == next.end_tokens[i];
  next.remaining[row] = remaining;
  next.tokens[row] = max(token, 0);
  next.positions[row] = ends ? -1 : position + 1;
}
__device__ __forceinline__ void tell_host(const NextStep& next, uint32_t step, uint32_t row, int32_t token) {
  tell_host(next.ring + static_cast<size_t>(step % next.ring_steps) * next.rows + row, step + 1, token);
}

__device__ __forceinline__ bool is_finite(float value) { return fabsf(value) < __int_as_float(0x7F800000); }

// The sum of a warp's values up to and with the own one; the same bits on every GPU of a kind.
__device__ __forceinline__ double sum_up_to_lane(double value) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double before = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

// Draws a row's token among the likeliest that have top_p together, by a warp.
__device__ __forceinline__ int32_t draw(const DrawArgs& args, uint32_t row) {
  const float* const values = args.values + static_cast<size_t>(row) * args.k;
  const int32_t* const indices = args.indices + static_cast<size_t>(row) * args.k;
  const float greatest = load_written(values);
  if (load_written(indices) < 0 || !is_finite(greatest)) return kNotFinite;
  const RowChoice choice(args.sampling, row);
  if (!(choice.temperature > 0)) return load_written(indices);
  const auto weight = [&](float value) { return static_cast<double>(expf((value - greatest) / choice.temperature)); };
  double total = 0;
  if (args.totals == nullptr) {
    for (uint32_t first = 0; first < args.k; first += 32) {
      const uint32_t at = first + threadIdx.x % 32;
      const bool exists = at < args.k && load_written(indices + at) >= 0;
      total += __shfl_sync(~0u, sum_up_to_lane(exists ? weight(load_written(values + at)) : 0), 31);
    }
  } else {
    for (uint32_t rank = 0; rank < args.ranks; ++rank) {
      const uint64_t* const of_rank = args.totals + (static_cast<size_t>(rank) * args.next.rows + row) * 2;
      const double sum = __longlong_as_double(static_cast<long long>(load_written(of_rank + 1)));
      if (sum > 0) total += sum * weight(__uint_as_float(static_cast<uint32_t>(load_written(of_rank))));
    }
  }
  const double enough = total * load_written(args.top_p);
  double before = 0;  // of the tokens so far
  uint64_t best = 0;
  bool reached = false;
  for (uint32_t first = 0; first < args.k && !reached; first += 32) {
    const uint32_t at = first + threadIdx.x % 32;
    const int32_t token = at < args.k ? load_written(indices + at) : -1;
    const float value = token < 0 ? 0 : load_written(values + at);
    const double own = token < 0 ? 0 : weight(value);
    const double sum = sum_up_to_lane(own);
    // The token that crosses the limit may be drawn, and the first one always.
    if (token >= 0 && (at == 0 || before + (sum - own) < enough)) {
      best = max(best, choice.key(value, static_cast<uint32_t>(token)));
    }
    before += __shfl_sync(~0u, sum, 31);
    reached = before >= enough || __any_sync(~0u, at < args.k && token < 0);
  }
  if (!reached && args.totals != nullptr) return kUndecided;
  best = greatest_of_warp(best);
  return static_cast<int32_t>(~static_cast<uint32_t>(best));
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
  const uint32_t step = *args.next.step;
  for (uint32_t row = threadIdx.x; row < args.next.rows; row += blockDim.x) {
    const int32_t position = args.next.positions[row];
    int32_t token = kIdle;
    if (position >= 0) {
      uint64_t best = 0;
      for (uint32_t rank = 0; rank < args.ranks; ++rank) best = max(best, args.keys[rank * args.next.rows + row]);
      token = is_finite(best) ? static_cast<int32_t>(~static_cast<uint32_t>(best)) : kNotFinite;
      take_token(args.next, row, position, token);
    }
    tell_host(args.next, step, row, token);
  }
  __syncthreads();
  if (threadIdx.x == 0) *args.next.step = step + 1;
}

// The greatest logit of a row of this rank's vocabulary, and the sum of what weighs its tokens beside it. A block a
// row.
extern "C" __global__ void llama_totals(const __grid_constant__ llama::TotalsArgs args) {
  using namespace llama;
  __shared__ float greatest_of[32];
  __shared__ double sum_of[32];
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const float* const logits = args.logits + static_cast<size_t>(blockIdx.x) * args.count;
  const float temperature = fmaxf(load_written(args.temperatures + blockIdx.x), kLeastTemperature);
  const uint32_t warps = blockDim.x / 32;
  float greatest = __int_as_float(0xFF800000);
  for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x) greatest = fmaxf(greatest, load_written(logits + i));
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2) {
    greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, distance));
  }
  if (threadIdx.x % 32 == 0) greatest_of[threadIdx.x / 32] = greatest;
  __syncthreads();
  for (uint32_t warp = 0; warp < warps; ++warp) greatest = fmaxf(greatest, greatest_of[warp]);
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    sum += static_cast<double>(expf((load_written(logits + i) - greatest) / temperature));
  }
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x % 32 == 0) sum_of[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (uint32_t warp = 0; warp < warps; ++warp) sum += sum_of[warp];
  args.totals[2 * blockIdx.x] = __float_as_uint(greatest);
  args.totals[2 * blockIdx.x + 1] = static_cast<uint64_t>(__double_as_longlong(sum));
}

// Draws the tokens of all rows among their likeliest ones, and makes them the next step's. One block, a warp a row.
extern "C" __global__ void llama_draw(const __grid_constant__ llama::DrawArgs args) {
  using namespace llama;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t step = *args.next.step;
  for (uint32_t row = threadIdx.x / 32; row < args.next.rows; row += blockDim.x / 32) {
    const int32_t position = args.next.positions[row];
    const int32_t token = position < 0 ? kIdle : draw(args, row);
    __syncwarp();
    if (threadIdx.x % 32 != 0) continue;
    if (position >= 0) take_token(args.next, row, position, token);
    tell_host(args.next, step, row, token);
  }
  __syncthreads();
  if (threadIdx.x == 0) *args.next.step = step + 1;
}
