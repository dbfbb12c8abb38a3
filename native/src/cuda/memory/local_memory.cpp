#include "cuda/memory/local_memory.h"

#include <map>
#include <mutex>
#include <string>

#include "common/error.h"

namespace nvrar::cuda {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<DeviceMemory>> blocks;  // by id; guarded by mutex
};

Registry& registry() {
  static auto* const blocks = new Registry;  // never destroyed: members may outlive the process's static objects
  return *blocks;
}

std::shared_ptr<DeviceMemory> find_block(uint64_t id, uint64_t bytes) {
  Registry& known = registry();
  const std::lock_guard guard(known.mutex);
  const auto found = known.blocks.find(id);
  if (found == known.blocks.end()) return nullptr;
  std::shared_ptr<DeviceMemory> block = found->second.lock();
  return block != nullptr && block->bytes() == bytes ? block : nullptr;
}

}  // namespace

std::shared_ptr<DeviceMemory> make_block(std::shared_ptr<const PrimaryContext> context, uint64_t bytes) {
  auto block = std::make_shared<DeviceMemory>(std::move(context), bytes);
  Registry& known = registry();
  const std::lock_guard guard(known.mutex);
  std::erase_if(known.blocks, [](const auto& entry) { return entry.second.expired(); });
  known.blocks[block->id()] = block;
  return block;
}

std::shared_ptr<DeviceMemory> local_block(const PrimaryContext& own, const std::vector<MemoryBlob>& blobs,
                                          uint32_t rank, uint32_t peer) {
  const MemoryBlob& blob = blobs[peer];
  std::shared_ptr<DeviceMemory> block = find_block(blob.block.id, blob.bytes);
  if (block == nullptr) {
    // This is not the caller's mistake: a member of this process may fail, and free its memory, while others still
    // connect.
    throw Error(NVRAR_SYSTEM, "the memory of rank " + std::to_string(peer) +
                                  " is gone: no member in this process has it, so that rank has failed or left");
  }
  if (block->context().get() == own.get()) return block;
  const CurrentContext current(own.get());
  const Result enabled = driver().cuCtxEnablePeerAccess(block->context().get(), 0);
  if (enabled != kErrorPeerAccessAlreadyEnabled) {
    check(enabled, ("letting " + place_of(rank, blobs[rank]) + " access " + place_of(peer, blob)).c_str());
  }
  return block;
}

LocalMemory::LocalMemory(const MemoryConfig& config) : rank_(config.rank), world_(config.world) {
  auto context = std::make_shared<PrimaryContext>(config.device);
  block_ = make_block(context, config.bytes);
  blob_ = make_blob(config, context->uuid());
  blob_.block.id = block_->id();
}

LocalMemory::LocalMemory(std::shared_ptr<DeviceMemory> block, const MemoryBlob& blob, uint32_t rank, uint32_t world)
    : rank_(rank), world_(world), block_(std::move(block)), blob_(blob) {}

void LocalMemory::map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) {
  const std::vector<MemoryBlob> blobs = read_addresses(of_ranks, elsewhere, blob_, rank_, world_);
  require_links(blobs);
  std::vector<std::shared_ptr<DeviceMemory>> blocks;
  for (uint32_t peer = 0; peer < world_; ++peer) {
    if (is_elsewhere(blobs[peer])) {
      blocks.push_back(nullptr);
      continue;
    }
    if (!same_process(blobs[peer].home, blob_.home)) {
      throw Error(NVRAR_UNAVAILABLE, place_of(peer, blobs[peer]) + " is in another process than " +
                                         place_of(rank_, blob_) + ": this memory is for the ranks of one process");
    }
    blocks.push_back(peer == rank_ ? block_ : local_block(block_->context(), blobs, rank_, peer));
  }
  blocks_ = std::move(blocks);
}

}  // namespace nvrar::cuda
