// The parts of a top-k that need no other rank, on the CPU.
#ifndef NVRAR_CPU_TOP_K_H
#define NVRAR_CPU_TOP_K_H

#include "call/top_k.h"

namespace nvrar::cpu {

// Puts the k greatest keys of this rank's part of each row into keys[rows x k], in no order, filled up with kNoKey.
void find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t* keys) noexcept;
// Stores the results. keys[world x rows x k]: of all ranks; their order is lost.
void choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint32_t world, const uint64_t* keys,
            uint64_t* room_of_a_row) noexcept;

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_TOP_K_H
