#include "cuda/memory/ipc_memory.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "common/error.h"
#include "cuda/memory/leftovers.h"

namespace nvrar::cuda {
namespace {

// Ranks of one process on one GPU open the same handle, which the driver reference-counts; this mutex serializes them.
std::mutex& opening() {
  static auto* const mutex = new std::mutex;  // never destroyed: members may outlive the process's static objects
  return *mutex;
}

}  // namespace

OpenedBlock::OpenedBlock(std::shared_ptr<const PrimaryContext> context, const BlockPart& block, uint64_t bytes,
                         const std::string& doing)
    : context_(std::move(context)) {
  const CurrentContext current(context_->get());
  const std::lock_guard lock(opening());
  check(driver().cuIpcOpenMemHandle_v2(&address_, block.handle, kIpcLazyEnablePeerAccess), doing.c_str());
  // The first access to the peer's memory is made here, where a failure can still be reported with a message.
  uint64_t id = 0;
  try {
    id = DeviceMemory::id_behind(address_, bytes);
  } catch (const Error& error) {
    close();
    throw Error(error.status(), doing + ": " + error.what());
  }
  if (id == block.id) return;
  close();
  throw Error(NVRAR_SYSTEM, doing + ": the handle leads to other memory, or to less");
}

OpenedBlock::~OpenedBlock() {
  const ContextScope scope(context_->get());
  if (!scope) return;  // in a broken context nothing is mapped any more
  const std::lock_guard lock(opening());
  close();
}

void OpenedBlock::close() noexcept { (void)driver().cuIpcCloseMemHandle(address_); }

IpcMemory::IpcMemory(const MemoryConfig& config) : rank_(config.rank), world_(config.world) {
  context_ = std::make_shared<PrimaryContext>(config.device);
  block_ = make_block(context_, config.bytes);
  blob_ = make_blob(config, context_->uuid());
  blob_.block = {block_->id(), block_->ipc_handle()};
}

IpcMemory::IpcMemory(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<DeviceMemory> block,
                     const MemoryBlob& blob, uint32_t rank, uint32_t world)
    : rank_(rank), world_(world), context_(std::move(context)), block_(std::move(block)), blob_(blob) {}

IpcMemory::~IpcMemory() {
  // A peer that was stopped and continues later may still write here, so the driver must not allocate this memory
  // again.
  if (others_map_it_ && end_ != GroupEnd::kOrderly) leave_behind(std::move(all_left_), std::move(block_));
}

IpcMemory::Peer IpcMemory::reach(const std::vector<MemoryBlob>& blobs, uint32_t peer) const {
  Peer result;
  const MemoryBlob& blob = blobs[peer];
  if (is_elsewhere(blob)) return result;
  if (peer == rank_ || same_process(blob.home, blob_.home)) {
    result.local = peer == rank_ ? block_ : local_block(*context_, blobs, rank_, peer);
    result.address = result.local->get();
    return result;
  }
  std::string doing = place_of(rank_, blob_) + " maps the memory of " + place_of(peer, blob) + " by CUDA IPC";
  if (blob.home.pid_namespace != blob_.home.pid_namespace) {
    doing += ", from another PID namespace (containers need one --ipc and --pid namespace)";
  }
  // Allowed, but then only the mapping itself shows whether there is peer access.
  if (!visible_device(blob.device)) doing += ", whose GPU this process does not see";
  result.opened = std::make_unique<OpenedBlock>(context_, blob.block, blob.bytes, doing);
  result.address = result.opened->get();
  return result;
}

void IpcMemory::map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) {
  const std::vector<MemoryBlob> blobs = read_addresses(of_ranks, elsewhere, blob_, rank_, world_);
  // Peers may map this rank's memory even where it cannot map theirs.
  others_map_it_ = std::any_of(blobs.begin(), blobs.end(), [this](const MemoryBlob& blob) {
    return !is_elsewhere(blob) && !same_process(blob.home, blob_.home);
  });
  require_links(blobs);
  std::vector<Peer> peers;
  for (uint32_t peer = 0; peer < world_; ++peer) peers.push_back(reach(blobs, peer));
  peers_ = std::move(peers);
}

}  // namespace nvrar::cuda
