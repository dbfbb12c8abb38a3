// Symmetric memory of one group, as a slice of the NVSHMEM arena.
#ifndef NVRAR_CUDA_MEMORY_NVSHMEM_MEMORY_H
#define NVRAR_CUDA_MEMORY_NVSHMEM_MEMORY_H

#include <memory>
#include <utility>
#include <vector>

#include "cuda/memory/device_memory.h"
#include "cuda/memory/memory_blob.h"
#include "cuda/memory/symmetric_memory.h"
#include "cuda/nvshmem/nvshmem_world.h"

namespace nvrar::cuda {

// The plan that all members of a group derive from the same addresses.
struct WorldPlan {
  bool create = false;        // no member is in a world: this group creates it
  std::vector<uint32_t> pes;  // by rank
  uint32_t first_unit = 0;
  uint32_t units = 0;
};
// Throws Error if the group cannot use NVSHMEM. The outcome is a function of the addresses alone, except for the
// message's text.
WorldPlan plan_world(const std::vector<MemoryBlob>& blobs, uint32_t rank);

class NvshmemMemory final : public SymmetricMemory {
 public:
  explicit NvshmemMemory(const MemoryConfig& config);
  // Takes over a reservation of the process's world.
  NvshmemMemory(const MemoryConfig& config, std::shared_ptr<const PrimaryContext> context, const MemoryBlob& blob);
  ~NvshmemMemory() override;
  MemoryAddress address() const override { return address_of(blob_); }
  void map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) override;
  uint64_t of(uint32_t rank) const noexcept override { return addresses_[rank]; }
  void ended(GroupEnd how, AllLeft all_left) noexcept override {
    end_ = how;
    all_left_ = std::move(all_left);
  }
  MemoryProvider provider() const noexcept override { return MemoryProvider::kNvshmem; }

 private:
  MemoryConfig config_;
  GroupEnd end_ = GroupEnd::kUncertain;
  AllLeft all_left_;
  std::shared_ptr<const PrimaryContext> context_;
  MemoryBlob blob_;
  std::shared_ptr<ArenaSlice> slice_;     // after map()
  std::vector<DeviceAddress> addresses_;  // after map(), by rank
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_NVSHMEM_MEMORY_H
