// The watcher of a CUDA member: observes launches while they run, and their failures.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

#include "cuda/member/cuda_member.h"
#include "protocol/call_header.h"
#include "protocol/slices.h"

namespace nvrar::cuda {
namespace {

using protocol::Packet;
using protocol::RingLayout;
using shared::Poison;

// Of an idle group, too, so that it takes little of a core.
constexpr auto kWatchPeriod = std::chrono::milliseconds(5);
constexpr auto kLookPeriod = std::chrono::milliseconds(1);
constexpr int kTurnsForPage = 100;
// The proxy is looked at now and then. So many looks, because a process that was stopped may run the watcher first.
constexpr uint32_t kTurnsBetweenProxyLooks = 20;
constexpr uint32_t kStillLooks = 10;
constexpr int kLooks = 2;
constexpr int kLooksAtGraphs = 20;
// Offset in the host page, behind the fields that kernels write, to which the watcher copies device memory.
constexpr uint64_t kScratchOffset = 1024;
constexpr uint64_t kScratchBytes = kHostPageBytes - kScratchOffset;

// Errors after which a context never works again, such as CUDA_ERROR_ILLEGAL_ADDRESS. All kernels of the context have
// ended then.
bool is_dead(Result result) {
  constexpr Result kDead[] = {4,   201, 214, 220, 226, 700, 702, 709, 710, 714,
                              715, 716, 717, 718, 719, 721, 806, 810, 911, 999};
  return std::find(std::begin(kDead), std::end(kDead), result) != std::end(kDead);
}

}  // namespace

Poison CudaMember::poisoned() noexcept {
  take_up_failure();
  return segments_->poisoned();
}

void CudaMember::poison(const Poison& poison) noexcept {
  segments_->poison(poison);
  // Does not call the driver, which may be busy: waiting kernels see this word, and the watcher tells later kernels.
  __atomic_store_n(&page().abort, 1, __ATOMIC_RELAXED);
  if (crosses_ && !told_.exchange(true)) proxy_->talk().tell(segments_->poisoned());
}

// A launch that crosses names ranks of its node by their place in it, and ranks of other nodes in a word of their own.
RankSet CudaMember::ranks_of(const DeviceFailure& failure) const noexcept {
  if (!crosses_) return RankSet::of_first(failure.ranks);
  if (failure.ranks != 0) return RankSet::of_first(uint64_t{failure.ranks} << crossing_.layout.first);
  return RankSet::of_first(__atomic_load_n(&page().far_ranks, __ATOMIC_ACQUIRE));
}

// Turns the failure that the first failed block has written into the group's poison.
void CudaMember::take_up_failure() noexcept {
  const uint64_t word = *const_cast<const volatile uint64_t*>(&page().failure);
  if (word == 0 || segments_->own().poison.is_set()) [[likely]]
    return;
  const std::lock_guard lock(failure_mutex_);
  if (segments_->poisoned().status != NVRAR_OK) return;
  const DeviceFailure failure = DeviceFailure::unpack(word);
  const LoggedLaunch launch = log_.find(failure.tag);
  Poison poison{NVRAR_MISMATCH, rank(), ranks_of(failure), launch.call.sequence};
  if (failure.kind == FailureKind::kTimeout) {
    poison.status = NVRAR_TIMEOUT;
    // If headers are missing, their ranks have not entered the call; otherwise the missing rank is the one that was
    // waited for.
    const bool transfers = launch.call.collective == NVRAR_SEND || launch.call.collective == NVRAR_RECV;
    const bool by_slices = launch.call.algorithm == NVRAR_ALGORITHM_HIERARCHICAL;
    if (const RankSet late = transfers ? RankSet() : ranks_not_entered(by_slices); !late.empty()) poison.ranks = late;
  }
  if (failure.kind == FailureKind::kOverrun) poison.status = NVRAR_INTERNAL;
  record_progress(true);
  this->poison(poison);
}

BatchResult CudaMember::failed_transfer() noexcept {
  const shared::Poison poison = segments_->poisoned();
  const DeviceFailure failure = DeviceFailure::unpack(page().failure);
  const nvrar_call first = log_.find(failure.tag).call;
  if (poison.origin != rank() || failure.kind != FailureKind::kMismatch || first.transfers == 0) return {};
  // These values reach the host after the failure itself; each is written atomically.
  const auto seen = [](const SeenTransfer& place) {
    const auto type = [&] { return __atomic_load_n(&place.type_and_one, __ATOMIC_ACQUIRE); };
    for (int turns = 0; type() == 0 && turns < kTurnsForPage; ++turns) std::this_thread::sleep_for(kLookPeriod);
    return protocol::TransferHeader{place.count, place.sequence, static_cast<int32_t>(type() - 1)};
  };
  const protocol::TransferHeader expected = seen(page().expected);
  BatchResult result;
  result.theirs = seen(page().came);
  if (page().came.type_and_one == 0) return {};
  result.status = NVRAR_MISMATCH;
  result.ranks = ranks_of(failure);
  result.call = first;
  result.call.collective = NVRAR_RECV;
  result.ranks.each([&](uint32_t peer) { result.call.root = static_cast<int32_t>(peer); });
  result.call.sequence = expected.sequence;
  result.call.count = expected.count;
  result.call.data_type = expected.data_type;
  return result;
}

// The device's counts of the launches.
struct CudaMember::Seen {
  Result result = kSuccess;
  DeviceState state{};
  uint64_t ended = 0;     // warps of launches that the host counts, too
  bool is_exited = true;  // by all warps of the latest launch. A launch that has only just begun is not yet the latest.
};

CudaMember::Seen CudaMember::look_at_launches() noexcept {
  Seen seen;
  seen.result = read(&seen.state, state_->get(), sizeof seen.state);
  read_all<LaunchLine>(&seen.result, lines_->get(), kLaunchLines,
                       [&](const LaunchLine& line) { seen.ended += line.ended; });
  const uint64_t warps = seen.state.latest.tag >> 32;
  read_all<PlaceExit>(&seen.result, places_->get(), warps, [&](const PlaceExit& exit) {
    if (exit.epoch != seen.state.latest.epoch) seen.is_exited = false;
  });
  return seen;
}

// Reads an array in device memory in as many parts as the scratch takes, until one cannot be read.
template <class Entry, class Visit>
void CudaMember::read_all(Result* result, DeviceAddress from, uint64_t count, Visit visit) noexcept {
  constexpr uint64_t kEntriesPerRead = kScratchBytes / sizeof(Entry);
  std::array<Entry, kEntriesPerRead> entries;
  for (uint64_t first = 0; *result == kSuccess && first < count; first += kEntriesPerRead) {
    const uint64_t part = std::min(count - first, kEntriesPerRead);
    *result = read(entries.data(), from + first * sizeof(Entry), part * sizeof(Entry));
    if (*result == kSuccess) std::for_each(entries.begin(), entries.begin() + part, visit);
  }
}

// Reads device memory while kernels run.
Result CudaMember::read(void* to, DeviceAddress from, size_t bytes) noexcept {
  const std::lock_guard lock(peek_mutex_);
  const OutsideCaptures outside;
  const Driver& cuda = driver();
  void* const scratch = static_cast<uint8_t*>(page_.host()) + kScratchOffset;
  const ContextScope scope(device_->context());
  if (!scope) return scope.entered();
  Result result = cuda.cuMemcpyDtoHAsync_v2(scratch, from, bytes, own_stream_.get());
  if (result == kSuccess) result = cuda.cuStreamSynchronize(own_stream_.get());
  if (result == kSuccess) std::memcpy(to, scratch, bytes);
  return result;
}

// by_slices: of another node this rank hears only from those that own a slice with it.
RankSet CudaMember::ranks_not_entered(bool by_slices) noexcept {
  LatestLaunch latest;
  Packet headers[protocol::kMaxRanks];
  if (!peek(&latest, state_->get() + offsetof(DeviceState, latest), sizeof latest) ||
      !peek(headers, memory_->of(rank()) + RingLayout::header_slot(latest.epoch, 0) * protocol::kPacketBytes,
            (crosses_ ? crossing_.layout.size : world()) * sizeof(Packet))) {
    return {};
  }
  RankSet missing;
  if (!crosses_) {
    for (uint32_t source = 0; source < world(); ++source) {
      if (source != rank() && !protocol::EpochPacket::arrived(headers[source], latest.epoch)) missing.add(source);
    }
    return missing;
  }
  const protocol::Topology& topology = layout_.topology;
  const uint32_t own = topology.node_of(rank());
  for (uint32_t node = 0; node < topology.nodes(); ++node) {
    const uint32_t first = topology.first_of(node);
    const uint32_t size = topology.size_of(node);
    RankSet late;
    bool all_here = false;
    bool any_here = false;
    for (uint32_t i = 0; i < size; ++i) {
      const uint32_t source = first + i;
      if (source == rank()) continue;
      const Proxy::Heard heard = node == own ? Proxy::Heard{} : proxy_->heard_of(source, latest.epoch);
      const bool is_here = node == own ? protocol::EpochPacket::arrived(headers[i], latest.epoch) : heard.has_entered;
      all_here = all_here || heard.node_is_here;
      any_here = any_here || is_here;
      if (!is_here) late.add(source);
    }
    if (all_here) continue;
    if (node != own && by_slices && !any_here) {
      RankSet owners;
      for (uint32_t slice = rank() - topology.first_of(own); slice < topology.largest; slice += topology.size_of(own)) {
        owners.add(protocol::HierarchicalRuns{topology, 1}.owner(slice, node));
      }
      late = late & owners;
    }
    missing |= late;
  }
  return missing;
}

void CudaMember::update_record() noexcept { record_progress(segments_->poisoned().status != NVRAR_OK); }

// Updates the records of queued calls from the device state, so that other ranks see where this rank is. ended: calls
// that have not ended by now never will.
void CudaMember::record_progress(bool ended) noexcept {
  const std::lock_guard lock(record_mutex_);
  if (end_recorded_) return;
  const Seen before = look_at_launches();
  const Seen seen = look_at_launches();
  if (before.result != kSuccess || seen.result != kSuccess) return;
  const DeviceState& state = seen.state;
  end_recorded_ = ended;
  record_transfers_done();
  const auto given_up = static_cast<uint32_t>(state.poison >> 32);
  const auto tag = given_up != 0 ? given_up : static_cast<uint32_t>(state.latest.tag);
  const bool done =
      given_up == 0 && before.is_exited && seen.is_exited && before.state.latest.epoch == state.latest.epoch;
  auto& flight = segments_->own().flight;
  const auto all_done_up_to = [&](uint64_t number) {
    for (; known_done_ < number; ++known_done_) flight.end_unless_failed(known_done_, NVRAR_CALL_DONE);
  };
  const LoggedLaunch launch = log_.find(tag);
  if (tag != 0 && launch.records == 0) {  // a launch of a graph: which calls were queued before it is unknown
    if (ended && !done && launch.call.sequence != 0) {
      flight.begin(launch.call, NVRAR_CALL_FAILED);
      ++recorded_;
    }
    return;
  }
  if (done && tag == log_.newest() && (tag == 0 || launch.last)) return all_done_up_to(recorded_);
  if (tag == 0) return;
  all_done_up_to(launch.first_record);
  const int32_t now = done && launch.last ? NVRAR_CALL_DONE : ended ? NVRAR_CALL_FAILED : NVRAR_CALL_RUNNING;
  for (uint32_t i = 0; i < launch.records; ++i) flight.end_unless_failed(launch.first_record + i, now);
}

void CudaMember::note_queued(const std::vector<QueuedTransfer>& transfers) noexcept {
  const std::lock_guard lock(record_mutex_);
  try {
    for (const QueuedTransfer& transfer : transfers) {
      if (queued_transfers_.size() == NVRAR_FLIGHT_RECORDS)
        queued_transfers_.pop_front();  // its record has been overwritten
      queued_transfers_.push_back(transfer);
    }
  } catch (const std::bad_alloc&) {
    // The transfers are enqueued; their records then stay in the state queued.
  }
}

// The device counts captured transfers at each launch of their graph, this function only once. So with graphs a
// transfer that is still queued may be recorded as done.
void CudaMember::record_transfers_done() noexcept {
  if (queued_transfers_.empty()) return;
  std::array<PairState, CrossingTransferArgs::kPairs> pairs;
  if (!peek(pairs.data(), pairs_->get(), sizeof pairs)) return;
  const auto is_done = [&](const QueuedTransfer& transfer) {
    const bool done = pairs[transfer.pair].transfers - (protocol::first_epoch() - 1) >= transfer.sequence;
    if (done) segments_->own().flight.end(transfer.record, NVRAR_CALL_DONE);
    return done;
  };
  queued_transfers_.erase(std::remove_if(queued_transfers_.begin(), queued_transfers_.end(), is_done),
                          queued_transfers_.end());
}

uint64_t CudaMember::record(const nvrar_call& call, int32_t state) noexcept {
  const std::lock_guard lock(record_mutex_);
  ++recorded_;
  return segments_->own().flight.begin(call, state);
}

void CudaMember::watch() noexcept {
  const OutsideCaptures outside;
  uint32_t turns = 0;
  uint32_t still = 0;
  std::unique_lock lock(watch_mutex_);
  while (!watch_turns_.wait_for(lock, kWatchPeriod, [&] { return ends_; })) {
    const bool looks = ending_ && !all_over_;
    // Not under the lock: the driver may be busy for long, and threads that wait for the watcher have a time limit.
    lock.unlock();
    if (crosses_ && ++turns % kTurnsBetweenProxyLooks == 0) {
      still = proxy_->stands_still() ? still + 1 : 0;
      if (still == kStillLooks) {
        poison({NVRAR_PEER_LOST, rank(), RankSet::of(rank()), segments_->call_of(rank()).sequence});
      }
    }
    // Asked first, so that the poison is made, and the ranks that are late are found, before the kernels are stopped.
    const bool failed = has_failed();
    take_up_failure();
    if (failed && !stopped_.load(std::memory_order_acquire)) stop_kernels();
    if (looks) look_whether_all_is_over();
    lock.lock();
  }
}

// Tells all kernels to leave: waiting kernels poll the host page, later kernels read the device state.
bool CudaMember::tell_kernels() noexcept {
  // Stored before the driver is called, which may be busy.
  __atomic_store_n(&page().abort, 1, __ATOMIC_RELAXED);
  const ContextScope scope(device_->context());
  if (!scope) return false;
  const auto set = [&](DeviceAddress word) {
    return driver().cuMemsetD32Async(word, 1, 1, own_stream_.get()) == kSuccess;
  };
  bool told = set(state_->get() + offsetof(DeviceState, poison));
  for (uint32_t i = 0; i < kLaunchLines; ++i) {
    told = set(lines_->get() + i * sizeof(LaunchLine) + offsetof(LaunchLine, beside.poison)) && told;
  }
  return told;
}

void CudaMember::stop_kernels() noexcept {
  __atomic_store_n(&page().abort, 1, __ATOMIC_RELAXED);
  record_progress(true);
  if (tell_kernels()) stopped_.store(true, std::memory_order_release);
}

// Uses the counts instead of waiting with the driver. The driver can wait for a stream, which the caller may have
// destroyed, or for the whole context, which is refused while any stream of it captures, breaks that capture, and may
// take as long as the caller's own work.
void CudaMember::look_whether_all_is_over() noexcept {
  const uint64_t launched = warps_launched_;
  const bool captured = has_captured_;
  Seen before;
  bool dead = false;
  // A warp ends shortly after its last store. The number of launches of graphs is unknown: they count as over when
  // nothing has changed for a while.
  const int looks = captured ? kLooksAtGraphs : kLooks;
  for (int i = 0; i < looks && (launched != 0 || captured); ++i) {
    const Seen seen = look_at_launches();
    dead = is_dead(seen.result);
    if (dead) break;  // then nothing in the context runs any more
    if (seen.result != kSuccess || seen.ended != launched) return;
    if (captured) {
      if (i != 0 && seen.state.latest.epoch != before.state.latest.epoch) return;
      // In a failed group, only some warps of a launch may have entered.
      if (!seen.is_exited && !stopped_.load(std::memory_order_acquire)) return;
    }
    before = seen;
    if (i + 1 < looks) std::this_thread::sleep_for(kLookPeriod);
  }
  update_record();
  // A graph that is launched after this, or was launched and has not started, leaves at once.
  if (captured && !dead) {
    LatestLaunch latest;
    if (!tell_kernels() || !peek(&latest, state_->get() + offsetof(DeviceState, latest), sizeof latest)) return;
  }
  const std::lock_guard lock(watch_mutex_);
  all_over_ = true;
  watch_turns_.notify_all();
}

bool CudaMember::quiet(uint64_t limit_ns) noexcept {
  if (!watcher_.joinable()) return true;  // not connected, so nothing was launched
  std::unique_lock lock(watch_mutex_);
  ending_ = true;
  return watch_turns_.wait_for(lock, std::chrono::nanoseconds(limit_ns), [&] { return all_over_; });
}

}  // namespace nvrar::cuda
