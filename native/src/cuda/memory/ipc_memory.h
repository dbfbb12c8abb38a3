// Memory of ranks in processes of one host, mapped through CUDA IPC handles. Ranks of the same process find each other
// as in local_memory.h, because a process cannot open its own handles.
#ifndef NVRAR_CUDA_MEMORY_IPC_MEMORY_H
#define NVRAR_CUDA_MEMORY_IPC_MEMORY_H

#include <memory>
#include <vector>

#include "cuda/memory/local_memory.h"

namespace nvrar::cuda {

// A peer's block, mapped in the given context.
class OpenedBlock {
 public:
  // Throws Error; `doing` begins its message and names both sides.
  OpenedBlock(std::shared_ptr<const PrimaryContext> context, const BlockPart& block, uint64_t bytes,
              const std::string& doing);
  ~OpenedBlock();
  OpenedBlock(const OpenedBlock&) = delete;
  OpenedBlock& operator=(const OpenedBlock&) = delete;
  DeviceAddress get() const noexcept { return address_; }

 private:
  void close() noexcept;

  std::shared_ptr<const PrimaryContext> context_;
  DeviceAddress address_ = 0;
};

class IpcMemory final : public SymmetricMemory {
 public:
  explicit IpcMemory(const MemoryConfig& config);
  IpcMemory(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<DeviceMemory> block, const MemoryBlob& blob,
            uint32_t rank, uint32_t world);
  ~IpcMemory() override;
  MemoryAddress address() const override { return address_of(blob_); }
  void map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) override;
  uint64_t of(uint32_t rank) const noexcept override { return peers_[rank].address; }
  void leave() noexcept override { peers_.clear(); }
  void ended(GroupEnd how, AllLeft all_left) noexcept override {
    end_ = how;
    all_left_ = std::move(all_left);
  }
  MemoryProvider provider() const noexcept override { return MemoryProvider::kIpc; }

 private:
  struct Peer {
    DeviceAddress address = 0;
    std::shared_ptr<DeviceMemory> local;  // set for a rank of this process
    std::unique_ptr<OpenedBlock> opened;  // set for a rank of another process
  };
  Peer reach(const std::vector<MemoryBlob>& blobs, uint32_t peer) const;

  uint32_t rank_;
  uint32_t world_;
  GroupEnd end_ = GroupEnd::kUncertain;
  AllLeft all_left_;
  std::shared_ptr<const PrimaryContext> context_;
  std::shared_ptr<DeviceMemory> block_;
  MemoryBlob blob_;
  std::vector<Peer> peers_;  // from map() to leave(), by rank
  bool others_map_it_ = false;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_IPC_MEMORY_H
