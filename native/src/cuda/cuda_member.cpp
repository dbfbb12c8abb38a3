#include "cuda/cuda_member.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "error.h"
#include "protocol/call_header.h"
#include "protocol/slices.h"

namespace nvrar::cuda {
namespace {

using host::Poison;
using protocol::Packet;
using protocol::RingLayout;

constexpr uint32_t kDefaultConcurrentGroups = 2;
// Up to so many tiles each has a block of its own.
constexpr uint64_t kBlocksOfOneTile = 64;
constexpr uint32_t kBytesPerWord = 4;
constexpr uint64_t kPageBytes = protocol::kPageBytes;

uint64_t memory_bytes(const RingLayout& layout) {
  constexpr uint64_t kGranularity = uint64_t{2} << 20;
  return (layout.total_bytes() + kGranularity - 1) / kGranularity * kGranularity;
}

uint64_t state_bytes(const Device& device) {
  return sizeof(DeviceState) + (std::max(device.max_blocks(), 1u) - 1) * sizeof(BlockState);
}

std::unique_ptr<SymmetricMemory> reserve(const CudaMemberConfig& config, const RingLayout& layout) {
  MemoryConfig memory = config.memory;
  memory.bytes = memory_bytes(layout);
  if (memory.nvshmem.arena_bytes == 0) memory.nvshmem.arena_bytes = memory.bytes;
  memory.rank = config.rank;
  memory.world = layout.topology.world;
  return make_symmetric_memory(memory);
}

}  // namespace

CudaMember::CudaMember(const CudaMemberConfig& config)
    : Member(config.rank, {config.ring_bytes == 0 ? kCudaRingBytes : config.ring_bytes, config.topology},
             config.group_hash, false),
      timeout_ns_(config.timeout_ns),
      nvshmem_id_(config.memory.nvshmem_id),
      concurrent_groups_(config.concurrent_groups == 0 ? kDefaultConcurrentGroups : config.concurrent_groups),
      device_(Device::open(config.memory.device)),
      own_stream_(device_),
      state_(device_, state_bytes(*device_)),
      page_(device_, kPageBytes),
      pairs_(device_, 2 * protocol::kMaxRanks * sizeof(PairState)),
      memory_(reserve(config, layout_)) {
  fill_state();
  args_.launch.layout = layout_;
  args_.launch.rank = rank();
  args_.state = reinterpret_cast<DeviceState*>(state_.get());
  args_.page = reinterpret_cast<HostPage*>(page_.on_device());
  args_.timeout_ns = timeout_ns_;
}

CudaMember::~CudaMember() {
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock(watch_mutex_);
      ends_ = true;
    }
    watch_ends_.notify_all();
    watcher_.join();
  }
  const auto all_left = [segments = segments_] {
    for (uint32_t peer = 0; peer < segments->world(); ++peer) {
      if (peer != segments->rank() && segments->mapped(peer) && !segments->gone(peer)) return false;
    }
    return true;
  };
  if (connected_ && memory_->provider() != MemoryProvider::kNvshmem) put_back_nvshmem_id(nvshmem_id_);
  // Who aborts may do so because a member is lost, and nobody can tell for whom it was.
  memory_->ended(segments_->poisoned().status == NVRAR_ABORTED ? GroupEnd::kMemberLost
                 : all_left()                                  ? GroupEnd::kOrderly
                                                               : GroupEnd::kUncertain,
                 all_left);
}

void CudaMember::fill_state() const {
  const CurrentContext current(device_->context());
  const uint64_t before_first = protocol::first_epoch() - 1;
  std::vector<uint64_t> words(state_bytes(*device_) / sizeof(uint64_t), 0);
  words[offsetof(DeviceState, latest.epoch) / sizeof(uint64_t)] = before_first;
  check(driver().cuMemcpyHtoD_v2(state_.get(), words.data(), words.size() * sizeof(uint64_t)), "filling GPU memory");
  std::vector<PairState> pairs(2 * protocol::kMaxRanks);
  for (PairState& pair : pairs) pair.transfers = before_first;
  check(driver().cuMemcpyHtoD_v2(pairs_.get(), pairs.data(), pairs.size() * sizeof(PairState)), "filling GPU memory");
}

// Epoch 0 is never used, so zeros are no packet.
void CudaMember::fill_rings() const {
  const CurrentContext current(device_->context());
  const DeviceAddress rings = memory_->of(rank());
  const auto fill = [&](uint64_t begin_slot, uint64_t end_slot, unsigned word) {
    check(
        driver().cuMemsetD32Async(rings + begin_slot * protocol::kPacketBytes, word,
                                  (end_slot - begin_slot) * protocol::kPacketBytes / kBytesPerWord, own_stream_.get()),
        "filling the rings");
  };
  fill(0, layout_.sentinel_begin(), 0);
  fill(layout_.sentinel_begin(), layout_.sentinel_end(), protocol::SentinelPacket::kEmptyWord);
  fill(layout_.sentinel_end(), layout_.total_slots(), 0);
  check(driver().cuStreamSynchronize(own_stream_.get()), "filling the rings");
}

void CudaMember::describe(Descriptor* descriptor) const {
  descriptor->segment = segments_->address();
  const MemoryAddress address = memory_->address();
  std::memcpy(descriptor->memory, address.bytes, sizeof descriptor->memory);
  std::memcpy(descriptor->device_uuid, device_->uuid().bytes, sizeof descriptor->device_uuid);
  descriptor->multiprocessors = device_->multiprocessors();
  descriptor->concurrent_groups = concurrent_groups_;
}

void CudaMember::map_peers(const std::vector<Descriptor>& descriptors) {
  std::vector<MemoryAddress> addresses(descriptors.size());
  uint32_t most_on_a_device = 1;
  for (uint32_t peer = 0; peer < world(); ++peer) {
    const Descriptor& descriptor = descriptors[peer];
    const auto require_same = [&](const char* what, uint32_t theirs, uint32_t ours) {
      if (theirs == ours) return;
      throw Error(NVRAR_MISMATCH, "rank " + std::to_string(peer) + " has " + what + " " + std::to_string(theirs) +
                                      ", this rank (" + std::to_string(rank()) + ") has " + std::to_string(ours));
    };
    // The launches' blocks follow from both, and so which of them waits for which.
    require_same("multiprocessors", descriptor.multiprocessors, device_->multiprocessors());
    require_same("concurrent_groups", descriptor.concurrent_groups, concurrent_groups_);
    uint32_t on_device = 0;
    for (const Descriptor& other : descriptors) {
      if (std::memcmp(other.device_uuid, descriptor.device_uuid, sizeof other.device_uuid) == 0) ++on_device;
    }
    most_on_a_device = std::max(most_on_a_device, on_device);
    std::memcpy(addresses[peer].bytes, descriptor.memory, sizeof descriptor.memory);
  }
  launches_on_device_ = concurrent_groups_ * most_on_a_device;
  segments_->map_peers(segments_of(descriptors));
  memory_->map(addresses);
  for (uint32_t peer = 0; peer < world(); ++peer) args_.rings[peer] = reinterpret_cast<Packet*>(memory_->of(peer));
  fill_rings();
  watcher_ = std::thread([this] { watch(); });
  connected_ = true;
}

void CudaMember::require_device_memory(const char* name, uint64_t address) const {
  if (address == 0) return;
  unsigned type = 0;
  int ordinal = -1;
  PointerAttribute attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal};
  void* values[] = {&type, &ordinal};
  if (driver().cuPointerGetAttributes(2, attributes, values, address) != kSuccess || type != kMemoryTypeDevice) {
    throw Error(NVRAR_INVALID_ARGUMENT, std::string(name) + " is not memory of a GPU, and this group is on GPU " +
                                            std::to_string(device_->ordinal()));
  }
  if (ordinal != device_->ordinal()) {
    throw Error(NVRAR_INVALID_ARGUMENT, std::string(name) + " is memory of GPU " + std::to_string(ordinal) +
                                            ", this group is on GPU " + std::to_string(device_->ordinal()));
  }
}

// A pure function of the plan and of what was compared at connect. A block has some tiles at a time, and several times
// so many in turn where the device would not hold so many blocks of all groups at once.
CudaMember::Grid CudaMember::grid_of(const Kernel& kernel, const Plan& plan, uint64_t bytes) const noexcept {
  const uint64_t run_bytes = plan.packet_kind == protocol::PacketKind::kSentinel ? protocol::SentinelPacket::kRunBytes
                                                                                 : protocol::EpochPacket::kRunBytes;
  const uint64_t together = plan.algorithm == Algorithm::kTwoShot        ? layout_.topology.world
                            : plan.algorithm == Algorithm::kHierarchical ? layout_.topology.ranks_per_node
                                                                         : 1;
  const uint64_t tiles = std::max<uint64_t>((bytes + run_bytes * together - 1) / (run_bytes * together), 1);
  // Small blocks begin and end sooner.
  uint32_t tiles_per_block = 1;
  while (2 * tiles_per_block <= kernel.max_tiles && tiles > tiles_per_block * kBlocksOfOneTile) tiles_per_block *= 2;
  const uint64_t needed = (tiles + tiles_per_block - 1) / tiles_per_block;
  const uint64_t held = uint64_t{kernel.blocks_per_multiprocessor} * device_->multiprocessors() / launches_on_device_;
  const auto blocks = static_cast<uint32_t>(std::min(needed, std::max<uint64_t>(held, 1)));
  return {blocks, tiles_per_block * kernel.threads_per_tile + kernel.more_threads, blocks == needed};
}

void CudaMember::launch(const Kernel& kernel, const Grid& grid, void* args, Stream stream) const {
  LaunchConfig config{};
  config.grid[0] = grid.blocks;
  config.grid[1] = config.grid[2] = 1;
  config.block[0] = grid.threads;
  config.block[1] = config.block[2] = 1;
  config.stream = stream;
  void* arguments[] = {args};
  const Function function = grid.single && kernel.single != nullptr ? kernel.single : kernel.function;
  check(driver().cuLaunchKernelEx(&config, function, arguments, nullptr), "launching a GPU kernel");
}

Poison CudaMember::run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream_handle) {
  const CurrentContext current(device_->context());
  const Stream stream = stream_of(stream_handle);
  require_device_memory("send", call.send);
  if (call.recv != call.send) require_device_memory("recv", call.recv);
  // Nobody knows how often a captured call will run: its record is that it was captured.
  const bool captured = captures(stream);
  const uint64_t number = this->record(record, captured ? NVRAR_CALL_DONE : NVRAR_CALL_QUEUED);
  const uint64_t size = std::max(element_bytes(call.data_type), 1u);
  const bool aligned = (call.send | call.recv | call.count * size) % protocol::kPacketBytes == 0;
  const Kernel& kernel = device_->kernel({plan.algorithm, call.data_type, call.op, layout_.topology, aligned});
  KernelArgs args = args_;
  args.algorithm = static_cast<uint32_t>(plan.algorithm);
  args.op = call.op;
  args.launch.root = static_cast<uint32_t>(call.root);
  args.launch.send_stride_bytes = call.count * size;
  args.launch.recv_stride_bytes = call.count * size;
  args.launch.partial_parts = call.op == kNoOp ? 0 : partial_parts(call.data_type);
  // Without the call's number: a captured launch keeps the one that it was captured with.
  args.launch.header_hash =
      protocol::header_hash({0, call.collective, call.data_type, call.op, call.root, call.count,
                             static_cast<uint32_t>(plan.algorithm), plan.packet_kind, plan.elements_per_launch});
  for (uint64_t i = 0; i < plan.launches; ++i) {
    const uint64_t first = i * plan.elements_per_launch;
    // Added as numbers: where a rank has nothing to send or to receive, the address may be null.
    args.launch.send = reinterpret_cast<const uint8_t*>(call.send + first * size);
    args.launch.recv = reinterpret_cast<uint8_t*>(call.recv + first * size);
    args.launch.bytes = std::min(plan.elements_per_launch, call.count - first) * size;
    args.tag = log_.add({record, number, captured ? 0u : 1u, i + 1 == plan.launches});
    launch(kernel, grid_of(kernel, plan, args.launch.bytes), &args, stream);
  }
  return poisoned();
}

Poison CudaMember::run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence,
                             uint64_t stream_handle, BatchResult* result) {
  if (count == 0) return poisoned();
  if (count > kMaxTransfers) {
    throw Error(NVRAR_INVALID_ARGUMENT, "a batch of " + std::to_string(count) +
                                            " transfers: on a GPU one has at most " + std::to_string(kMaxTransfers));
  }
  const CurrentContext current(device_->context());
  const auto stream = stream_of(stream_handle);
  for (uint32_t i = 0; i < count; ++i) require_device_memory("a transfer's buffer", transfers[i].address);
  const bool captured = captures(stream);

  TransferArgs args{};
  args.member = args_;
  args.pairs = reinterpret_cast<PairState*>(pairs_.get());
  uint32_t queues = 0;
  uint64_t first_record = 0;
  std::array<std::array<uint32_t, protocol::kMaxRanks>, 2> queue_of;
  for (auto& of_kind : queue_of) of_kind.fill(kNoTransfer);
  std::array<uint16_t, 2 * protocol::kMaxRanks> last{};
  std::array<std::vector<const nvrar_transfer*>, 2> own;  // sends to oneself, and their recvs
  for (uint32_t i = 0; i < count; ++i) {
    const nvrar_transfer& given = transfers[i];
    const uint32_t kind = given.kind == NVRAR_SEND ? 0 : 1;
    const auto peer = static_cast<uint32_t>(given.peer);
    const nvrar_call call = record_of(given, ++transfers_[kind][peer], count, group_sequence);
    const uint64_t number = record(call, captured ? NVRAR_CALL_DONE : NVRAR_CALL_QUEUED);
    if (i == 0) {
      first_record = number;
      result->call = call;
    }
    if (peer == rank()) {
      own[kind].push_back(&given);
      continue;
    }
    if (!captured) note_queued({number, kind * protocol::kMaxRanks + peer, call.sequence});
    args.items[i] = {given.address, given.count, static_cast<uint16_t>(given.data_type), kNoTransfer,
                     element_bytes(given.data_type)};
    uint32_t& queue = queue_of[kind][peer];
    if (queue == kNoTransfer) {
      queue = queues++;
      args.queues[queue] = {static_cast<uint8_t>(peer), static_cast<uint8_t>(kind == 0 ? 1 : 0),
                            static_cast<uint16_t>(i)};
    } else {
      args.items[last[queue]].next = static_cast<uint16_t>(i);
    }
    last[queue] = static_cast<uint16_t>(i);
  }
  for (size_t i = 0; i < own[0].size(); ++i) {
    const uint64_t bytes = own[0][i]->count * element_bytes(own[0][i]->data_type);
    if (bytes == 0) continue;
    check(driver().cuMemcpyDtoDAsync_v2(own[1][i]->address, own[0][i]->address, bytes, stream), "copying on a GPU");
  }
  if (queues != 0) {
    args.member.tag = log_.add({result->call, first_record, captured ? 0 : count, true});
    const Grid grid{queues, kTransferThreads, false};
    launch(device_->transfer_kernel(), grid, &args, stream);
  }
  return poisoned();
}

nvrar_call CudaMember::record_of(const nvrar_transfer& transfer, uint64_t sequence, uint32_t transfers,
                                 uint64_t group_sequence) noexcept {
  nvrar_call call{};
  call.size = sizeof call;
  call.sequence = sequence;
  call.group_sequence = group_sequence;
  call.count = transfer.count;
  call.collective = transfer.kind;
  call.data_type = transfer.data_type;
  call.op = kNoOp;
  call.root = transfer.peer;
  call.transfers = transfers;
  call.launches = transfer.count == 0 ? 0 : 1;
  return call;
}

Stream CudaMember::stream_of(uint64_t handle) const {
  if (handle == 0) throw Error(NVRAR_INVALID_ARGUMENT, "stream is 0: a GPU call needs a stream");
  const auto stream = reinterpret_cast<Stream>(handle);
  Context context = nullptr;
  if (const Result result = driver().cuStreamGetCtx(stream, &context); result != kSuccess) {
    throw Error(NVRAR_INVALID_ARGUMENT, "stream is none of this process: " + text_of(result));
  }
  if (context == device_->context()) [[likely]]
    return stream;
  // Another context of the same GPU may do.
  DeviceHandle device = 0;
  {
    const CurrentContext current(context);
    check(driver().cuCtxGetDevice(&device), "asking for a context's GPU");
  }
  if (device != device_->handle()) {
    throw Error(NVRAR_INVALID_ARGUMENT, "stream is one of GPU " + std::to_string(device) + ", this group is on GPU " +
                                            std::to_string(device_->ordinal()));
  }
  return stream;
}

bool CudaMember::captures(Stream stream) {
  int status = kCaptureNone;
  check(driver().cuStreamIsCapturing(stream, &status), "asking whether the stream captures");
  return status != kCaptureNone;
}

}  // namespace nvrar::cuda
