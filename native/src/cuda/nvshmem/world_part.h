// What a process tells the members of a new group about its NVSHMEM world.
#ifndef NVRAR_CUDA_NVSHMEM_WORLD_PART_H
#define NVRAR_CUDA_NVSHMEM_WORLD_PART_H

#include <cstdint>

#include "cuda/nvshmem/unit_map.h"

namespace nvrar::cuda {

enum class WorldState : uint32_t {
  kUnusable = 0,  // no NVSHMEM in this process, or its world is lost
  kNone = 1,      // this process is in no world yet
  kMember = 2,    // this process is in a world
  kBusy = 3,      // another group of this process is being created
};

// The NVSHMEM world of this rank's process.
struct WorldPart {
  uint64_t id;  // hash of the world's NVSHMEM id
  uint16_t pe;
  uint16_t size;
  WorldState state;
  uint64_t arena_bytes;
  UnitMap free;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_WORLD_PART_H
