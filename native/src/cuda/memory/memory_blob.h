// The content of a MemoryAddress, and the checks that every reader makes, whichever way the memory is shared.
#ifndef NVRAR_CUDA_MEMORY_MEMORY_BLOB_H
#define NVRAR_CUDA_MEMORY_MEMORY_BLOB_H

#include <string>
#include <type_traits>
#include <vector>

#include "common/boot_id.h"
#include "cuda/driver/driver.h"
#include "cuda/memory/symmetric_memory.h"
#include "cuda/nvshmem/world_part.h"

namespace nvrar::cuda {

// Identifies the process that owns the memory. A host name is not enough: two hosts may have the same name, and
// containers of one host have different ones.
struct Home {
  BootId boot_id;          // of the running kernel
  uint32_t pid_namespace;  // inode of the namespace: a pid means another process in another namespace
  int32_t pid;
  uint32_t host_name_hash;  // NVSHMEM identifies hosts by name
};

// A block of device memory that this rank allocated.
struct BlockPart {
  uint64_t id;  // random, also written behind the block's last byte; 0: no block
  IpcMemoryHandle handle;
};

struct MemoryBlob {
  static constexpr uint32_t kMagic = 0x4D53564EU;
  static constexpr uint32_t kSharedDevices = 1;  // flags
  uint32_t magic;
  MemoryProvider provider;
  Home home;
  uint32_t flags;
  Uuid device;
  uint64_t bytes;
  BlockPart block;
  WorldPart world;
};
static_assert(sizeof(MemoryBlob) == kMemoryAddressBytes);
static_assert(std::has_unique_object_representations_v<MemoryBlob>, "no byte of an address is left unwritten");

Home this_home();  // throws NVRAR_SYSTEM

// Not whether they share a host (member/host_key.h), but whether handles of device memory may be passed at all.
inline bool same_kernel(const Home& a, const Home& b) noexcept { return a.boot_id == b.boot_id; }
inline bool same_process(const Home& a, const Home& b) noexcept {
  return same_kernel(a, b) && a.pid_namespace == b.pid_namespace && a.pid == b.pid;
}

// Whether it stands for a rank in another node (read_addresses).
inline bool is_elsewhere(const MemoryBlob& blob) noexcept { return blob.magic == 0; }

// Fills the fields that are the same for all providers.
MemoryBlob make_blob(const MemoryConfig& config, const Uuid& device);
MemoryAddress address_of(const MemoryBlob& blob) noexcept;

// Nothing is read of the ranks elsewhere. Throws Error if members differ in something that must be the same, if a
// member is on another host, or if two members have the same GPU.
std::vector<MemoryBlob> read_addresses(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere,
                                       const MemoryBlob& own, uint32_t rank, uint32_t world);

std::string text_of(const Uuid& device);                      // in the format of nvidia-smi
std::string place_of(uint32_t rank, const MemoryBlob& blob);  // "rank 1 (pid 77, GPU-...)"

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_MEMORY_BLOB_H
