#include "cpu/cpu_member.h"

#include <unistd.h>

#include <algorithm>

#include "common/watched.h"
#include "cpu/cpu_launch.h"
#include "cpu/float_control.h"
#include "cpu/fused_rows.h"
#include "cpu/top_k.h"
#include "member/nodes_of_hosts.h"
#include "plan/launches.h"

namespace nvrar::cpu {
using protocol::EpochPacket;

namespace {

bool may_link(const CpuMemberConfig& config) noexcept {
  return !config.link_address.empty() && config.topology.world > 1;
}

// How long a report waits for what the ranks of other hosts are doing.
constexpr uint64_t kReportNs = 100'000'000;
// How long a call whose limit is over waits for it at most, before it says which rank is missing: a rank that waits
// itself may be far away, or its host busy.
constexpr uint64_t kBlameNs = 1'000'000'000;

// While it lives, the calling thread takes what arrives on the links, and they read the call's memory.
class CallOfLinks {
 public:
  explicit CallOfLinks(link::Links* links) noexcept : links_(links) {
    if (links_ != nullptr) links_->begin_call();
  }
  ~CallOfLinks() {
    if (links_ == nullptr) return;
    links_->settle();
    links_->end_call();
  }
  CallOfLinks(const CallOfLinks&) = delete;
  CallOfLinks& operator=(const CallOfLinks&) = delete;

 private:
  link::Links* const links_;
};

}  // namespace

CpuMember::CpuMember(const CpuMemberConfig& config)
    : Member(config.rank,
             {config.ring_bytes == 0 ? kDefaultRingBytes : config.ring_bytes, config.topology, may_link(config)},
             config.group_hash, true),
      timeout_ns_(config.timeout_ns),
      link_config_(config),
      ranks_(config.topology.world),
      waits_(std::make_unique<WaitCounter[]>(config.topology.world)) {
  if (link_config_.link_security == NVRAR_LINK_ENCRYPTED) link::find_libcrypto();
  shared::ControlBlock& own = segments_->own();
  ranks_[config.rank] = {&own, segments_->rings(config.rank), own.owner_base + shared::kControlBytes, nullptr};
  if (may_link(config)) {
    remote_ = std::make_unique<link::RingInbox>(world(), config.link_address, config.first_port, config.last_port,
                                                link_config_.link_security == NVRAR_LINK_ENCRYPTED);
  }
}

CpuMember::~CpuMember() {
  // A peer may still need what this rank has sent in its last call, and waits for it no longer than this.
  if (linked_ && poisoned().status == NVRAR_OK) {
    remote_->links().leave(std::min(timeout_ns_, kLongestWaitNs), [this] { return poisoned().status != NVRAR_OK; });
  } else if (linked_) {
    remote_->talk().tell_last();
  }
  remote_.reset();
}

void CpuMember::describe(Descriptor* descriptor) const {
  descriptor->segment = segments_->address();
  descriptor->links = link_config_.links;
  descriptor->link_security = link_config_.link_security;
  if (remote_ != nullptr) descriptor->link = remote_->talk().address();
}

void CpuMember::map_peers(const std::vector<Descriptor>& descriptors) {
  const protocol::Topology prepared = layout_.topology;
  try {
    map(descriptors);
  } catch (...) {
    layout_.topology = prepared;  // for another attempt
    throw;
  }
}

void CpuMember::map(const std::vector<Descriptor>& descriptors) {
  const NodeLayout layout = node_layout_of(descriptors, rank(), link_config_.links, layout_);
  nodes_ = layout.nodes;
  layout_.topology = protocol::Topology(nodes_);
  segments_->map_peers(segments_of(descriptors), layout.remote);
  Crowd crowd{0, 0};
  for (uint32_t peer = 0; peer < world(); ++peer) {
    if (layout.remote.has(peer)) continue;
    ++crowd.on_host;
    if (descriptors[peer].quota_group == descriptors[rank()].quota_group) ++crowd.under_quota;
    if (peer == rank()) continue;
    shared::ControlBlock& control = segments_->control(peer);
    const bool same_process = descriptors[peer].segment.pid == ::getpid();
    const uint64_t base = same_process ? control.owner_base : reinterpret_cast<uint64_t>(&control);
    ranks_[peer] = {&control, segments_->rings(peer), base + shared::kControlBytes, nullptr};
  }
  if (!layout.remote.empty()) {
    link(descriptors, layout.remote);
  } else {
    remote_.reset();  // nobody has to listen
  }
  waiter_ = Waiter(&segments_->own(), crowd, timeout_ns_, linked_ ? remote_.get() : nullptr, waits_.get());
  point_to_point_ = PointToPoint(layout_, rank());
}

void CpuMember::link(const std::vector<Descriptor>& descriptors, const RankSet& remote) {
  const std::vector<link::Remote> remotes = remotes_of(descriptors, rank(), remote);
  remote_->open(segments_.get(), layout_);
  remote_->connect(link_config_.secret, remotes,
                   monotonic_ns() + std::min(link_config_.join_timeout_ns, kLongestWaitNs));
  for (const link::Remote& peer : remotes) {
    ranks_[peer.rank] = {&segments_->control(peer.rank), nullptr, 0, remote_->links().to(peer.rank)};
  }
  linked_ = true;
}

void CpuMember::poison(const shared::Poison& poison) noexcept {
  Member::poison(poison);
  if (linked_ && !told_.exchange(true)) remote_->talk().tell(poisoned());
}

void CpuMember::update_remote(bool wait) noexcept {
  if (linked_) remote_->talk().learn(wait ? kReportNs : 0);
}

void CpuMember::learn_whom_to_blame() noexcept {
  // Half as long as a rank that waits counts as waiting: one whose limit is over at the same time is here, too.
  if (linked_) remote_->talk().learn(std::min(kBlameNs, Waiter::fresh_ns(timeout_ns_) / 2));
}

uint8_t* CpuMember::room_for_sums(uint64_t bytes) {
  if (bytes > sums_bytes_) {
    sums_.reset();
    sums_bytes_ = 0;
    sums_ = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    sums_bytes_ = bytes;
  }
  return sums_.get();
}

bool CpuMember::run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t /*stream*/) {
  const bool fused = call.fusion != nullptr;
  uint8_t* const sums = fused ? room_for_sums(call.count * element_bytes(call.data_type)) : nullptr;
  const FloatControl same_on_all_ranks;
  const CallOfLinks taking(links());
  shared::FlightRecord& flight = segments_->own().flight;
  const uint64_t number = flight.begin(record);
  const bool good = linked_ ? run_launches<true>(call, plan, record.sequence, sums)
                            : run_launches<false>(call, plan, record.sequence, sums);
  if (!good) {
    flight.end(number, NVRAR_CALL_FAILED);
    return false;
  }
  if (fused && linked_) remote_->links().settle();  // the results may go where the input is
  if (fused) fuse_rows(*call.fusion, call.data_type, sums, reinterpret_cast<uint8_t*>(call.recv));
  flight.end(number, NVRAR_CALL_DONE);
  return true;
}

KeyRoom CpuMember::find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t /*stream*/) {
  const FloatControl same_on_all_ranks;
  const uint64_t own = uint64_t{rows} * top_k.k;
  keys_.resize(std::max<uint64_t>(keys_.size(), own + world() * own + world() * top_k.k));
  cpu::find_keys(top_k, first_row, rows, keys_.data());
  return {reinterpret_cast<uint64_t>(keys_.data()), reinterpret_cast<uint64_t>(keys_.data() + own)};
}

void CpuMember::choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t /*stream*/) {
  const FloatControl same_on_all_ranks;
  const uint64_t own = uint64_t{rows} * top_k.k;
  cpu::choose(top_k, first_row, rows, world(), keys_.data() + own, keys_.data() + own + world() * own);
}

template <bool kLinks>
bool CpuMember::run_launches(const Call& call, const Plan& plan, uint64_t sequence, uint8_t* sums) {
  const Reduction* const reduction = call.op == kNoOp ? nullptr : &reduction_of(call.data_type, call.op);
  CpuPort<kLinks> port(ranks_.data(), rank(), layout_.topology, &waiter_, reduction, links(), &notes_);
  Launches launches(call, plan, layout_, rank(), sequence);
  if (sums != nullptr) launches.receive_at(sums);
  for (uint64_t i = 0; i < launches.count(); ++i) {
    // A call that never waits must detect an abort, too.
    if (segments_->own().poison.is_set() && !protocol::planted(protocol::Defect::kIgnoredPoison)) return false;
    ++epoch_;
    waiter_.restart();
    if (protocol::planted(protocol::Defect::kShortEpochs)) epoch_ = static_cast<uint32_t>(epoch_);
    if (kLinks) remote_->enter(epoch_);
    protocol::Launch& launch = launches.at(i);
    launch.epoch = epoch_;
    if (run_launch(port, plan, launch)) continue;
    poison(failure_of(port.result(), port.waiting_for(), plan.algorithm, sequence));
    return false;
  }
  return true;
}

bool CpuMember::run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence, uint64_t /*stream*/,
                          BatchResult* result) {
  const CallOfLinks taking(links());
  point_to_point_.begin(transfers, count, group_sequence);
  waiter_.restart();
  TransferPort port(ranks_.data(), rank());
  *result = point_to_point_.run(port, waiter_, segments_->own());
  if (linked_) remote_->links().flush_in_call();
  if (result->status == NVRAR_OK) return true;
  if (result->status == NVRAR_TIMEOUT) {
    learn_whom_to_blame();
    result->ranks = really_missing(result->ranks);
  }
  if (result->status != NVRAR_ABORTED) poison({result->status, rank(), result->ranks, result->call.sequence});
  return false;
}

shared::Poison CpuMember::failure_of(WaitResult result, uint32_t waiting_for, Algorithm algorithm,
                                     uint64_t sequence) noexcept {
  // A mismatch explains a time-out (a rank that detected the mismatch first has exited the call), but not the other way
  // round.
  if (!notes_.differing.empty()) return {NVRAR_MISMATCH, rank(), notes_.differing, sequence};
  if (result == WaitResult::kPoisoned) return segments_->poisoned();
  learn_whom_to_blame();
  const RankSet late = ranks_not_entered(algorithm, sequence) | RankSet::of(waiting_for);
  return {NVRAR_TIMEOUT, rank(), really_missing(late), sequence};
}

// A late rank may itself be waiting, for an owner's result, another node's sum or a peer's transfer. Then the ranks
// that it waits for are missing instead, and so on, down to ranks that do not wait.
RankSet CpuMember::really_missing(const RankSet& late) const noexcept {
  const uint64_t now_ns = monotonic_ns();
  const RankSet all = RankSet::all(world());
  RankSet missing;
  RankSet seen = late | RankSet::of(rank());
  for (RankSet open = late; !open.empty();) {
    RankSet next;
    open.each([&](uint32_t rank) {
      const shared::ControlBlock& control = segments_->control(rank);
      const RankSet waits_for = control.waits_for.load() & all;
      const uint64_t looked_ns = control.looked_ns.load(std::memory_order_acquire);
      if (waits_for.empty() || looked_ns + Waiter::fresh_ns(timeout_ns_) <= now_ns) {
        missing.add(rank);
      } else {
        next |= waits_for;
      }
    });
    open = next - seen;
    seen |= next;
  }
  return !missing.empty() ? missing : late;
}

// Where headers of other nodes come from some of their ranks only, the flight records tell of these nodes. They count
// calls, not launches, and also a call of no elements, which has no launch.
RankSet CpuMember::ranks_not_entered(Algorithm algorithm, uint64_t sequence) const noexcept {
  const protocol::Topology& topology = layout_.topology;
  const bool by_nodes =
      topology.is_large() || algorithm == Algorithm::kHierarchical || algorithm == Algorithm::kHierarchicalTwoShot;
  RankSet missing;
  for (uint32_t source = 0; source < world(); ++source) {
    if (source == rank()) continue;
    if (by_nodes && topology.node_of(source) != topology.node_of(rank())) {
      const nvrar_call call = segments_->call_of(source);
      const bool is_empty = call.count == 0 && call.transfers == 0 && call.collective != NVRAR_BARRIER;
      if (call.group_sequence < sequence || (is_empty && call.sequence == sequence)) missing.add(source);
      continue;
    }
    const uint32_t first = topology.is_large() ? topology.first_of(topology.node_of(source)) : 0;
    const protocol::Packet header =
        shared::load_packet(ranks_[rank()].rings + protocol::RingLayout::header_slot(epoch_, source - first));
    if (!EpochPacket::arrived(header, epoch_)) missing.add(source);
  }
  return missing;
}

}  // namespace nvrar::cpu
