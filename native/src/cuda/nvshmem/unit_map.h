// The free units of an arena. Members exchange it in their addresses, so that members whose processes have different
// groups agree on a slice that is free on all of them.
#ifndef NVRAR_CUDA_NVSHMEM_UNIT_MAP_H
#define NVRAR_CUDA_NVSHMEM_UNIT_MAP_H

#include <cstdint>

namespace nvrar::cuda {

struct UnitMap {
  static constexpr uint32_t kUnits = 256;
  static constexpr uint32_t kNone = kUnits;

  uint64_t words[kUnits / 64];  // bit u % 64 of word u / 64: unit u is free

  static UnitMap all_free() noexcept { return {{~0ULL, ~0ULL, ~0ULL, ~0ULL}}; }
  bool is_free(uint32_t unit) const noexcept { return (words[unit / 64] >> (unit % 64) & 1) != 0; }

  void take(uint32_t first, uint32_t count) noexcept {
    for (uint32_t unit = first; unit < first + count; ++unit) words[unit / 64] &= ~(1ULL << (unit % 64));
  }
  void give(uint32_t first, uint32_t count) noexcept {
    for (uint32_t unit = first; unit < first + count; ++unit) words[unit / 64] |= 1ULL << (unit % 64);
  }
  void intersect(const UnitMap& other) noexcept {
    for (uint32_t word = 0; word < kUnits / 64; ++word) words[word] &= other.words[word];
  }

  // The first run of free units that is long enough, kNone if there is none. All members get the same result, because
  // they compute it on the same intersection.
  uint32_t first_fit(uint32_t count) const noexcept {
    uint32_t run = 0;
    for (uint32_t unit = 0; unit < kUnits; ++unit) {
      run = is_free(unit) ? run + 1 : 0;
      if (run == count) return unit + 1 - count;
    }
    return kNone;
  }
  uint32_t longest_run() const noexcept {
    uint32_t run = 0;
    uint32_t longest = 0;
    for (uint32_t unit = 0; unit < kUnits; ++unit) {
      run = is_free(unit) ? run + 1 : 0;
      if (run > longest) longest = run;
    }
    return longest;
  }
};
static_assert(sizeof(UnitMap) == 32);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_UNIT_MAP_H
