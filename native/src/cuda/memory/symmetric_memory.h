// Device memory that every rank of a group can load from and store to, independent of the provider.
#ifndef NVRAR_CUDA_MEMORY_SYMMETRIC_MEMORY_H
#define NVRAR_CUDA_MEMORY_SYMMETRIC_MEMORY_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/rank_set.h"
#include "cuda/nvshmem/nvshmem_config.h"

namespace nvrar::cuda {

enum class MemoryProvider : uint32_t {
  kAutomatic = 0,  // local if all ranks are in one process, else NVSHMEM if all can use it, else CUDA IPC
  kNvshmem = 1,
  kIpc = 2,    // processes of one host
  kLocal = 3,  // ranks of one process
};
const char* name_of(MemoryProvider provider) noexcept;

// A member's description of its memory for the others: plain bytes in the group's descriptor, checked by the reader.
constexpr size_t kMemoryAddressBytes = 192;
struct MemoryAddress {
  uint8_t bytes[kMemoryAddressBytes];
};

struct MemoryConfig {
  MemoryProvider provider = MemoryProvider::kAutomatic;
  uint64_t bytes = 0;  // per rank; the same on all ranks
  int32_t device = 0;  // ordinal
  uint32_t rank = 0;
  uint32_t world = 1;
  bool shared_devices = false;  // several ranks may use one GPU: for tests, on all ranks or on none
  NvshmemConfig nvshmem;
  NvshmemId nvshmem_id{};  // from the group's unique id; all zero if its creator had none
};

// How a group ended for its member; decides what happens to the memory.
enum class GroupEnd {
  kOrderly,     // every member has left for good: the memory may be reused
  kUncertain,   // a peer may still write: the memory is not reused until all have left
  kMemberLost,  // a member aborted or died: with NVSHMEM, this process's world is lost, too
};
// Returns whether every peer has left for good. Other threads call it long after the member is gone, so it must own
// what it reads.
using AllLeft = std::function<bool()>;

// Any thread may call, but only one at a time.
class SymmetricMemory {
 public:
  // Frees the memory that is safe to free: all of it after ended(kOrderly), and before map(), when no call of the group
  // has been made. Memory that a peer could still write, also one whose map() succeeded where this rank's failed, is
  // freed when a later group of this process is created or destroyed, if all peers have left by then. Never waits for
  // other members.
  virtual ~SymmetricMemory() = default;
  virtual MemoryAddress address() const = 0;
  // Takes the addresses of all ranks in rank order. elsewhere: the ranks in other nodes, whose memory is out of reach.
  // Called once, by all members at the same time: with NVSHMEM the first group of a process initialises it here, which
  // waits for the other members until the deadline. Throws Error.
  virtual void map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere = {}) = 0;
  // After map(): the address of that rank's memory for this rank's kernels; 0 in another node.
  virtual uint64_t of(uint32_t rank) const noexcept = 0;
  // After the last call: this rank's access to the peers' memory ends. They may free that once they are told that this
  // rank has left, so before that.
  virtual void leave() noexcept {}
  // Reports how the group ended. Without this call the end counts as kUncertain; without `all_left` memory of such an
  // end is never reused.
  virtual void ended(GroupEnd how, AllLeft all_left = nullptr) noexcept = 0;
  // The provider in use; after map() never kAutomatic.
  virtual MemoryProvider provider() const noexcept = 0;
};

// Reserves everything that does not need the other members. Throws Error: NVRAR_UNAVAILABLE if something is missing in
// this process, NVRAR_SYSTEM if the driver refused.
std::unique_ptr<SymmetricMemory> make_symmetric_memory(const MemoryConfig& config);

// The NVSHMEM part of a new group's unique id; all zero if this process is already in a world, whose groups need none.
// The process must stay alive until all members have mapped. Throws NVRAR_UNAVAILABLE if NVSHMEM cannot be used.
NvshmemId make_nvshmem_id(const NvshmemConfig& config);
// Returns the id of a group whose members use another provider, so that a later group of this process may use it.
void put_back_nvshmem_id(const NvshmemId& id) noexcept;

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_SYMMETRIC_MEMORY_H
