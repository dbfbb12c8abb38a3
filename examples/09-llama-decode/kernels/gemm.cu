// Matrix products of a decode step: y[batch][features] = x[batch][K] W[features][K]^T for 1 to 32 rows of x, as fast as
// W can be read from memory. W is row-major, as in Hugging Face files.
//
// A block owns as many features as make all multiprocessors end together (GemmPlan.java), any number, and walks over K
// in stages: boxes of W and of x that one thread copies into a ring of about 200 KB. So much, because then a
// multiprocessor has one such block: of blocks of 100 KB the next launch would place two on some and none on others.
// The ring is filled with W before the block waits for the kernels that make x.
//
// Eight warps multiply. The tensor cores take W as the operand of 16 rows, and the rows of x as the 8 columns, which
// cost nothing when they are fewer. A warp has a group of 16 features and every n-th block of 64 columns; the warps of
// the same features add their sums in shared memory. Any order of the columns gives the same product, so a lane takes
// two adjacent pieces of 16 bytes of a row, without a bank conflict and without ldmatrix.
//
// Gate and up of an MLP are one matrix of twice the features: 8 gate and the 8 up rows of the same features make a
// group.
#include "gemm_stages.cuh"

namespace llama {

enum class Epilogue {
  kOut32,  // float32, as it is
  kOut,    // T, plus bias
  kGated,  // T: silu(gate) * up of scaled rows
  kHead,   // float32 of scaled rows, and the greatest key of the block's features
};

template <class T, int kTiles, Epilogue kEpilogue>
__device__ __forceinline__ void gemm(const TensorMap& weights, const TensorMap& x, const GemmArgs& args) {
  constexpr bool kGated = kEpilogue == Epilogue::kGated;
  constexpr bool kScaled = kGated || kEpilogue == Epilogue::kHead;
  constexpr int kRounds = (kTiles * kMmaColumns + kMultiplyWarps - 1) / kMultiplyWarps;
  extern __shared__ uint8_t shared[];
  __shared__ Barrier full[kMaxStages];
  __shared__ Barrier empty[kMaxStages];
  __shared__ float scales[kMaxBatch];
  const uint32_t shared_begin = shared_address(shared);
  const Ring ring{(shared_begin + kTileAlignment - 1) & ~(kTileAlignment - 1), full, empty};
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t steps = (args.column_blocks + args.stage_blocks - 1) / args.stage_blocks;

  if (threadIdx.x < args.stages) {
    full[threadIdx.x].init(1);
    empty[threadIdx.x].init(kMultiplyWarps);
  }
  if (threadIdx.x == kMultiplyThreads) {
    prefetch(weights);
    prefetch(x);
  }
  publish_barriers();
  __syncthreads();
  if (warp == kMultiplyWarps) {
    if (lane == 0) copy_stages<kGated>(args, weights, x, ring, steps);
    return;
  }

  WarpPart<kTiles> part;
  part.group = warp & (args.group_slots - 1);
  part.column_slot = warp / args.group_slots;
  part.column_slots = kMultiplyWarps / args.group_slots;
  part.row = lane / 4;
  part.pair = lane % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    // Columns beyond the batch repeat its last row; nobody reads their sums.
    part.x_rows[n] = min(n * kMmaColumns + part.row, args.batch - 1);
  }
  // [column slot][row of x][row of W]; four more, so that the rows of x lie in different banks.
  float* const warp_sums = reinterpret_cast<float*>(shared + (ring.begin - shared_begin) + args.sums_offset);
  const uint32_t sums_width = args.groups * 16 + 4;
  const auto sum_of = [&](uint32_t row, uint32_t w_row) {
    float sum = 0;
    for (uint32_t slot = 0; slot < part.column_slots; ++slot) {
      sum += warp_sums[(slot * args.batch + row) * sums_width + w_row];
    }
    return sum;
  };

  await_earlier_kernels();
  if (kScaled) {
    for (uint32_t row = warp; row < args.batch; row += kMultiplyWarps) {
      const float scale = row_scale(args.squares, row);
      if (lane == 0) scales[row] = scale;
    }
  }
  uint64_t best[kRounds] = {};
  uint32_t stage = 0;
  uint32_t parity = 0;
  for (uint32_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
    Sums<kTiles> sums = {};
    for (uint32_t step = 0; step < steps; ++step) {
      full[stage].await(parity);
      if (part.group < args.groups) {
        const uint32_t begin = ring.begin + stage * args.stage_bytes;
        multiply_stage<T, kTiles, kGated>(args, part, begin, begin + (kGated ? 2 : 1) * args.weight_bytes, sums);
      }
      __syncwarp();
      if (lane == 0) empty[stage].arrive();
      if (++stage == args.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
#pragma unroll
    for (int set = 1; set < kSets<kTiles>; ++set) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[0][n][i] += sums[set][n][i];
      }
    }
    if (part.group < args.groups) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32_t row = n * kMmaColumns + 2 * part.pair + i % 2;
          const uint32_t w_row = part.group * 16 + part.row + i / 2 * 8;
          if (row < args.batch) {
            warp_sums[(part.column_slot * args.batch + row) * sums_width + w_row] = sums[0][n][i];
          }
        }
      }
    }
    meet(1, kMultiplyThreads);

    const uint32_t first = tile * args.tile_features;
    const uint32_t count = min(args.tile_features, args.features - first);
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const uint32_t row = warp + round * kMultiplyWarps;
      if (row >= args.batch) break;
      const size_t out_row = static_cast<size_t>(row) * args.features + first;
      if constexpr (kEpilogue == Epilogue::kHead) {
        const RowChoice choice(args.sampling, row);
        for (uint32_t i = lane; i < count; i += 32) {
          const float logit = sum_of(row, i) * scales[row];
          static_cast<float*>(args.out)[out_row + i] = logit;
          best[round] = max(best[round], choice.key(logit, args.first_token + first + i));
        }
      } else if constexpr (kGated) {
        for (uint32_t i = lane; i < count; i += 32) {
          const uint32_t w_row = i / 8 * 16 + i % 8;
          const float gate = sum_of(row, w_row) * scales[row];
          const float up = sum_of(row, w_row + 8) * scales[row];
          static_cast<T*>(args.out)[out_row + i] = rounded<T>(gate / (1 + __expf(-gate)) * up);
        }
      } else if constexpr (kEpilogue == Epilogue::kOut) {
        for (uint32_t i = lane; i < count; i += 32) {
          const float bias = args.bias == nullptr ? 0 : args.bias[first + i];
          static_cast<T*>(args.out)[out_row + i] = rounded<T>(sum_of(row, i) + bias);
        }
      } else {
        for (uint32_t i = lane; i < count; i += 32) static_cast<float*>(args.out)[out_row + i] = sum_of(row, i);
      }
    }
    // The sums are read before they are overwritten.
    if (tile + gridDim.x < args.tiles) meet(1, kMultiplyThreads);
  }
  if (kEpilogue == Epilogue::kHead) {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const uint32_t row = warp + round * kMultiplyWarps;
#pragma unroll
      for (int distance = 16; distance != 0; distance /= 2) {
        best[round] = max(best[round], __shfl_xor_sync(~0u, best[round], distance));
      }
      if (lane == 0 && row < args.batch) args.keys[static_cast<size_t>(row) * gridDim.x + blockIdx.x] = best[round];
    }
  }
}

}  // namespace llama

// llama_gemm_EPILOGUE_TYPE_TILES, for up to 8 TILES rows of x.
#define LLAMA_GEMM(name, type, element, tiles, epilogue)                                                 \
  extern "C" __global__ void __launch_bounds__(llama::kThreads, 1) llama_gemm_##name##_##type##_##tiles( \
      const __grid_constant__ llama::TensorMap weights, const __grid_constant__ llama::TensorMap x,      \
      const __grid_constant__ llama::GemmArgs args) {                                                    \
    llama::gemm<llama::element, tiles, llama::Epilogue::epilogue>(weights, x, args);                     \
  }
#define LLAMA_GEMM_EPILOGUES(type, element, tiles) \
  LLAMA_GEMM(out32, type, element, tiles, kOut32)  \
  LLAMA_GEMM(out, type, element, tiles, kOut)      \
  LLAMA_GEMM(gated, type, element, tiles, kGated)  \
  LLAMA_GEMM(head, type, element, tiles, kHead)
#define LLAMA_GEMM_TILES(type, element)  \
  LLAMA_GEMM_EPILOGUES(type, element, 1) \
  LLAMA_GEMM_EPILOGUES(type, element, 2) \
  LLAMA_GEMM_EPILOGUES(type, element, 3) \
  LLAMA_GEMM_EPILOGUES(type, element, 4)

LLAMA_GEMM_TILES(bfloat16, Bfloat16)
LLAMA_GEMM_TILES(float16, Float16)
