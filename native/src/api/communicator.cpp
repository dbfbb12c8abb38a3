#include "api/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "api/version.h"
#include "call/batch.h"
#include "call/fusion.h"
#include "common/cgroup.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/random.h"
#include "common/sha256.h"
#include "cpu/cpu_member.h"
#include "cuda/launch/fatbin.h"
#include "cuda/member/cuda_member.h"
#include "member/agreement.h"
#include "member/descriptor.h"
#include "plan/plan.h"
#include "protocol/crossing.h"
#include "protocol/ring_layout.h"

namespace nvrar {
namespace {

static_assert(protocol::kMaxRanks == NVRAR_MAX_RANKS_PER_NODE && protocol::kMaxNodes == NVRAR_MAX_NODES,
              "the rings have a place for every rank of the C ABI");

// Far longer than a waiting call needs to see its poison; only a defect can reach this limit.
constexpr uint64_t kLeaveLimitNs = 10'000'000'000;
// Enqueued work that is about to end has this time to complete in order.
constexpr uint64_t kGraceNs = 1'000'000'000;
constexpr useconds_t kLeavePollUs = 50;

constexpr uint32_t kMaxConcurrentGroups = 64;
constexpr uint32_t kMostLinkThreads = 4;
constexpr uint64_t kLinkSpinNs = 2'000'000;

[[noreturn]] void invalid(const std::string& sentence) { throw Error(NVRAR_INVALID_ARGUMENT, sentence); }

protocol::Topology topology_of(const nvrar_config& config) noexcept {
  const int32_t node = config.ranks_per_node == 0 ? config.world_size : config.ranks_per_node;
  return {static_cast<uint32_t>(config.world_size), static_cast<uint32_t>(std::min(node, config.world_size))};
}

// Of nodes on several hosts, connecting checks this.
void check_nodes(const nvrar_config& config) {
  const protocol::Topology topology = topology_of(config);
  if (topology.nodes() == 1 && config.link_address[0] != 0) return;
  if (topology.largest > protocol::kMaxRanks) {
    invalid("a node has at most " + std::to_string(protocol::kMaxRanks) + " ranks, and ranks_per_node " +
            std::to_string(config.ranks_per_node) + " makes nodes of " + std::to_string(topology.largest) +
            " for a world size of " + std::to_string(config.world_size));
  }
  if (topology.nodes() > protocol::kMaxNodes) {
    invalid("a group has at most " + std::to_string(protocol::kMaxNodes) + " nodes, and ranks_per_node " +
            std::to_string(config.ranks_per_node) + " makes " + std::to_string(topology.nodes()) +
            " for a world size of " + std::to_string(config.world_size));
  }
}

const nvrar_config& check_config(const nvrar_config& config) {
  const bool on_gpus = config.backend == NVRAR_BACKEND_CUDA;
  const int32_t most = !on_gpus                      ? NVRAR_MAX_WORLD_SIZE
                       : config.link_address[0] == 0 ? NVRAR_MAX_RANKS_PER_NODE
                                                     : static_cast<int32_t>(protocol::kMaxGpuWorld);
  if (config.world_size < 1 || config.world_size > most) {
    invalid("a world size of " + std::to_string(config.world_size) + " is not between 1 and " + std::to_string(most) +
            (!on_gpus                      ? ""
             : config.link_address[0] == 0 ? ", the most that a group on GPUs without link_address has"
                                           : ", the most that a group on GPUs has"));
  }
  if (config.rank < 0 || config.rank >= config.world_size) {
    invalid("rank " + std::to_string(config.rank) + " is not in a group of " + std::to_string(config.world_size));
  }
  if (config.ranks_per_node < 0) {
    invalid("ranks_per_node " + std::to_string(config.ranks_per_node) + " is negative");
  }
  check_nodes(config);
  if (config.memory < NVRAR_MEMORY_AUTO || config.memory > NVRAR_MEMORY_LOCAL) {
    invalid("there is no symmetric memory " + std::to_string(config.memory));
  }
  if (config.concurrent_groups > kMaxConcurrentGroups) {
    invalid("concurrent_groups " + std::to_string(config.concurrent_groups) + " is more than " +
            std::to_string(kMaxConcurrentGroups));
  }
  if (config.shared_devices > 1 || config.exclusive > 1 || config.programmatic_launch > 1) {
    invalid("config.shared_devices, exclusive and programmatic_launch are flags: 0 or 1");
  }
  if (config.reserved != 0) invalid("config.reserved is not 0");
  if (config.timeout_ns == 0) invalid("config.timeout_ns is 0: every wait needs an end");
  if (config.links < NVRAR_LINKS_BETWEEN_HOSTS || config.links > NVRAR_LINKS_BETWEEN_NODES) {
    invalid("there are no links " + std::to_string(config.links));
  }
  if (config.link_security > NVRAR_LINK_ENCRYPTED) {
    invalid("there is no link_security " + std::to_string(config.link_security));
  }
  if (config.link_threads > kMostLinkThreads || (config.link_threads & (config.link_threads - 1)) != 0) {
    invalid("link_threads " + std::to_string(config.link_threads) + " is none of 0, 1, 2 and " +
            std::to_string(kMostLinkThreads));
  }
  if (std::memchr(config.link_address, 0, sizeof config.link_address) == nullptr) {
    invalid("config.link_address does not end with a 0");
  }
  if (config.link_port_first > config.link_port_last || (config.link_port_first == 0) != (config.link_port_last == 0)) {
    invalid("config.link_port_first " + std::to_string(config.link_port_first) + " to link_port_last " +
            std::to_string(config.link_port_last) + " are no ports");
  }
  const uint64_t ring_bytes = config.ring_bytes;
  const bool nodes = topology_of(config).nodes() > 1;
  const uint64_t ring_min = protocol::min_ring_bytes(static_cast<uint32_t>(config.world_size), nodes);
  if (ring_bytes != 0 && (ring_bytes < ring_min || ring_bytes > protocol::kMaxRingBytes ||
                          ring_bytes % protocol::kRingGranularityBytes != 0)) {
    invalid("ring_bytes " + std::to_string(ring_bytes) + " is not a multiple of " +
            std::to_string(protocol::kRingGranularityBytes) + " between " + std::to_string(ring_min) + " and " +
            std::to_string(protocol::kMaxRingBytes) +
            (config.world_size > NVRAR_MAX_RANKS_PER_NODE
                 ? " (for a group of " + std::to_string(config.world_size) + " ranks)"
             : nodes ? " (for a group of several nodes)"
                     : ""));
  }
  probe(config.backend);
  return config;
}

nvrar_call record_of(const Call& call, const Plan& plan, uint64_t sequence) noexcept {
  nvrar_call record{};
  record.size = sizeof record;
  record.sequence = sequence;
  record.group_sequence = sequence;
  record.count = call.count;
  record.collective = call.collective;
  record.data_type = call.data_type;
  record.op = call.op;
  record.root = call.root;
  record.algorithm = plan.choice;
  record.launches = plan.launches;
  if (call.fusion != nullptr) {
    record.fusion = call.fusion->form;
    record.hidden = call.fusion->hidden;
  }
  if (call.top_k != nullptr) record.hidden = call.top_k->k;
  return record;
}

uint64_t join_limit_ns(const nvrar_config& config) noexcept {
  return config.join_timeout_ns != 0 ? config.join_timeout_ns : config.timeout_ns;
}

LinkConfig links_of(const nvrar_config& config, const UniqueId& id) {
  return {.secret = hmac_sha256(config.link_secret, {id.random}),
          .link_address = config.link_address,
          .first_port = config.link_port_first,
          .last_port = config.link_port_last,
          .links = config.links,
          .link_security = config.link_security,
          .link_threads = std::max(config.link_threads, 1u),
          .link_spin_ns = config.link_spin_ns == 0 ? kLinkSpinNs : config.link_spin_ns,
          .join_timeout_ns = join_limit_ns(config)};
}

std::unique_ptr<Member> make_member(const nvrar_config& config, const UniqueId& id, uint64_t group_hash) {
  if (config.backend == NVRAR_BACKEND_CUDA) {
    cuda::CudaMemberConfig member{links_of(config, id)};
    member.rank = static_cast<uint32_t>(config.rank);
    member.topology = topology_of(config);
    member.ring_bytes = config.ring_bytes;
    member.timeout_ns = config.timeout_ns;
    member.group_hash = group_hash;
    member.concurrent_groups = config.concurrent_groups;
    member.exclusive = config.exclusive != 0;
    member.programmatic_launch = config.programmatic_launch != 0;
    member.memory.provider = static_cast<cuda::MemoryProvider>(config.memory);
    member.memory.device = config.device;
    member.memory.shared_devices = config.shared_devices != 0;
    member.memory.nvshmem.arena_bytes = config.arena_bytes;
    member.memory.nvshmem.deadline_ns = join_limit_ns(config);
    std::memcpy(member.memory.nvshmem_id.data(), id.nvshmem, sizeof id.nvshmem);
    return std::make_unique<cuda::CudaMember>(member);
  }
  cpu::CpuMemberConfig member{links_of(config, id)};
  member.rank = static_cast<uint32_t>(config.rank);
  member.topology = topology_of(config);
  member.ring_bytes = config.ring_bytes;
  member.timeout_ns = config.timeout_ns;
  member.group_hash = group_hash;
  return std::make_unique<cpu::CpuMember>(member);
}

std::string describe_meeting(const BatchResult& result) {
  return describe(result.call) + " meets send #" + std::to_string(result.theirs.sequence) + " " +
         describe_elements(result.theirs.data_type, result.theirs.count) + " of rank " +
         std::to_string(result.call.root) +
         ": the sends and the recvs of a pair of ranks match one by one, in count and type";
}

class BusyGuard {
 public:
  explicit BusyGuard(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true, std::memory_order_acquire) && !protocol::planted(protocol::Defect::kNoBusyGuard)) {
      throw Error(NVRAR_INVALID_USAGE,
                  "another call of this communicator is running: calls of one group run one at a time");
    }
  }
  ~BusyGuard() { busy_.store(false, std::memory_order_release); }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace

void probe(int32_t backend) {
  if (backend == NVRAR_BACKEND_CUDA) {
    if (cuda::kernels().empty()) {
      throw Error(
          NVRAR_UNAVAILABLE,
          "the CUDA backend cannot run here: this build of libnvrar holds no GPU kernels, it was made without nvcc "
          "(bin/nvrar setup --cuda gets one)");
    }
    (void)cuda::driver();
    return;
  }
  if (backend != NVRAR_BACKEND_CPU) invalid("there is no backend " + std::to_string(backend));
  if (!__builtin_cpu_supports("avx")) {
    throw Error(NVRAR_UNAVAILABLE,
                "the CPU backend needs a processor with AVX: only those store 16 bytes in one atomic access");
  }
}

void make_unique_id(int32_t backend, uint8_t* out) {
  probe(backend);
  UniqueId id{};
  id.magic = UniqueId::kMagic;
  id.backend = backend;
  random_bytes(id.random, sizeof id.random);
  if (backend == NVRAR_BACKEND_CUDA) {
    try {
      const cuda::NvshmemId nvshmem = cuda::make_nvshmem_id({});
      std::memcpy(id.nvshmem, nvshmem.data(), sizeof id.nvshmem);
    } catch (const Error&) {
      // Without an id the group may use another memory provider; if it may not, prepare says what is missing.
    }
  }
  std::memcpy(out, &id, sizeof id);
}

Communicator::Communicator(int32_t backend, std::unique_ptr<Member> member, TuningTable tuning, uint64_t group_hash)
    : backend_(backend), member_(std::move(member)), tuning_(std::move(tuning)), group_hash_(group_hash) {}

Communicator::~Communicator() {
  const cuda::OutsideCaptures outside(backend_ == NVRAR_BACKEND_CUDA);
  member_.reset();
}

std::unique_ptr<Communicator> Communicator::prepare(const nvrar_config& config,
                                                    std::span<const nvrar_tuning_rule> rules, const uint8_t* unique_id,
                                                    uint8_t* descriptor) {
  check_config(config);
  TuningTable tuning(rules);
  UniqueId id;
  std::memcpy(&id, unique_id, sizeof id);
  if (id.magic != UniqueId::kMagic) invalid("unique_id was not made by nvrar_unique_id");
  if (id.backend != config.backend) invalid("unique_id was made for another backend");
  const uint64_t group_hash = hash_bytes(unique_id, NVRAR_UNIQUE_ID_BYTES);
  const cuda::OutsideCaptures outside(config.backend == NVRAR_BACKEND_CUDA);
  std::unique_ptr<Member> member = make_member(config, id, group_hash);
  tuning.use_on(member->architecture(), "rank " + std::to_string(member->rank()));
  std::unique_ptr<Communicator> communicator(
      new Communicator(config.backend, std::move(member), std::move(tuning), group_hash));
  communicator->fill_descriptor(descriptor);
  return communicator;
}

void Communicator::fill_descriptor(uint8_t* out) const {
  Descriptor descriptor{};
  descriptor.magic = Descriptor::kMagic;
  descriptor.abi_version = abi_version();
  descriptor.backend = backend_;
  descriptor.rank = member_->rank();
  descriptor.world = member_->world();
  descriptor.ring_bytes = member_->layout().ring_bytes;
  descriptor.group_hash = group_hash_;
  member_->describe(&descriptor);
  descriptor.tuning_hash = tuning_.hash();
  descriptor.ranks_per_node = member_->layout().topology.largest;
  descriptor.host = HostKey::of_this_process();
  descriptor.network_namespace = network_namespace();
  descriptor.quota_group = cpu_quota().group;
  std::strncpy(descriptor.build_id, build_id(), sizeof descriptor.build_id - 1);
  std::memcpy(out, &descriptor, sizeof descriptor);
}

void Communicator::set_tuning(std::span<const nvrar_tuning_rule> rules) {
  const BusyGuard guard(busy_);
  require_ready();
  TuningTable tuning(rules);
  tuning.use_on(member_->architecture(), "rank " + std::to_string(member_->rank()));
  tuning_ = std::move(tuning);
}

void Communicator::connect(const uint8_t* blobs) {
  const BusyGuard guard(busy_);
  const cuda::OutsideCaptures outside(backend_ == NVRAR_BACKEND_CUDA);
  if (connected_.load(std::memory_order_acquire)) {
    throw Error(NVRAR_INVALID_USAGE, "nvrar_connect was called before on this communicator");
  }
  // Other threads may be reading the segments that are mapped: they stay until the communicator is destroyed.
  if (member_->segments().peers_mapped()) {
    throw Error(NVRAR_INVALID_USAGE,
                "nvrar_connect has failed on this communicator: destroy it, and prepare another for another attempt");
  }
  std::array<uint8_t, NVRAR_DESCRIPTOR_BYTES> blob;
  fill_descriptor(blob.data());
  Descriptor own;
  std::memcpy(&own, blob.data(), sizeof own);

  std::vector<Descriptor> descriptors;
  for (uint32_t rank = 0; rank < member_->world(); ++rank) {
    Descriptor peer;
    std::memcpy(&peer, blobs + size_t{rank} * sizeof peer, sizeof peer);
    peer.build_id[sizeof peer.build_id - 1] = '\0';
    for (char& character : peer.build_id) {  // becomes part of a message, and so of logs and terminals
      if (character != '\0' && (character < ' ' || character > '~')) character = '?';
    }
    if (peer.magic != Descriptor::kMagic)
      invalid("descriptor " + std::to_string(rank) + " was not made by nvrar_prepare");
    require_agreement(rank, peer, own);
    if (peer.rank != rank) {
      invalid("descriptor " + std::to_string(rank) + " is rank " + std::to_string(peer.rank) +
              "'s: descriptors come in rank order");
    }
    const bool is_own = std::memcmp(&peer.segment, &own.segment, sizeof own.segment) == 0 && peer.host == own.host &&
                        std::memcmp(&peer.link, &own.link, sizeof own.link) == 0;
    if (rank == member_->rank() && !is_own) {
      invalid("descriptor " + std::to_string(rank) + " is not the one that this communicator made");
    }
    descriptors.push_back(peer);
  }
  try {
    member_->map_peers(descriptors);
  } catch (const Error&) {
    throw_if_failed();  // an abort ends connecting with an error of its own
    throw;
  }
  connected_.store(true, std::memory_order_release);
  // An abort before the peers were mapped or linked has not reached them.
  const shared::Poison poison = member_->poisoned();
  if (poison.status != NVRAR_OK) {
    member_->poison(poison);
    throw_poisoned(poison, "");
  }
}

void Communicator::require_ready() {
  if (!connected_.load(std::memory_order_acquire)) {
    throw Error(NVRAR_INVALID_USAGE, "this communicator is not connected: nvrar_connect comes first");
  }
  if (member_->has_failed() && !protocol::planted(protocol::Defect::kIgnoredPoison)) [[unlikely]]
    throw_poisoned(member_->poisoned(), "");
}

void Communicator::run(const Call& call, uint64_t stream) {
  const BusyGuard guard(busy_);
  require_ready();
  run_alone(call, stream);
}

void Communicator::run_top_k(const TopK& top_k, uint64_t stream) {
  const BusyGuard guard(busy_);
  require_ready();
  const bool captured = top_k.rows != 0 && member_->captures(stream);
  uint32_t first = 0;
  do {  // of no rows, too, which is a call
    const uint32_t rows = std::min(top_k.rows - first, top_k.rows_at_once());
    bool gathered = false;
    try {
      const KeyRoom room = member_->find_keys(top_k, first, rows, stream);
      run_alone(gather_of_keys(top_k, first, rows, room), stream);
      gathered = true;
      if (rows != 0) member_->choose(top_k, first, rows, stream);
    } catch (const std::exception& error) {
      // The other ranks are in another part of the call than this one would be if it made it again.
      if ((first == 0 && !gathered) || member_->poisoned().status != NVRAR_OK || captured) throw;
      member_->poison({NVRAR_SYSTEM, member_->rank(), {}, sequence_});
      throw_half_enqueued(member_->segments().call_of(member_->rank()), error);
    }
    first += rows;
  } while (first < top_k.rows);
}

// While no other call runs.
void Communicator::run_alone(const Call& call, uint64_t stream) {
  check_call(call, member_->rank(), member_->layout().topology);
  const Plan plan = member_->plan(call, tuning_);
  // Counted although it sends nothing: a rank that alone passes count 0 is then one call ahead, which its next call
  // reveals.
  ++sequence_;
  const nvrar_call record = record_of(call, plan, sequence_);
  if (call.count == 0 && call.collective != NVRAR_BARRIER) {
    member_->record_empty(record);
    return;
  }

  running_.store(sequence_, std::memory_order_release);
  bool good = false;
  try {
    good = member_->run(call, plan, record, stream);
  } catch (const std::exception& error) {
    const shared::Poison after = member_->poisoned();
    if (after.status == NVRAR_SYSTEM && after.origin == member_->rank()) throw_half_enqueued(record, error);
    --sequence_;  // nothing was done, so the call has no number
    running_.store(0, std::memory_order_release);
    throw;
  }
  if (!good) [[unlikely]]
    throw_poisoned(member_->poisoned(), describe(record));
  running_.store(0, std::memory_order_release);
}

void Communicator::run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t stream) {
  const BusyGuard guard(busy_);
  require_ready();
  check_batch(transfers, count, member_->rank(), member_->world(), &batch_room_);
  BatchResult result;
  bool good = false;
  try {
    good = member_->run_batch(transfers, count, sequence_, stream, &result);
  } catch (const std::exception& error) {
    const shared::Poison after = member_->poisoned();
    if (after.status == NVRAR_SYSTEM && after.origin == member_->rank()) throw_half_enqueued(result.call, error);
    throw;
  }
  if (good) [[likely]]
    return;
  const shared::Poison poison = member_->poisoned();
  if (result.status == NVRAR_MISMATCH && poison.status == NVRAR_MISMATCH && poison.origin == member_->rank()) {
    const std::lock_guard lock(sentence_mutex_);
    poison_sentence_ = describe_meeting(result);
  }
  throw_poisoned(poison, describe(result.call));
}

// The driver's error text is known only here.
void Communicator::throw_half_enqueued(const nvrar_call& call, const std::exception& error) {
  const std::lock_guard lock(sentence_mutex_);
  if (poison_sentence_.empty()) {
    poison_sentence_ = describe(call) + " was enqueued in part, which ended the group: " + error.what();
  }
  throw Error(NVRAR_SYSTEM, poison_sentence_);
}

void Communicator::throw_if_failed() {
  const shared::Poison poison = member_->poisoned();
  if (poison.status != NVRAR_OK) throw_poisoned(poison, "");
}

void Communicator::throw_poisoned(const shared::Poison& poison, const std::string& running) {
  const std::lock_guard lock(sentence_mutex_);
  // The first message is kept: a later one would describe what the ranks did after the failure.
  if (poison_sentence_.empty()) {
    const BatchResult failed = member_->failed_transfer();
    if (failed.status == NVRAR_MISMATCH) poison_sentence_ = describe_meeting(failed);
  }
  if (poison_sentence_.empty()) {
    member_->update_record();
    member_->update_remote(true);
    const nvrar_call own = member_->segments().call_of(member_->rank());
    const bool was_in = own.state == NVRAR_CALL_RUNNING || own.state == NVRAR_CALL_FAILED;
    poison_sentence_ = describe_failure(poison, member_->rank(), running.empty() && was_in ? describe(own) : running,
                                        waited_ns(), activities());
    for (uint32_t rank = 0; poison.status == NVRAR_PEER_LOST && rank < member_->world(); ++rank) {
      if (const char* const what = member_->refused(rank)) {
        poison_sentence_ += "; rank " + std::to_string(rank) + " had sent " + what;
      }
    }
  }
  throw Error(poison.status, poison_sentence_);
}

// Before the end of nvrar_connect, whatever this member waits with is being made.
uint64_t Communicator::waited_ns() const noexcept {
  return connected_.load(std::memory_order_acquire) ? member_->waited_ns() : 0;
}

std::vector<RankActivity> Communicator::activities() const {
  std::vector<RankActivity> ranks(member_->world());
  for (uint32_t rank = 0; rank < member_->world(); ++rank) {
    if (!member_->segments().mapped(rank)) continue;
    ranks[rank] = {member_->segments().call_of(rank), true, member_->segments().closed(rank)};
  }
  return ranks;
}

void Communicator::abort() noexcept {
  member_->poison({NVRAR_ABORTED, member_->rank(), {}, running_.load(std::memory_order_acquire)});
}

nvrar_failure Communicator::failure() const noexcept {
  const shared::Poison poison = member_->poisoned();
  nvrar_failure failure{};
  failure.size = sizeof failure;
  failure.status = poison.status;
  failure.sequence = poison.sequence;
  if (!poison.is_of_leaving()) {
    const RankSet::Words& words = poison.ranks.words();
    std::copy_n(words.begin(), std::size(failure.missing), failure.missing);
    std::copy_n(words.begin() + std::size(failure.missing), std::size(failure.missing_from_128),
                failure.missing_from_128);
  }
  failure.origin = static_cast<int32_t>(poison.origin);
  return failure;
}

void Communicator::refresh(bool wait) noexcept { member_->update_remote(wait); }

nvrar_link Communicator::link_of(int32_t rank) const { return member_->link_of(visible_rank(rank)); }

uint32_t Communicator::visible_rank(int32_t rank) const {
  if (rank < 0 || static_cast<uint32_t>(rank) >= member_->world()) {
    invalid("rank " + std::to_string(rank) + " is not in a group of " + std::to_string(member_->world()));
  }
  if (!member_->segments().mapped(static_cast<uint32_t>(rank))) {
    throw Error(NVRAR_INVALID_USAGE, "this communicator is not connected: other ranks' calls are not visible yet");
  }
  return static_cast<uint32_t>(rank);
}

nvrar_call Communicator::call_of(int32_t rank) const {
  const uint32_t visible = visible_rank(rank);
  if (visible == member_->rank()) member_->update_record();
  return member_->segments().call_of(visible);
}

uint32_t Communicator::flight_record(int32_t rank, nvrar_call* out, uint32_t capacity) const {
  if (visible_rank(rank) == member_->rank()) member_->update_record();
  return member_->segments().flight_record(visible_rank(rank), out, capacity);
}

nvrar_statistics Communicator::statistics_of(int32_t collective) const {
  if (collective < NVRAR_ALL_REDUCE || collective > NVRAR_RECV) {
    invalid("there is no collective " + std::to_string(collective));
  }
  return member_->segments().statistics(collective);
}

nvrar_wait Communicator::wait_of(int32_t rank) const { return member_->wait_of(visible_rank(rank)); }

const int32_t* Communicator::last_algorithm() const noexcept {
  static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t) && std::atomic<int32_t>::is_always_lock_free);
  return reinterpret_cast<const int32_t*>(&member_->segments().own().flight.counters().algorithm());
}

bool Communicator::shut() noexcept {
  const uint64_t begin_ns = monotonic_ns();
  const auto leave = [&] {
    member_->poison(shared::Poison::of_leaving(member_->rank(), running_.load(std::memory_order_acquire)));
  };
  while (busy_.exchange(true, std::memory_order_acquire)) {
    leave();
    if (monotonic_ns() - begin_ns > kLeaveLimitNs) return false;
    ::usleep(kLeavePollUs);
  }
  if (member_->quiet(kGraceNs)) return true;
  leave();
  if (member_->quiet(kLeaveLimitNs - kGraceNs)) return true;
  busy_.store(false, std::memory_order_release);  // lets shut() be called again; other calls still fail by the abort
  return false;
}

}  // namespace nvrar
