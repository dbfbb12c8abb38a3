// What a CUDA member learns of its launches while they run and when they have failed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <system_error>

#include "cuda/cuda_member.h"
#include "protocol/call_header.h"

namespace nvrar::cuda {
namespace {

using host::Poison;
using protocol::Packet;
using protocol::RingLayout;

constexpr auto kWatchPeriod = std::chrono::milliseconds(1);
constexpr int kTurnsForPage = 100;
// Of the page, behind what kernels write: where the watcher reads the device's memory to.
constexpr uint64_t kScratchOffset = 1024;

}  // namespace

Poison CudaMember::poisoned() noexcept {
  take_up_failure();
  return segments_->poisoned();
}

void CudaMember::poison(const Poison& poison) noexcept {
  segments_->poison(poison);
  // Without the driver, which may be busy: kernels that wait see it, and the watcher tells those that come.
  *const_cast<volatile uint32_t*>(&page().abort) = 1;
}

// What the first block that failed has written becomes the group's poison.
void CudaMember::take_up_failure() noexcept {
  const uint64_t word = *const_cast<const volatile uint64_t*>(&page().failure);
  if (word == 0 || segments_->poisoned().status != NVRAR_OK) [[likely]]
    return;
  const std::lock_guard lock(failure_mutex_);
  if (segments_->poisoned().status != NVRAR_OK) return;
  const DeviceFailure failure = DeviceFailure::unpack(word);
  const LoggedLaunch launch = log_.find(failure.tag);
  Poison poison{NVRAR_MISMATCH, rank(), static_cast<uint8_t>(failure.ranks), launch.call.sequence};
  if (failure.kind == FailureKind::kTimeout) {
    poison.status = NVRAR_TIMEOUT;
    // Whose header is missing has not come; else it is who was waited for.
    const bool transfers = launch.call.collective == NVRAR_SEND || launch.call.collective == NVRAR_RECV;
    if (const uint8_t late = transfers ? 0 : ranks_not_entered(); late != 0) poison.ranks = late;
  }
  if (failure.kind == FailureKind::kOverrun) poison.status = NVRAR_INTERNAL;
  record_progress(true);
  this->poison(poison);
}

BatchResult CudaMember::failed_transfer() noexcept {
  const host::Poison poison = segments_->poisoned();
  const DeviceFailure failure = DeviceFailure::unpack(page().failure);
  const nvrar_call first = log_.find(failure.tag).call;
  if (poison.origin != rank() || failure.kind != FailureKind::kMismatch || first.transfers == 0) return {};
  // They cross to the host after the failure itself, each at once.
  const auto seen = [](const SeenTransfer& place) {
    const auto type = [&] { return __atomic_load_n(&place.type_and_one, __ATOMIC_ACQUIRE); };
    for (int turns = 0; type() == 0 && turns < kTurnsForPage; ++turns) std::this_thread::sleep_for(kWatchPeriod);
    return protocol::TransferHeader{place.count, place.sequence, static_cast<int32_t>(type()) - 1};
  };
  const protocol::TransferHeader expected = seen(page().expected);
  BatchResult result;
  result.theirs = seen(page().came);
  if (page().came.type_and_one == 0) return {};
  result.status = NVRAR_MISMATCH;
  result.ranks = static_cast<uint8_t>(failure.ranks);
  result.call = first;
  result.call.collective = NVRAR_RECV;
  result.call.root = __builtin_ctz(failure.ranks);
  result.call.sequence = expected.sequence;
  result.call.count = expected.count;
  result.call.data_type = expected.data_type;
  return result;
}

// Of the device's memory, while kernels run. False if the driver refuses.
bool CudaMember::peek(void* to, DeviceAddress from, size_t bytes) noexcept {
  const std::lock_guard lock(peek_mutex_);
  const Driver& cuda = driver();
  void* const scratch = static_cast<uint8_t*>(page_.host()) + kScratchOffset;
  if (cuda.cuCtxPushCurrent_v2(device_->context()) != kSuccess) return false;
  const bool done = cuda.cuMemcpyDtoHAsync_v2(scratch, from, bytes, own_stream_.get()) == kSuccess &&
                    cuda.cuStreamSynchronize(own_stream_.get()) == kSuccess;
  if (done) std::memcpy(to, scratch, bytes);
  Context popped;
  (void)cuda.cuCtxPopCurrent_v2(&popped);
  return done;
}

uint8_t CudaMember::ranks_not_entered() noexcept {
  LatestLaunch latest;
  Packet headers[protocol::kMaxRanks];
  if (!peek(&latest, state_.get() + offsetof(DeviceState, latest), sizeof latest) ||
      !peek(headers, memory_->of(rank()) + RingLayout::header_slot(latest.epoch, 0) * protocol::kPacketBytes,
            world() * sizeof(Packet))) {
    return 0;
  }
  uint8_t missing = 0;
  for (uint32_t source = 0; source < world(); ++source) {
    if (source != rank() && !protocol::EpochPacket::arrived(headers[source], latest.epoch)) {
      missing |= static_cast<uint8_t>(1u << source);
    }
  }
  return missing;
}

void CudaMember::update_record() noexcept { record_progress(segments_->poisoned().status != NVRAR_OK); }

// What the device says of the calls that were queued, so that others see where this rank is. ended: what has not ended
// will not.
void CudaMember::record_progress(bool ended) noexcept {
  const auto look = [&](DeviceState* state) { return peek(state, state_.get(), sizeof *state); };
  const auto left = [](const DeviceState& state) {
    const uint64_t parity = state.latest.epoch % 2;
    return state.blocks_launched[parity] == state.blocks_left[parity];
  };
  const std::lock_guard lock(record_mutex_);
  if (end_recorded_) return;
  // Twice: a launch that has only just begun is not among those of its blocks yet.
  DeviceState before;
  DeviceState state;
  if (!look(&before) || !look(&state)) return;
  end_recorded_ = ended;
  record_transfers_done();
  const auto given_up = static_cast<uint32_t>(state.poison >> 32);
  const auto tag = given_up != 0 ? given_up : static_cast<uint32_t>(state.latest.tag);
  const bool done = given_up == 0 && left(before) && left(state) && before.latest.epoch == state.latest.epoch;
  auto& flight = segments_->own().flight;
  const auto all_done_up_to = [&](uint64_t number) {
    for (; known_done_ < number; ++known_done_) flight.end(known_done_, NVRAR_CALL_DONE);
  };
  const LoggedLaunch launch = log_.find(tag);
  if (tag != 0 && launch.records == 0) {  // of a graph: which calls were queued before it is not known
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
  for (uint32_t i = 0; i < launch.records; ++i) flight.end(launch.first_record + i, now);
}

void CudaMember::note_queued(const QueuedTransfer& transfer) {
  const std::lock_guard lock(record_mutex_);
  if (queued_transfers_.size() == NVRAR_FLIGHT_RECORDS) queued_transfers_.pop_front();  // nor is its record there
  queued_transfers_.push_back(transfer);
}

// Those that were captured count on the device at each launch of their graph, and here once: then one that is still
// queued may pass for done.
void CudaMember::record_transfers_done() noexcept {
  if (queued_transfers_.empty()) return;
  std::array<PairState, 2 * protocol::kMaxRanks> pairs;
  if (!peek(pairs.data(), pairs_.get(), sizeof pairs)) return;
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
  std::unique_lock lock(watch_mutex_);
  while (!watch_ends_.wait_for(lock, kWatchPeriod, [&] { return ends_; })) {
    if (poisoned().status != NVRAR_OK && !stopped_.load(std::memory_order_acquire)) stop_kernels();
  }
}

// Kernels that wait look at the page, those that come at the state.
void CudaMember::stop_kernels() noexcept {
  record_progress(true);
  *const_cast<volatile uint32_t*>(&page().abort) = 1;
  const Driver& cuda = driver();
  if (cuda.cuCtxPushCurrent_v2(device_->context()) != kSuccess) return;
  const Result told = cuda.cuMemsetD32Async(state_.get() + offsetof(DeviceState, poison), 1, 1, own_stream_.get());
  Context popped;
  (void)cuda.cuCtxPopCurrent_v2(&popped);
  if (told == kSuccess) stopped_.store(true, std::memory_order_release);
}

// All that was enqueued on the device, the caller's work too: what of it is this member's is not known.
bool CudaMember::quiet(uint64_t limit_ns) noexcept {
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> ended = done->get_future();
  try {
    std::thread([device = device_, done]() mutable {
      const Driver& cuda = driver();
      if (cuda.cuCtxPushCurrent_v2(device->context()) == kSuccess) {
        (void)cuda.cuCtxSynchronize();  // an error of the caller's work is the caller's
        Context popped;
        (void)cuda.cuCtxPopCurrent_v2(&popped);
      }
      device = nullptr;  // before anybody is told that nothing of the member is left
      done->set_value();
    }).detach();
  } catch (const std::system_error&) {  // no thread: then nobody can say
    return false;
  }
  if (ended.wait_for(std::chrono::nanoseconds(limit_ns)) != std::future_status::ready) return false;
  update_record();
  return true;
}

}  // namespace nvrar::cuda
