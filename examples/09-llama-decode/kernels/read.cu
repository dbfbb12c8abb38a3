// A plain read of memory: the fastest that a step could read its weights.
#include <cstdint>

namespace llama {

struct ReadArgs {
  const uint4* words;
  uint64_t count;
  uint32_t* found;  // [1]
};

}  // namespace llama

extern "C" __global__ void __launch_bounds__(1024) llama_read(const __grid_constant__ llama::ReadArgs args) {
  // In flight of each thread: with all of them far more than latency times bandwidth.
  constexpr int kAhead = 8;
  // Whether the bits give this the compiler cannot know, so that it leaves no read out.
  constexpr uint32_t kUnlikely = 0x9E3779B9u;
  const uint64_t threads = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const auto read = [&](uint64_t index) { return __ldcs(args.words + index); };
  uint32_t bits = 0;
  uint64_t index = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; index + (kAhead - 1) * threads < args.count; index += kAhead * threads) {
    uint4 words[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) words[i] = read(index + i * threads);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) bits ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
  }
  for (; index < args.count; index += threads) {
    const uint4 word = read(index);
    bits ^= word.x ^ word.y ^ word.z ^ word.w;
  }
  if (bits == kUnlikely) *args.found = bits;
}
