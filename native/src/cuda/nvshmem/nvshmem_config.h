// What a group says of NVSHMEM: where the library is, how much memory it gets, and the id that its world is made by.
#ifndef NVRAR_CUDA_NVSHMEM_NVSHMEM_CONFIG_H
#define NVRAR_CUDA_NVSHMEM_NVSHMEM_CONFIG_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace nvrar::cuda {

constexpr size_t kNvshmemIdBytes = 128;
using NvshmemId = std::array<uint8_t, kNvshmemIdBytes>;
inline bool has_nvshmem_id(const NvshmemId& id) noexcept { return id != NvshmemId{}; }

struct NvshmemConfig {
  std::string library;       // libnvshmem_host.so.3, its directory or that of its lib; empty: looked for
  uint64_t arena_bytes = 0;  // what a process gives to all its groups together, taken once; the same on all ranks
  uint64_t deadline_ns = 0;  // of the initialisation
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_NVSHMEM_CONFIG_H
