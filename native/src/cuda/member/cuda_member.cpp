#include "cuda/member/cuda_member.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "common/error.h"
#include "common/tick_clock.h"
#include "common/watched.h"
#include "cuda/memory/leftovers.h"
#include "plan/crossing_shape.h"
#include "plan/launches.h"
#include "protocol/fusion.h"
#include "protocol/slices.h"

namespace nvrar::cuda {
namespace {

using protocol::Packet;
using protocol::RingLayout;
using shared::Poison;

constexpr uint32_t kDefaultConcurrentGroups = 2;
constexpr uint32_t kBytesPerWord = 4;
// Ranks that close together leave within milliseconds of each other. One that leaves alone keeps its memory until
// later.
constexpr uint64_t kLeavingNs = kNsPerSecond;
constexpr auto kLeavingPoll = std::chrono::milliseconds(1);
// The smallest number of blocks in the device state: a batch has one for each peer and direction.
constexpr uint32_t kLeastBlocks = 2 * protocol::kMaxRanks;
// Of what crosses to other nodes in a launch. With four threads a large launch is worth its memory, because chunks
// cross while the kernel still stores the next ones; fewer are too slow to gain by it.
constexpr uint64_t kCrossingAreaBytes = uint64_t{2} << 20;
constexpr uint64_t kLargeCrossingAreaBytes = uint64_t{8} << 20;
// How long a report waits for what the ranks of other hosts are doing.
constexpr uint64_t kReportNs = 100'000'000;

uint64_t memory_bytes(const RingLayout& layout) {
  constexpr uint64_t kGranularity = uint64_t{2} << 20;
  return (layout.total_bytes() + kGranularity - 1) / kGranularity * kGranularity;
}

// More than the blocks of the largest launch of the default ring memory if each processes a tile, for any world size.
constexpr uint32_t kMostBlocksInOrder = 8192;

// Of the warps of the largest launch (PlaceExit).
uint32_t most_places(const Device& device, bool exclusive) {
  return std::max({device.places(), kLeastBlocks, exclusive ? kMostBlocksInOrder : 0}) * kMostWarps;
}

// The exits of all places, then their claims.
uint64_t place_bytes(const Device& device, bool exclusive) {
  return most_places(device, exclusive) * (sizeof(PlaceExit) + sizeof(uint64_t));
}

bool may_link(const CudaMemberConfig& config) noexcept {
  return !config.link_address.empty() && config.topology.world > 1;
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
      exclusive_(config.exclusive),
      programmatic_launch_(config.programmatic_launch),
      concurrent_groups_(config.exclusive                ? 1
                         : config.concurrent_groups == 0 ? kDefaultConcurrentGroups
                                                         : config.concurrent_groups),
      device_(Device::open(config.memory.device)),
      gpu_(device_->facts()),
      own_stream_(device_->primary()),
      state_(std::in_place, device_->primary(), sizeof(DeviceState)),
      places_(std::in_place, device_->primary(), place_bytes(*device_, exclusive_)),
      lines_(std::in_place, device_->primary(), kLaunchLines * sizeof(LaunchLine)),
      keys_(std::in_place, device_->primary(), top_k_bytes(world())),
      page_(device_->primary(), kHostPageBytes),
      pairs_(std::in_place, device_->primary(), CrossingTransferArgs::kPairs * sizeof(PairState)),
      memory_(reserve(config, layout_)),
      all_left_([segments = segments_] { return segments->all_gone(false); }),
      link_config_(config) {
  if (link_config_.link_security == NVRAR_LINK_ENCRYPTED) link::find_libcrypto();
  if (may_link(config)) {
    proxy_ = std::make_unique<Proxy>(world(), config.link_address, config.first_port, config.last_port,
                                     link_config_.link_security == NVRAR_LINK_ENCRYPTED);
  }
  if (programmatic_launch_) device_->require_programmatic_launch();
  fill_state();
  args_.next = !programmatic_launch_ ? NextLaunch::kAfterThis
               : exclusive_          ? NextLaunch::kOnceAllHaveClaimed
                                     : NextLaunch::kOnceAllHaveIt;
  args_.launch.layout = layout_;
  args_.launch.rank = rank();
  args_.state = reinterpret_cast<DeviceState*>(state_->get());
  args_.lines = reinterpret_cast<LaunchLine*>(lines_->get());
  args_.exits = reinterpret_cast<PlaceExit*>(places_->get());
  args_.claims = reinterpret_cast<uint64_t*>(args_.exits + most_places(*device_, exclusive_));
  args_.page = reinterpret_cast<HostPage*>(page_.on_device());
  enqueued_failure_ = &page().failure;
  args_.timeout_ns = timeout_ns_;
}

CudaMember::~CudaMember() {
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock(watch_mutex_);
      ends_ = true;
    }
    watch_turns_.notify_all();
    watcher_.join();
  }
  take_up_failure();  // which needs the memory that goes now
  // The driver frees memory only after the GPU has executed everything enqueued before. This includes launches of
  // graphs, which could not be counted and which leave at once because of the word in the state.
  pairs_.reset();
  keys_.reset();
  lines_.reset();
  places_.reset();
  state_.reset();
  // And so no kernel needs the proxy any more. A peer may still need what this rank has sent in its last call, or the
  // news of the failure.
  if (crosses_ && segments_->poisoned().status == NVRAR_OK) {
    proxy_->stop(std::min(timeout_ns_, kLongestWaitNs), [this] { return segments_->poisoned().status != NVRAR_OK; });
  } else if (crosses_) {
    proxy_->talk().tell_last();
    proxy_->stop(kNsPerSecond / 2, [] { return false; });
  }
  proxy_.reset();
  crossing_state_.reset();
  arena_.reset();
  // Nothing of this member reaches the peers' memory any more. That is said before the same is asked of them: of ranks
  // that leave together, each would find the others still there.
  memory_->leave();
  segments_->close();
  // Also of a group that was never connected, if its members would not have used the id.
  const MemoryProvider provider = memory_->provider();
  if (provider == MemoryProvider::kIpc || provider == MemoryProvider::kLocal) put_back_nvshmem_id(nvshmem_id_);
  if (connected_) await_leaving();
  // An abort may have been made because a member was lost; which member cannot be told here.
  const Poison poison = segments_->poisoned();
  memory_->ended(poison.status == NVRAR_ABORTED && !poison.is_of_leaving() ? GroupEnd::kMemberLost
                 : segments_->all_gone(false)                              ? GroupEnd::kOrderly
                                                                           : GroupEnd::kUncertain,
                 std::move(all_left_));
  memory_.reset();
  sweep_leftovers();  // of ranks of this process that have left before the last one of another process
}

// A rank of this process may be destroyed after this one, by the same thread. So the last one waits, for all of them.
void CudaMember::await_leaving() const noexcept {
  if (!segments_->last_here()) return;
  const uint64_t until_ns = monotonic_ns() + kLeavingNs;
  while (!segments_->all_gone(true) && segments_->poisoned().status == NVRAR_OK && monotonic_ns() < until_ns) {
    std::this_thread::sleep_for(kLeavingPoll);
  }
}

void CudaMember::fill_state() const {
  const CurrentContext current(device_->context());
  const uint64_t before_first = protocol::first_epoch() - 1;
  DeviceState state{};
  state.latest.epoch = before_first;
  check(copy_to_gpu(state_->get(), &state, sizeof state), "filling GPU memory");
  const std::vector<uint8_t> zeros(place_bytes(*device_, exclusive_));
  check(copy_to_gpu(places_->get(), zeros.data(), zeros.size()), "filling GPU memory");
  std::vector<LaunchLine> lines(kLaunchLines);
  for (LaunchLine& line : lines) line.latest.epoch = before_first;
  check(copy_to_gpu(lines_->get(), lines.data(), lines.size() * sizeof(LaunchLine)), "filling GPU memory");
  std::vector<PairState> pairs(CrossingTransferArgs::kPairs);
  for (PairState& pair : pairs) pair.transfers = before_first;
  check(copy_to_gpu(pairs_->get(), pairs.data(), pairs.size() * sizeof(PairState)), "filling GPU memory");
  const std::vector<uint32_t> no_tickets(TopK::kMostKeys);
  check(copy_to_gpu(keys_->get(), no_tickets.data(), no_tickets.size() * sizeof(uint32_t)), "filling GPU memory");
}

// Epoch 0 is never used, so zeros are never a valid packet.
void CudaMember::fill_rings(uint64_t bytes) const {
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
  fill(layout_.sentinel_end(), bytes / protocol::kPacketBytes, 0);
  check(driver().cuStreamSynchronize(own_stream_.get()), "filling the rings");
}

void CudaMember::describe(Descriptor* descriptor) const {
  descriptor->segment = segments_->address();
  descriptor->links = link_config_.links;
  descriptor->link_security = link_config_.link_security;
  descriptor->link_threads = link_config_.link_threads;
  if (proxy_ != nullptr) descriptor->link = proxy_->talk().address();
  const MemoryAddress address = memory_->address();
  std::memcpy(descriptor->memory, address.bytes, sizeof descriptor->memory);
  std::memcpy(descriptor->device_uuid, device_->uuid().bytes, sizeof descriptor->device_uuid);
  descriptor->compute_capability = device_->compute_capability();
  descriptor->multiprocessors = device_->multiprocessors();
  descriptor->places_per_multiprocessor = device_->places_per_multiprocessor();
  descriptor->concurrent_groups = concurrent_groups_;
  descriptor->exclusive = exclusive_ ? 1 : 0;
  descriptor->programmatic_launch = programmatic_launch_ ? 1 : 0;
  descriptor->most_in_cluster = device_->most_in_cluster();
}

void CudaMember::map_peers(const std::vector<Descriptor>& descriptors) {
  const NodeLayout layout = node_layout_of(descriptors, rank(), link_config_.links, layout_);
  if (layout.nodes.count > protocol::kMaxGpuNodes) {
    throw Error(NVRAR_INVALID_ARGUMENT, "a group on GPUs has at most " + std::to_string(protocol::kMaxGpuNodes) +
                                            " nodes, and these ranks are in " + std::to_string(layout.nodes.count));
  }
  if (layout.remote.empty() && world() > protocol::kMaxRanks) {
    throw Error(NVRAR_INVALID_ARGUMENT, "a group on GPUs has at most " + std::to_string(protocol::kMaxRanks) +
                                            " ranks on one host, and these are " + std::to_string(world()));
  }
  std::vector<MemoryAddress> addresses(descriptors.size());
  uint32_t most_on_a_device = 1;
  bool any_programmatic = false;
  for (uint32_t peer = 0; peer < world(); ++peer) {
    const Descriptor& descriptor = descriptors[peer];
    uint32_t on_device = 0;
    for (const Descriptor& other : descriptors) {
      if (std::memcmp(other.device_uuid, descriptor.device_uuid, sizeof other.device_uuid) == 0) ++on_device;
    }
    most_on_a_device = std::max(most_on_a_device, on_device);
    any_programmatic = any_programmatic || descriptor.programmatic_launch != 0;
    std::memcpy(addresses[peer].bytes, descriptor.memory, sizeof descriptor.memory);
  }
  // Where ranks share a GPU, the next launch of one may have started and wait while another's has to run.
  const bool starts_early = exclusive_ && any_programmatic && most_on_a_device > 1;
  gpu_.most_blocks = device_->places() / (concurrent_groups_ * most_on_a_device * (starts_early ? 2 : 1));
  gpu_.most_blocks_in_order = exclusive_ && most_on_a_device == 1 ? kMostBlocksInOrder : gpu_.most_blocks;
  if (gpu_.most_blocks < 2) {  // that of the headers, and one for tiles
    throw Error(NVRAR_INVALID_ARGUMENT,
                "GPU " + std::to_string(device_->ordinal()) + " holds " + std::to_string(device_->places()) +
                    " blocks of kernels at once, too few for calls of " + std::to_string(concurrent_groups_) +
                    " groups (concurrent_groups) with " + std::to_string(most_on_a_device) + " ranks on a GPU");
  }
  segments_->map_peers(segments_of(descriptors), layout.remote);
  memory_->map(addresses, layout.remote);
  nodes_ = layout.nodes;
  firsts_ = 0;
  for (uint32_t node = 0; node < nodes_.count; ++node) firsts_ |= uint64_t{1} << nodes_.first[node];
  uint32_t first = 0;  // rank that has a ring
  const uint64_t reserved = memory_bytes(layout_);
  if (!layout.remote.empty()) {
    layout_.topology = protocol::Topology(nodes_);
    // Several nodes have areas for one hop more, in the same memory.
    if (layout_.total_bytes() > reserved) {
      layout_.ring_bytes =
          layout_.ring_bytes / 3 * 2 / protocol::kRingGranularityBytes * protocol::kRingGranularityBytes;
    }
    first = layout_.topology.first_of(layout_.topology.node_of(rank()));
  }
  for (uint32_t peer = first; peer < world() && !layout.remote.has(peer); ++peer) {
    args_.rings[peer - first] = reinterpret_cast<Packet*>(memory_->of(peer));
  }
  args_.launch.layout = layout_;
  fill_rings(reserved);
  if (!layout.remote.empty()) {
    link(descriptors, layout.remote);
  } else {
    proxy_.reset();  // nobody has to listen
  }
  try {
    const SignalsBlocked inherited;
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    throw Error(NVRAR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
  connected_ = true;
}

// Sets up what crosses to other nodes, and links their ranks.
void CudaMember::link(const std::vector<Descriptor>& descriptors, const RankSet& remote) {
  const protocol::Topology& topology = layout_.topology;
  const uint32_t node = topology.node_of(rank());
  const auto budget = Proxy::Budget::of(topology.largest, link_config_.link_threads, link_config_.link_spin_ns);
  const uint64_t area_bytes = budget.threads == Proxy::Budget::kMost ? kLargeCrossingAreaBytes : kCrossingAreaBytes;
  crossing_.layout = {area_bytes, world(), topology.first_of(node), topology.size_of(node)};
  arena_.emplace(device_->primary(), crossing_.layout.bytes());
  constexpr uint64_t kCountBytes = protocol::CrossingMemory::kCounts * sizeof(uint32_t);
  crossing_state_.emplace(device_->primary(), kCountBytes + 3 * area_bytes);
  {
    const CurrentContext current(device_->context());
    const std::vector<uint8_t> zeros(kCountBytes);
    check(copy_to_gpu(crossing_state_->get(), zeros.data(), zeros.size()), "filling GPU memory");
  }
  crossing_.arena = reinterpret_cast<uint8_t*>(arena_->on_device());
  crossing_.counts = reinterpret_cast<uint32_t*>(crossing_state_->get());
  crossing_.sums = reinterpret_cast<uint8_t*>(crossing_state_->get() + kCountBytes);
  crossing_rows_ = crossing_.sums + 2 * area_bytes;
  proxy_->start(segments_.get(), crossing_.layout, static_cast<uint8_t*>(arena_->host()), link_config_.secret,
                remotes_of(descriptors, rank(), remote),
                monotonic_ns() + std::min(link_config_.join_timeout_ns, kLongestWaitNs), budget);
  crosses_ = true;
}

void CudaMember::update_remote(bool wait) noexcept {
  if (crosses_) proxy_->talk().learn(wait ? kReportNs : 0);
}

const char* CudaMember::refused(uint32_t rank) const noexcept {
  if (!crosses_) return nullptr;
  const link::Links& links = proxy_->talk().links();
  for (uint32_t i = 0; i < links.connections(); ++i) {
    const link::Link* const link = links.to(rank, i);
    if (link != nullptr && link->refused() != nullptr) return link->refused();
  }
  return nullptr;
}

void CudaMember::require_device_memory(const char* name, uint64_t address, uint64_t bytes) const {
  if (address == 0 || bytes == 0) return;
  unsigned type = 0;
  int ordinal = -1;
  uint64_t begin = 0;
  size_t size = 0;
  PointerAttribute attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal, kPointerRangeStart, kPointerRangeSize};
  void* values[] = {&type, &ordinal, &begin, &size};
  const auto look_at = [&](uint64_t byte) {
    return driver().cuPointerGetAttributes(std::size(attributes), attributes, values, byte) == kSuccess &&
           type == kMemoryTypeDevice;
  };
  if (!look_at(address)) {
    throw Error(NVRAR_INVALID_ARGUMENT, std::string(name) + " is not memory of a GPU, and this group is on GPU " +
                                            std::to_string(device_->ordinal()));
  }
  // Memory that was mapped piece by piece is several ranges to the driver.
  const int of_first = ordinal;
  const uint64_t end = address + bytes;
  const uint64_t range_bytes = begin + size - address;
  if (range_bytes < bytes && (!look_at(end - 1) || ordinal != of_first)) {
    throw Error(NVRAR_INVALID_ARGUMENT, std::string(name) + " has " + std::to_string(bytes) +
                                            " bytes, and the memory of the GPU that it is in ends after " +
                                            std::to_string(range_bytes));
  }
  ordinal = of_first;
  if (ordinal != device_->ordinal()) {
    throw Error(NVRAR_INVALID_ARGUMENT, std::string(name) + " is memory of GPU " + std::to_string(ordinal) +
                                            ", this group is on GPU " + std::to_string(device_->ordinal()));
  }
}

Plan CudaMember::plan(const Call& call, const TuningTable& tuning) const {
  PlanSite site{.gpu = &gpu_};
  if (crosses_) {
    site.crossing_bytes = crossing_.layout.area_bytes;
    site.proxy_threads = proxy_->budget().threads;
  }
  return plan_of(call, layout_, tuning, site);
}

FusedArgs CudaMember::fused_args(const KernelArgs& args, const Fusion& fusion, const RowShape& rows,
                                 uint64_t first_row) {
  const uint64_t first = first_row * rows.row_bytes;
  return {args,
          reinterpret_cast<const uint8_t*>(fusion.residual + first),
          reinterpret_cast<const uint8_t*>(fusion.weight),
          reinterpret_cast<uint8_t*>(fusion.residual_out + first),
          reinterpret_cast<float*>(fusion.squares) + first_row * protocol::parts_of(rows.row_bytes),
          fusion.form,
          fusion.eps,
          static_cast<float>(fusion.hidden),
          rows.row_bytes,
          rows.tiles_per_row,
          rows.blocks_per_row,
          rows.header_blocks};
}

void CudaMember::launch(const Kernel& kernel, const LaunchShape& shape, const LaunchWay& way, void* args, Stream stream,
                        bool captured) {
  LaunchConfig config{};
  config.grid[0] = shape.blocks;
  config.grid[1] = config.grid[2] = 1;
  config.block[0] = shape.threads;
  config.block[1] = config.block[2] = 1;
  config.shared_bytes = kernel.added_shared_bytes;
  config.stream = stream;
  LaunchAttribute attributes[2]{};
  config.attributes = attributes;
  const bool programmatic = programmatic_launch_ && way.may_be_early;
  if (programmatic) {
    LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = kProgrammaticStreamSerialization;
    attribute.value = 1;
  }
  if (way.cluster > 1) {
    LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = kClusterDimension;
    attribute.cluster[0] = way.cluster;
    attribute.cluster[1] = attribute.cluster[2] = 1;
  }
  void* arguments[] = {args};
  const Function function = kernel.form(shape.single, programmatic);
  check(driver().cuLaunchKernelEx(&config, function, arguments, nullptr), "launching a GPU kernel");
  if (captured) {
    has_captured_ = true;
    return;
  }
  warps_launched_ += uint64_t{shape.blocks} * (shape.threads / kWarpThreads);
}

void CudaMember::launch_crossing(const Kernel& kernel, const LaunchShape& shape, const Plan& plan,
                                 const KernelArgs& args, Stream stream, bool captured) {
  CrossingArgs crossing{args, crossing_,
                        crossing_shape_of(plan.algorithm, plan.packet_kind, layout_.topology, args.launch.partial_parts,
                                          args.launch.bytes, proxy_->budget().threads)};
  give_own_part(&crossing.shape, plan.algorithm, args.launch);
  const uint64_t due = captured ? 0 : proxy_->due_with_next();
  launch(kernel, shape, {}, &crossing, stream, captured);
  proxy_->launched(due);
}

// Behind a launch that has put the sums of these rows where they lie until the next one.
void CudaMember::finish_crossing_rows(const Call& call, uint64_t first_row, KernelArgs args, Stream stream,
                                      bool captured) {
  RowShape rows;
  rows.row_bytes = call.fusion->hidden * element_bytes(call.data_type);
  rows.blocks_per_row = 1;
  const auto count = static_cast<uint32_t>(args.launch.bytes / rows.row_bytes);
  args.launch.send = crossing_rows_;
  FusedArgs fused = fused_args(args, *call.fusion, rows, first_row);
  launch(device_->kernel(rows_kernel_of(call.fusion->form, call.data_type)),
         {.blocks = count, .threads = kRowThreads, .single = false}, {.may_be_early = false}, &fused, stream, captured);
}

bool CudaMember::run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream_handle) {
  const CurrentContext current(device_->context());
  const Stream stream = stream_of(stream_handle);
  const Fusion* const fusion = call.fusion;
  const BufferBytes bytes = buffer_bytes(call, rank(), world());
  require_device_memory(fusion == nullptr ? "send" : "input", call.send, bytes.send);
  if (call.recv != call.send || bytes.recv > bytes.send) {
    require_device_memory(fusion == nullptr ? "recv" : "output", call.recv, bytes.recv);
  }
  if (fusion != nullptr) {
    const uint32_t row_bytes = fusion->hidden * element_bytes(call.data_type);
    require_device_memory("residual", fusion->residual, bytes.send);
    require_device_memory("weight", fusion->weight, row_bytes);
    require_device_memory("residual_out", fusion->residual_out, bytes.send);
    require_device_memory("squares", fusion->squares,
                          uint64_t{fusion->rows} * protocol::parts_of(row_bytes) * sizeof(float));
  }
  // It is unknown how often a captured call will run, so only the capture is recorded.
  const bool captured = captures(stream);
  const uint64_t number = this->record(record, captured ? NVRAR_CALL_DONE : NVRAR_CALL_QUEUED);
  const Kernel& kernel = device_->kernel(plan.kernel);
  // The hash omits the call's number, because a captured launch would always send the number of its capture.
  Launches launches(call, plan, layout_, rank(), 0);
  KernelArgs args = args_;
  args.algorithm = static_cast<uint32_t>(plan.algorithm);
  args.op = call.op;
  bool is_partly_enqueued = false;
  try {
    for (uint64_t enqueued = 0; enqueued < launches.count(); ++enqueued) {
      is_partly_enqueued = enqueued != 0;
      const bool last = enqueued + 1 == launches.count();
      args.launch = launches.at(enqueued);
      give_firsts(&args.launch, firsts_);
      args.tag = log_.add({record, number, captured ? 0u : 1u, last});
      const LaunchShape& shape = last ? plan.last_shape : plan.shape;
      if (crosses_ && fusion == nullptr) {
        launch_crossing(kernel, shape, plan, args, stream, captured);
        continue;
      }
      if (crosses_) {
        // Not to the output, which may lie where an input does that is needed afterwards.
        KernelArgs summing = args;
        summing.launch.recv = crossing_rows_;
        launch_crossing(kernel, shape, plan, summing, stream, captured);
        is_partly_enqueued = true;
        finish_crossing_rows(call, enqueued * plan.elements_per_launch / fusion->hidden, args, stream, captured);
        continue;
      }
      if (fusion == nullptr) {
        launch(kernel, shape, {}, &args, stream, captured);
        continue;
      }
      const uint64_t first_row = enqueued * plan.rows.rows_per_launch;
      const uint64_t rows = std::min<uint64_t>(plan.rows.rows_per_launch, plan.rows.rows - first_row);
      FusedArgs fused = fused_args(args, *fusion, plan.rows, first_row);
      launch(kernel, plan.rows.launch_of(rows), {.cluster = plan.rows.meet ? plan.rows.blocks_per_row : 1}, &fused,
             stream, captured);
    }
  } catch (...) {
    give_up(number, 1, captured || !is_partly_enqueued ? 0 : record.sequence);
    throw;
  }
  return !has_failed();
}

// The blocks of a batch wait for blocks of the peers, so all of them must be resident at once.
void CudaMember::require_room(const nvrar_transfer* transfers, uint32_t count) const {
  std::array<uint64_t, 2> peers{};  // bit masks of the peers of sends and of recvs
  for (uint32_t i = 0; i < count; ++i) {
    const auto peer = static_cast<uint32_t>(transfers[i].peer);
    if (peer != rank()) peers[transfers[i].kind == NVRAR_SEND ? 0 : 1] |= uint64_t{1} << peer;
  }
  const auto needed = static_cast<uint32_t>(std::popcount(peers[0]) + std::popcount(peers[1]));
  if (crosses_ && needed > CrossingTransferArgs::kMostQueues) {
    throw Error(NVRAR_INVALID_ARGUMENT, "a batch that sends to " + std::to_string(std::popcount(peers[0])) +
                                            " ranks and receives from " + std::to_string(std::popcount(peers[1])) +
                                            ": on GPUs of several hosts these are at most " +
                                            std::to_string(CrossingTransferArgs::kMostQueues) + " together");
  }
  if (needed <= gpu_.most_blocks) return;
  throw Error(NVRAR_INVALID_ARGUMENT,
              "a batch that sends to " + std::to_string(std::popcount(peers[0])) + " ranks and receives from " +
                  std::to_string(std::popcount(peers[1])) + " needs " + std::to_string(needed) +
                  " blocks of a GPU at once, and with concurrent_groups " + std::to_string(concurrent_groups_) +
                  " a call has " + std::to_string(gpu_.most_blocks));
}

bool CudaMember::run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence,
                           uint64_t stream_handle, BatchResult* result) {
  if (count == 0) return !has_failed();
  if (count > kMaxTransfers) {
    throw Error(NVRAR_INVALID_ARGUMENT, "a batch of " + std::to_string(count) +
                                            " transfers: on a GPU one has at most " + std::to_string(kMaxTransfers));
  }
  require_room(transfers, count);
  const CurrentContext current(device_->context());
  const auto stream = stream_of(stream_handle);
  for (uint32_t i = 0; i < count; ++i) {
    const nvrar_transfer& transfer = transfers[i];
    require_device_memory("a transfer's buffer", transfer.address, transfer.count * element_bytes(transfer.data_type));
  }
  const bool captured = captures(stream);

  uint64_t first_record = 0;
  std::array<std::array<uint32_t, protocol::kMaxGpuWorld>, 2> queue_of;
  for (auto& of_kind : queue_of) of_kind.fill(kNoTransfer);
  std::array<uint16_t, 2 * protocol::kMaxGpuWorld> last{};
  auto& [own, queued, queues, items] = batch_room_;
  for (auto& of_kind : own) {
    of_kind.clear();
    of_kind.reserve(count);
  }
  queued.clear();
  queued.reserve(count);
  queues.clear();
  queues.reserve(last.size());
  items.assign(count, {});
  const auto transfers_before = transfers_;
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
    const TransferQueue alone = queue_to(peer, kind == 0, static_cast<uint16_t>(i));
    if (!captured) queued.push_back({number, CrossingTransferArgs::pair_of(alone), call.sequence});
    items[i] = {given.address, given.count, static_cast<uint16_t>(given.data_type), kNoTransfer,
                element_bytes(given.data_type)};
    uint32_t& queue = queue_of[kind][peer];
    if (queue == kNoTransfer) {
      queue = static_cast<uint32_t>(queues.size());
      queues.push_back(alone);
    } else {
      items[last[queue]].next = static_cast<uint16_t>(i);
    }
    last[queue] = static_cast<uint16_t>(i);
  }
  bool enqueued = false;
  try {
    for (size_t i = 0; i < own[0].size(); ++i) {
      const uint64_t bytes = own[0][i]->count * element_bytes(own[0][i]->data_type);
      if (bytes == 0) continue;
      check(driver().cuMemcpyDtoDAsync_v2(own[1][i]->address, own[0][i]->address, bytes, stream), "copying on a GPU");
      enqueued = true;
    }
    if (!queues.empty()) {
      launch_transfers(log_.add({result->call, first_record, captured ? 0 : count, true}), stream, captured);
    }
  } catch (...) {
    transfers_ = transfers_before;
    give_up(first_record, count, captured || !enqueued ? 0 : result->call.sequence);
    throw;
  }
  note_queued(queued);
  return !has_failed();
}

// Of the peer's transfers of one kind; `first` is the index of the first of them in the batch.
TransferQueue CudaMember::queue_to(uint32_t peer, bool sends, uint16_t first) const noexcept {
  const uint8_t kind = sends ? 1 : 0;
  if (!crosses_) return {static_cast<uint8_t>(peer), kind, first};
  if (crossing_.layout.is_remote(peer)) {
    return {static_cast<uint8_t>(peer), static_cast<uint8_t>(kind | kFarQueue), first};
  }
  return {static_cast<uint8_t>(peer - crossing_.layout.first), kind, first};
}

// The transfers that batch_room_ has.
void CudaMember::launch_transfers(uint32_t tag, Stream stream, bool captured) {
  const auto& queues = batch_room_.queues;
  const LaunchShape shape{.blocks = static_cast<uint32_t>(queues.size()), .threads = kTransferThreads, .single = false};
  const auto fill = [&](auto* args) {
    args->member = args_;
    args->member.tag = tag;
    args->pairs = reinterpret_cast<PairState*>(pairs_->get());
    std::copy(queues.begin(), queues.end(), args->queues);
    std::copy(batch_room_.items.begin(), batch_room_.items.end(), args->items);
  };
  if (!crosses_) {
    TransferArgs args{};
    fill(&args);
    return launch(device_->transfer_kernel(), shape, {.may_be_early = false}, &args, stream, captured);
  }
  CrossingTransferArgs args{};
  fill(&args);
  give_firsts(&args.member.launch, firsts_);
  args.member.launch.rank = rank() - crossing_.layout.first;
  args.memory = crossing_;
  proxy_->transfers_launched();
  launch(device_->kernel({KernelFamily::kCrossingTransfer, 0, 0}), shape, {.may_be_early = false}, &args, stream,
         captured);
}

// Called when the driver has refused the rest of a call. If a part was enqueued (sequence is not 0), the group fails:
// the peers already run the call, and repeating it would meet other launches of theirs.
void CudaMember::give_up(uint64_t first_record, uint32_t records, uint64_t sequence) noexcept {
  {
    const std::lock_guard lock(record_mutex_);
    for (uint32_t i = 0; i < records; ++i) segments_->own().flight.end(first_record + i, NVRAR_CALL_FAILED);
  }
  if (sequence != 0) poison({NVRAR_SYSTEM, rank(), {}, sequence});
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
    throw Error(NVRAR_INVALID_ARGUMENT, "stream is not a stream of this process: " + text_of(result));
  }
  if (context == device_->context()) [[likely]]
    return stream;
  // A stream of another context of the same GPU is accepted.
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
