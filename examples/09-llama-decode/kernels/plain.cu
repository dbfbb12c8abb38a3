// A step for any shape, with float32 activations, keys and values: for models and GPUs that the fast kernels do not
// take. Sums have an order that depends on the shapes alone, and not on the number of rows.
#include "launch.cuh"
#include "number.cuh"
#include "paged_rows.cuh"
#include "row_scale.cuh"

namespace llama {

constexpr uint32_t kWarps = 8;

struct PlainGemmArgs {
  const float* x;       // [rows][inputs]
  const void* weights;  // [outputs][inputs]
  const float* bias;    // [outputs], or null
  float* out;           // [rows][outputs]
  uint32_t rows;
  uint32_t inputs;
  uint32_t outputs;
};

constexpr uint32_t kWarpOutputs = 4;

// A warp has four outputs of kRows rows, its lanes every 32nd input.
template <class Weight, int kRows>
__device__ __forceinline__ void plain_gemm(const PlainGemmArgs& args) {
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t first_output = (blockIdx.x * kWarps + threadIdx.x / 32) * kWarpOutputs;
  const uint32_t first_row = blockIdx.y * kRows;
  if (first_output >= args.outputs) return;
  // Rows and outputs past the end repeat the last; nobody stores their sums.
  const float* x[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    x[i] = args.x + static_cast<size_t>(min(first_row + i, args.rows - 1)) * args.inputs;
  }
  const Weight* weights[kWarpOutputs];
#pragma unroll
  for (int i = 0; i < kWarpOutputs; ++i) {
    weights[i] = static_cast<const Weight*>(args.weights) +
                 static_cast<size_t>(min(first_output + i, args.outputs - 1)) * args.inputs;
  }
  float sums[kWarpOutputs][kRows] = {};
#pragma unroll 4
  for (uint32_t k = lane; k < args.inputs; k += 32) {
    float w[kWarpOutputs];
#pragma unroll
    for (int i = 0; i < kWarpOutputs; ++i) w[i] = widened(weights[i][k]);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float number = x[row][k];
#pragma unroll
      for (int i = 0; i < kWarpOutputs; ++i) sums[i][row] = fmaf(number, w[i], sums[i][row]);
    }
  }
#pragma unroll
  for (int i = 0; i < kWarpOutputs; ++i) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float sum = sum_of_warp(sums[i][row]);
      const uint32_t output = first_output + i;
      if (lane == 0 && output < args.outputs && first_row + row < args.rows) {
        args.out[static_cast<size_t>(first_row + row) * args.outputs + output] =
            args.bias == nullptr ? sum : sum + args.bias[output];
      }
    }
  }
}

struct AddNormArgs {
  const float* sum;    // [rows][hidden]: of all ranks
  float* residual;     // [rows][hidden]: += sum
  const float* gamma;  // [hidden]
  float* out;          // [rows][hidden]: the normalised residual times gamma
  uint32_t hidden;
  float epsilon;
  uint32_t begins;  // 1: the residual is the sum
};

struct SwigluArgs {
  const float* gate_up;  // [rows][2 width]: gate, then up
  float* out;            // [rows][width]
  uint32_t width;
};

struct RotateArgs {
  PagedRows rows;
  float* query_key_value;  // [rows][(heads + 2 key_value_heads) head_size]; queries are turned in place
  const float2* angles;    // [positions][head_size / 2]: cosine, sine
  float* keys;             // of the layer: [pages][key_value_heads][64][head_size]
  float* values;
  uint32_t heads;
  uint32_t key_value_heads;
  uint32_t head_size;
};

struct PlainAttentionArgs {
  PagedRows rows;
  const float* query_key_value;  // as rotate leaves it
  const float* keys;             // of the layer
  const float* values;
  float* out;  // [rows][heads][head_size]
  uint32_t heads;
  uint32_t key_value_heads;
  uint32_t head_size;
  uint32_t first_head;  // of the whole model
  uint32_t first_key_value_head;
  uint32_t heads_per_key_value_head;
  float scale;
};

// How many positions a warp looks at before it rescales what it has; divides a page.
constexpr uint32_t kTogether = 4;

// A block has kHeads query heads of a row, which share a key/value head. A warp has every eighth group of positions, a
// lane every 32nd number of a head, of which there are at most 32 kNumbers.
template <int kNumbers, int kHeads>
__device__ __forceinline__ void plain_attention(const PlainAttentionArgs& args) {
  __shared__ float maxima[kWarps][kHeads];
  __shared__ float totals[kWarps][kHeads];
  __shared__ float outputs[kWarps][kHeads][32 * kNumbers];
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t row = blockIdx.x;
  const uint32_t head = blockIdx.y * kHeads;
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t size = args.head_size;
  float* const out = args.out + (static_cast<size_t>(row) * args.heads + head) * size;
  const int32_t position = args.rows.positions[row];
  if (position < 0) {
    for (uint32_t i = threadIdx.x; i < kHeads * size; i += blockDim.x) out[i] = 0;
    return;
  }
  const uint32_t count = position + 1;
  const uint32_t key_value_head = (args.first_head + head) / args.heads_per_key_value_head - args.first_key_value_head;
  const int32_t* const pages = args.rows.pages + static_cast<size_t>(args.rows.sequences[row]) * args.rows.max_pages;
  const float* const query = args.query_key_value +
                             static_cast<size_t>(row) * (args.heads + 2 * args.key_value_heads) * size +
                             static_cast<size_t>(head) * size;
  float q[kHeads][kNumbers];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int n = 0; n < kNumbers; ++n)
      q[h][n] = n * 32 + lane < size ? query[h * size + n * 32 + lane] * args.scale : 0;
  }
  float maximum[kHeads];
  float total[kHeads] = {};
  float output[kHeads][kNumbers] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) maximum[h] = -INFINITY;
  for (uint32_t first = warp * kTogether; first < count; first += kWarps * kTogether) {
    const size_t place = pool_place(pages, first, key_value_head, args.key_value_heads) * size;
    const float* const keys = args.keys + place;
    const float* const values = args.values + place;
    const uint32_t here = min(kTogether, count - first);
    float scores[kTogether][kHeads] = {};
#pragma unroll
    for (uint32_t p = 0; p < kTogether; ++p) {
#pragma unroll
      for (int n = 0; n < kNumbers; ++n) {
        const float key = p < here && n * 32 + lane < size ? keys[p * size + n * 32 + lane] : 0;
#pragma unroll
        for (int h = 0; h < kHeads; ++h) scores[p][h] = fmaf(q[h][n], key, scores[p][h]);
      }
    }
    float value[kTogether][kNumbers];
#pragma unroll
    for (uint32_t p = 0; p < kTogether; ++p) {
#pragma unroll
      for (int n = 0; n < kNumbers; ++n) {
        value[p][n] = p < here && n * 32 + lane < size ? values[p * size + n * 32 + lane] : 0;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float greatest = maximum[h];
#pragma unroll
      for (uint32_t p = 0; p < kTogether; ++p) {
        scores[p][h] = p < here ? sum_of_warp(scores[p][h]) : -INFINITY;
        greatest = fmaxf(greatest, scores[p][h]);
      }
      const float factor = expf(maximum[h] - greatest);
      maximum[h] = greatest;
      total[h] *= factor;
#pragma unroll
      for (int n = 0; n < kNumbers; ++n) output[h][n] *= factor;
#pragma unroll
      for (uint32_t p = 0; p < kTogether; ++p) {
        const float weight = expf(scores[p][h] - greatest);
        total[h] += weight;
#pragma unroll
        for (int n = 0; n < kNumbers; ++n) output[h][n] = fmaf(weight, value[p][n], output[h][n]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (lane == 0) {
      maxima[warp][h] = maximum[h];
      totals[warp][h] = total[h];
    }
#pragma unroll
    for (int n = 0; n < kNumbers; ++n) outputs[warp][h][n * 32 + lane] = output[h][n];
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kHeads * size; i += blockDim.x) {
    const uint32_t h = i / size;
    const uint32_t number = i % size;
    float greatest = -INFINITY;
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) greatest = fmaxf(greatest, maxima[w][h]);
    float sum = 0;
    float weights = 0;
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) {
      // A warp that had no positions has the maximum -infinity, and zeros.
      const float factor = expf(maxima[w][h] - greatest);
      weights = fmaf(totals[w][h], factor, weights);
      sum = fmaf(outputs[w][h][number], factor, sum);
    }
    out[i] = sum / weights;
  }
}

}  // namespace llama

#define LLAMA_PLAIN_GEMM(name, weight, rows)                                                \
  extern "C" __global__ void __launch_bounds__(llama::kWarps * 32)                          \
      llama_plain_gemm_##name##_##rows(const __grid_constant__ llama::PlainGemmArgs args) { \
    llama::plain_gemm<weight, rows>(args);                                                  \
  }
#define LLAMA_PLAIN_GEMMS(name, weight) \
  LLAMA_PLAIN_GEMM(name, weight, 1)     \
  LLAMA_PLAIN_GEMM(name, weight, 2)     \
  LLAMA_PLAIN_GEMM(name, weight, 4)     \
  LLAMA_PLAIN_GEMM(name, weight, 8)
// llama_plain_gemm_WEIGHTS_ROWS: grid of (outputs / 32, rows / ROWS)
LLAMA_PLAIN_GEMMS(float32, float)
LLAMA_PLAIN_GEMMS(bfloat16, llama::Bfloat16)
LLAMA_PLAIN_GEMMS(float16, llama::Float16)

// Adds the sum over ranks to the residual, and normalises. A block a row. The sum of squares is in float64, as the
// CPU's.
extern "C" __global__ void __launch_bounds__(llama::kWarps * 32)
    llama_plain_add_norm(const __grid_constant__ llama::AddNormArgs args) {
  using namespace llama;
  __shared__ double squares[kWarps];
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const size_t at = static_cast<size_t>(blockIdx.x) * args.hidden;
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < args.hidden; i += blockDim.x) {
    const float number = args.begins != 0 ? args.sum[at + i] : args.residual[at + i] + args.sum[at + i];
    args.residual[at + i] = number;
    sum += static_cast<double>(number) * number;
  }
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x % 32 == 0) squares[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (uint32_t warp = 0; warp < kWarps; ++warp) sum += squares[warp];
  const float factor = static_cast<float>(1 / sqrt(sum / args.hidden + args.epsilon));
  for (uint32_t i = threadIdx.x; i < args.hidden; i += blockDim.x) {
    args.out[at + i] = args.residual[at + i] * factor * args.gamma[i];
  }
}

// Grid of (width / 256, rows).
extern "C" __global__ void __launch_bounds__(256) llama_plain_swiglu(const __grid_constant__ llama::SwigluArgs args) {
  using namespace llama;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= args.width) return;
  const size_t row = blockIdx.y;
  const float gate = args.gate_up[row * 2 * args.width + i];
  const float up = args.gate_up[(row * 2 + 1) * args.width + i];
  args.out[row * args.width + i] = gate / (1 + expf(-gate)) * up;
}

// Turns queries and keys, and appends keys and values. Number i of a head is turned with number i + head_size / 2. A
// block a row and head, whichever of the three: grid of (rows, heads + 2 key_value_heads).
extern "C" __global__ void llama_plain_rotate(const __grid_constant__ llama::RotateArgs args) {
  using namespace llama;
  if (threadIdx.x == 0) allow_next_kernel();
  await_earlier_kernels();
  const uint32_t row = blockIdx.x;
  const uint32_t head = blockIdx.y;
  const uint32_t half = args.head_size / 2;
  const int32_t position = args.rows.positions[row];
  if (position < 0) return;
  const bool is_query = head < args.heads;
  const bool is_value = head >= args.heads + args.key_value_heads;
  const size_t width = (args.heads + 2 * args.key_value_heads) * args.head_size;
  float* const numbers = args.query_key_value + row * width + head * args.head_size;
  float* target = numbers;
  if (!is_query) {
    const uint32_t key_value_head = head - args.heads - (is_value ? args.key_value_heads : 0);
    const int32_t* const pages = args.rows.pages + static_cast<size_t>(args.rows.sequences[row]) * args.rows.max_pages;
    target = (is_value ? args.values : args.keys) +
             pool_place(pages, position, key_value_head, args.key_value_heads) * args.head_size;
  }
  for (uint32_t i = threadIdx.x; i < half; i += blockDim.x) {
    const float first = numbers[i];
    const float second = numbers[i + half];
    const float2 angle = is_value ? make_float2(1, 0) : args.angles[static_cast<size_t>(position) * half + i];
    target[i] = first * angle.x - second * angle.y;
    target[i + half] = second * angle.x + first * angle.y;
  }
}

#define LLAMA_PLAIN_ATTENTION(numbers, heads)                                                             \
  extern "C" __global__ void __launch_bounds__(llama::kWarps * 32)                                        \
      llama_plain_attention_##numbers##_##heads(const __grid_constant__ llama::PlainAttentionArgs args) { \
    llama::plain_attention<numbers, heads>(args);                                                         \
  }
#define LLAMA_PLAIN_ATTENTIONS(numbers) \
  LLAMA_PLAIN_ATTENTION(numbers, 1)     \
  LLAMA_PLAIN_ATTENTION(numbers, 4)
// llama_plain_attention_NUMBERS_HEADS, for head sizes up to 32 NUMBERS: grid of (rows, heads / HEADS)
LLAMA_PLAIN_ATTENTIONS(1)
LLAMA_PLAIN_ATTENTIONS(2)
LLAMA_PLAIN_ATTENTIONS(4)
LLAMA_PLAIN_ATTENTIONS(8)
