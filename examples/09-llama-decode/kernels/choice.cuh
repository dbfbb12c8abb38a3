// How a token is chosen from logits: each has a key, and the greatest key of all ranks wins.
#pragma once

#include "launch.cuh"

namespace llama {

// A greater value has a greater key, and of equal values the smaller token. A value that is no number has the greatest
// of all, so that whoever looks at the winner learns of it.
__device__ __forceinline__ uint64_t key_of(float value, uint32_t token) {
  uint32_t bits = __float_as_uint(value);
  bits = value != value ? ~0u : bits ^ ((bits >> 31) != 0 ? ~0u : 1u << 31);
  return static_cast<uint64_t>(bits) << 32 | ~token;
}

// What the choices of a step's rows depend on, in device memory, so that a captured graph serves any request.
struct Sampling {
  const float* temperatures;  // [rows]; 0: the greatest logit. Null: it is for all rows
  const uint64_t* seed;
  const int32_t* sequences;  // [rows]
  const int32_t* positions;  // [rows]: of the tokens that went in
};

// Random bits for each token that depend on nothing else, so that any rank can make those of its tokens: Philox4x32-10
// (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; SC 2011), the first word.
__device__ __forceinline__ uint32_t random_bits(uint64_t seed, uint32_t sequence, uint32_t position, uint32_t token) {
  uint32_t counter[4] = {token, position, sequence, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = static_cast<uint64_t>(0xD2511F53u) * counter[0];
    const uint64_t second = static_cast<uint64_t>(0xCD9E8D57u) * counter[2];
    counter[0] = static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0];
    counter[2] = static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1];
    counter[1] = static_cast<uint32_t>(second);
    counter[3] = static_cast<uint32_t>(first);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter[0];
}

// The greatest of logit / temperature plus such noise is a sample of the softmax (the Gumbel-max trick). 1 - u is drawn
// and not u: float32 is finest near 0, which is where the greatest values come from.
__device__ __forceinline__ float gumbel_noise(uint32_t bits) {
  const float drawn = fmaf(__uint2float_rn(bits), 0x1p-32f, 0x1p-33f);
  return -logf(-log1pf(-drawn));
}

// Below this temperature logits divided by it could be infinite, and equal. At it they differ by so much that the noise
// no longer counts, as at 0.
constexpr float kLeastTemperature = 0x1p-96f;

// What row's tokens are chosen by.
struct RowChoice {
  float temperature;
  uint64_t seed;
  uint32_t sequence;
  uint32_t position;

  __device__ __forceinline__ RowChoice(const Sampling& sampling, uint32_t row)
      : temperature(sampling.temperatures == nullptr ? 0 : load_written(sampling.temperatures + row)),
        seed(0),
        sequence(0),
        position(0) {
    if (temperature > 0) {
      temperature = fmaxf(temperature, kLeastTemperature);
      seed = load_written(sampling.seed);
      sequence = static_cast<uint32_t>(load_written(sampling.sequences + row));
      position = static_cast<uint32_t>(load_written(sampling.positions + row));
    }
  }

  __device__ __forceinline__ uint64_t key(float logit, uint32_t token) const {
    if (temperature > 0) logit = logit / temperature + gumbel_noise(random_bits(seed, sequence, position, token));
    return key_of(logit, token);
  }
};

}  // namespace llama
