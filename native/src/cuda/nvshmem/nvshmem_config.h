// A group's settings for NVSHMEM: where the library is, how much memory it gets, and the id by which its world is
// created.
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
  std::string library;       // path of libnvshmem_host.so.3, of its directory, or of the parent of lib; empty: search
  uint64_t arena_bytes = 0;  // memory for all groups of a process together, allocated once; the same on all ranks
  uint64_t deadline_ns = 0;  // limit of the initialisation
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_NVSHMEM_CONFIG_H
