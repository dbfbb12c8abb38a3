#include "cuda/memory/symmetric_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/error.h"
#include "cuda/memory/ipc_memory.h"
#include "cuda/memory/leftovers.h"
#include "cuda/memory/local_memory.h"
#include "cuda/memory/nvshmem_memory.h"
#include "cuda/nvshmem/nvshmem_world.h"

namespace nvrar::cuda {
namespace {

constexpr uint64_t kMaxBytes = 1ULL << 40;  // far beyond any GPU, and far from an overflow

// Offers every provider that this rank supports. In map(), when it knows the offers of all ranks, it chooses the
// provider that all ranks choose.
class AutomaticMemory final : public SymmetricMemory {
 public:
  explicit AutomaticMemory(const MemoryConfig& config)
      : config_(config), context_(std::make_shared<PrimaryContext>(config.device)) {
    block_ = make_block(context_, config.bytes);
    blob_ = make_blob(config, context_->uuid());
    blob_.block = {block_->id(), block_->ipc_handle()};
    try {
      blob_.world = NvshmemWorld::of_process().reserve(config.nvshmem);
      reserved_ = true;
    } catch (const Error& error) {  // without NVSHMEM there is CUDA IPC
      blob_.world.state = error.status() == NVRAR_INVALID_USAGE ? WorldState::kBusy : WorldState::kUnusable;
    }
  }
  ~AutomaticMemory() override { withdraw(); }

  MemoryAddress address() const override { return address_of(blob_); }

  void map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) override {
    const std::vector<MemoryBlob> blobs = read_addresses(of_ranks, elsewhere, blob_, config_.rank, config_.world);
    const bool one_process = std::all_of(blobs.begin(), blobs.end(), [&](const MemoryBlob& blob) {
      return is_elsewhere(blob) || same_process(blob.home, blob_.home);
    });
    if (one_process) {
      withdraw();
      chosen_ = std::make_unique<LocalMemory>(block_, blob_, config_.rank, config_.world);
    } else if (elsewhere.empty() && fits_nvshmem(blobs)) {
      chosen_ = std::make_unique<NvshmemMemory>(config_, context_, blob_);
      reserved_ = false;
    } else {
      withdraw();
      chosen_ = std::make_unique<IpcMemory>(context_, block_, blob_, config_.rank, config_.world);
    }
    // If this fails, the block is kept until the member is destroyed, after it has reported the reason: otherwise ranks
    // that still connect would find the block missing, and would report that instead. It is told how the group ended,
    // too, because peers may have mapped it.
    chosen_->map(of_ranks, elsewhere);
    block_ = nullptr;
  }

  uint64_t of(uint32_t rank) const noexcept override { return chosen_->of(rank); }
  void leave() noexcept override {
    if (chosen_ != nullptr) chosen_->leave();
  }
  void ended(GroupEnd how, AllLeft all_left) noexcept override {
    if (chosen_ != nullptr) chosen_->ended(how, std::move(all_left));
  }
  MemoryProvider provider() const noexcept override {
    return chosen_ != nullptr ? chosen_->provider() : MemoryProvider::kAutomatic;
  }

 private:
  bool fits_nvshmem(const std::vector<MemoryBlob>& blobs) const {
    try {
      return !plan_world(blobs, config_.rank).create || has_nvshmem_id(config_.nvshmem_id);
    } catch (const Error&) {  // the same on all ranks
      return false;
    }
  }
  void withdraw() noexcept {
    if (std::exchange(reserved_, false)) NvshmemWorld::of_process().withdraw();
  }

  MemoryConfig config_;
  std::shared_ptr<const PrimaryContext> context_;
  std::shared_ptr<DeviceMemory> block_;
  MemoryBlob blob_{};
  bool reserved_ = false;
  std::unique_ptr<SymmetricMemory> chosen_;
};

}  // namespace

std::unique_ptr<SymmetricMemory> make_symmetric_memory(const MemoryConfig& config) {
  if (config.bytes == 0 || config.bytes > kMaxBytes || config.nvshmem.arena_bytes > kMaxBytes) {
    throw Error(NVRAR_INVALID_ARGUMENT, std::to_string(config.bytes) + " bytes of symmetric memory, of an arena of " +
                                            std::to_string(config.nvshmem.arena_bytes) + ", are not between 1 and " +
                                            std::to_string(kMaxBytes));
  }
  sweep_leftovers();
  switch (config.provider) {
    case MemoryProvider::kAutomatic:
      return std::make_unique<AutomaticMemory>(config);
    case MemoryProvider::kNvshmem:
      return std::make_unique<NvshmemMemory>(config);
    case MemoryProvider::kIpc:
      return std::make_unique<IpcMemory>(config);
    case MemoryProvider::kLocal:
      return std::make_unique<LocalMemory>(config);
  }
  throw Error(NVRAR_INVALID_ARGUMENT,
              "there is no memory provider " + std::to_string(static_cast<uint32_t>(config.provider)));
}

NvshmemId make_nvshmem_id(const NvshmemConfig& config) { return NvshmemWorld::of_process().make_id(config); }

void put_back_nvshmem_id(const NvshmemId& id) noexcept { NvshmemWorld::of_process().put_back(id); }

}  // namespace nvrar::cuda
