// Memory of ranks that are threads of one process: a plain pointer is valid for all of them.
#ifndef NVRAR_CUDA_MEMORY_LOCAL_MEMORY_H
#define NVRAR_CUDA_MEMORY_LOCAL_MEMORY_H

#include <memory>
#include <vector>

#include "cuda/memory/device_memory.h"
#include "cuda/memory/memory_blob.h"
#include "cuda/memory/symmetric_memory.h"

namespace nvrar::cuda {

// Creates a block that other members of this process can look up by its id, for as long as one of them holds it.
std::shared_ptr<DeviceMemory> make_block(std::shared_ptr<const PrimaryContext> context, uint64_t bytes);

// The block of a peer in this process, which kernels on the device of `own` can access. The peer's address is not
// trusted: the block is looked up by its id. Throws Error.
std::shared_ptr<DeviceMemory> local_block(const PrimaryContext& own, const std::vector<MemoryBlob>& blobs,
                                          uint32_t rank, uint32_t peer);

class LocalMemory final : public SymmetricMemory {
 public:
  explicit LocalMemory(const MemoryConfig& config);
  LocalMemory(std::shared_ptr<DeviceMemory> block, const MemoryBlob& blob, uint32_t rank, uint32_t world);
  MemoryAddress address() const override { return address_of(blob_); }
  void map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) override;
  uint64_t of(uint32_t rank) const noexcept override { return blocks_[rank] == nullptr ? 0 : blocks_[rank]->get(); }
  // Each block is freed when the last member that mapped it is gone, however the group ended.
  void ended(GroupEnd, AllLeft) noexcept override {}
  MemoryProvider provider() const noexcept override { return MemoryProvider::kLocal; }

 private:
  uint32_t rank_;
  uint32_t world_;
  std::shared_ptr<DeviceMemory> block_;
  MemoryBlob blob_;
  std::vector<std::shared_ptr<DeviceMemory>> blocks_;  // after map(), by rank; null in another node
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_LOCAL_MEMORY_H
