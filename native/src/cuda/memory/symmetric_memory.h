// Device memory that every rank of a group can load from and store to, whichever way the ranks got hold of it.
#ifndef NVRAR_CUDA_MEMORY_SYMMETRIC_MEMORY_H
#define NVRAR_CUDA_MEMORY_SYMMETRIC_MEMORY_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/nvshmem/nvshmem_config.h"

namespace nvrar::cuda {

enum class MemoryProvider : uint32_t {
  kAutomatic = 0,  // local where all ranks are in one process, else NVSHMEM where all can, else CUDA IPC
  kNvshmem = 1,
  kIpc = 2,    // processes of one host
  kLocal = 3,  // ranks of one process
};
const char* name_of(MemoryProvider provider) noexcept;

// What a member tells the others of its memory: plain bytes in the group's descriptor, checked by the reader.
constexpr size_t kMemoryAddressBytes = 192;
struct MemoryAddress {
  uint8_t bytes[kMemoryAddressBytes];
};

struct MemoryConfig {
  MemoryProvider provider = MemoryProvider::kAutomatic;
  uint64_t bytes = 0;  // of each rank; the same on all
  int32_t device = 0;  // ordinal
  uint32_t rank = 0;
  uint32_t world = 1;
  bool shared_devices = false;  // several ranks may use one GPU: for tests, on all ranks or on none
  NvshmemConfig nvshmem;
  NvshmemId nvshmem_id{};  // of the group's unique id; all zero: its maker had none to give
};

// How a group ended for its member, as far as its memory is concerned.
enum class GroupEnd {
  kOrderly,     // every member has left for good: the bytes may be used again
  kUncertain,   // somebody may still write: the bytes stay out of use until all have left
  kMemberLost,  // an abort, of a member or for one that died: with NVSHMEM, this process's world is lost with it
};
// Whether every peer has left for good, asked by other threads long after the member is gone: it owns what it looks at.
using AllLeft = std::function<bool()>;

// Any thread may call; one at a time.
class SymmetricMemory {
 public:
  // Frees what is safe to free: all after ended(kOrderly), what nobody else can reach before map(). What a peer could
  // still write is freed when a later group of this process is made, if all have left by then. Never waits for others.
  virtual ~SymmetricMemory() = default;
  virtual MemoryAddress address() const = 0;
  // Of all ranks in rank order. Called once, by all members at the same time: with NVSHMEM the first group of a process
  // initialises it here, which waits for the others until the deadline. Throws Error.
  virtual void map(const std::vector<MemoryAddress>& of_ranks) = 0;
  // After map(): the address of that rank's memory as this rank's kernels use it.
  virtual uint64_t of(uint32_t rank) const noexcept = 0;
  // Without it the end is kUncertain, and without `all_left` such an end is for ever.
  virtual void ended(GroupEnd how, AllLeft all_left = nullptr) noexcept = 0;
  // After map(): never kAutomatic.
  virtual MemoryProvider provider() const noexcept = 0;
};

// Reserves what can be reserved without the others. Throws Error: NVRAR_UNAVAILABLE for what is missing here,
// NVRAR_SYSTEM for what the driver refused.
std::unique_ptr<SymmetricMemory> make_symmetric_memory(const MemoryConfig& config);

// The NVSHMEM part of a new group's unique id; all zero where this process is in a world already, whose groups need
// none. The process stays alive until all members have mapped. Throws NVRAR_UNAVAILABLE where NVSHMEM is not usable.
NvshmemId make_nvshmem_id(const NvshmemConfig& config);
// Of a group whose members have all come to another provider: a later group of this process may use it.
void put_back_nvshmem_id(const NvshmemId& id) noexcept;

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_SYMMETRIC_MEMORY_H
