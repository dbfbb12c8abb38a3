#include "cuda/proxy/proxy.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <system_error>

#include "common/error.h"
#include "common/tick_clock.h"
#include "common/watched.h"

namespace nvrar::cuda {
namespace {

using link::Destination;
using link::FrameHead;
using link::FrameKind;
using protocol::ChunkLine;
using protocol::CrossingLayout;
using protocol::kMostChunks;

// A chunk's number in a frame's `slot`, and beside it ChunkLine::node_is_here.
constexpr uint32_t kNodeIsHere = uint32_t{1} << 31;
// Instead of a chunk's number: the frame has payloads of transfers, or none and is a credit. Its `epoch` is the number
// of the first packet, or of those that were read.
constexpr uint32_t kTransfer = uint32_t{1} << 30;
constexpr uint32_t kCredit = kTransfer | 1;
constexpr uint64_t kPayloadBytes = sizeof(uint64_t);
// How often a thread looks that does not look all the time: a launch that another program makes of a graph is found by
// that.
constexpr int kPauseMs = 2;
// After so many pauses in a row they are longer: a process may have many groups that nobody uses.
constexpr uint32_t kShortPauses = 250;
constexpr int kLongPauseMs = 4;
// A kernel's epoch is known to its proxy within microseconds.
constexpr uint64_t kLateNs = kNsPerSecond;
constexpr useconds_t kLeavePollUs = 50;
constexpr uint32_t kLooksBetweenClocks = 64;
// A collective of another kind may have its first line where the latest launches had none.
constexpr uint32_t kLooksBetweenScans = 16;
constexpr uint32_t kLooksBetweenAllLinks = 64;

uint64_t load(const uint64_t& word) noexcept { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
void store(uint64_t* word, uint64_t value) noexcept { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

}  // namespace

Proxy::Budget Proxy::Budget::of(uint32_t largest_node, uint32_t wanted_threads, uint64_t spin_ns) noexcept {
  Budget budget{.spin_ns = spin_ns};
  budget.connections = std::bit_floor(std::max(kMost / largest_node, 1u));
  budget.threads = std::bit_floor(std::clamp(wanted_threads, 1u, budget.connections));
  return budget;
}

Proxy::~Proxy() {
  stop(0, [] { return true; });
}

void Proxy::start(shared::GroupSegments* segments, const CrossingLayout& layout, uint8_t* arena, const Digest& secret,
                  const std::vector<link::Remote>& remotes, uint64_t deadline_ns, const Budget& budget) {
  layout_ = layout;
  arena_ = arena;
  budget_ = budget;
  own_ = &segments->own();
  const uint64_t before_first = protocol::first_epoch() - 1;
  store(&page().epoch, before_first);
  due_ = before_first;
  for (uint32_t rank = 0; rank < layout_.world; ++rank) {
    for (const uint64_t epoch : {before_first, before_first - 1}) {
      store(&source(epoch, rank).word, protocol::SourceLine::of(epoch, 0, false));
    }
  }
  for (uint32_t i = 0; i < budget.threads; ++i) {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.index = i;
    for (uint32_t connection = i; connection < budget.connections; connection += budget.threads) {
      for (const link::Remote& remote : remotes) {
        Queue& queue = worker.queues.emplace_back();
        queue.rank = remote.rank;
        queue.connection = connection;
      }
    }
  }
  streams_ = std::vector<Stream>(remotes.size());
  for (size_t i = 0; i < remotes.size(); ++i) streams_[i].rank = remotes[i].rank;
  talk_.open(segments);
  talk_.connect(secret, remotes, deadline_ns, this, link::LinksOwner::kCaller, budget.connections, budget.threads);
  try {
    const SignalsBlocked inherited;
    for (const auto& worker : workers_) worker->thread = std::thread([this, each = worker.get()] { run(each); });
  } catch (const std::system_error& error) {
    throw Error(NVRAR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
}

void Proxy::stop(uint64_t limit_ns, const std::function<bool()>& ended) noexcept {
  const auto running = static_cast<uint32_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->thread.joinable(); }));
  if (running == 0) return;
  leaves_.store(true, std::memory_order_release);
  talk_.links().wake_all();
  const uint64_t until_ns = monotonic_ns() + limit_ns;
  while (have_sent_all_.load(std::memory_order_acquire) < running && !ended() && monotonic_ns() < until_ns) {
    ::usleep(kLeavePollUs);
  }
  talk_.links().leave(limit_ns, ended);
  ends_.store(true, std::memory_order_release);
  talk_.links().wake_all();
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void Proxy::launched(uint64_t due) noexcept {
  if (due != 0) due_.store(due);
  launches_.fetch_add(1);
  // Whoever begins to pause after this sees that there was a launch.
  if (pausing_.load() != 0) talk_.links().wake_all();
}

void Proxy::transfers_launched() noexcept {
  has_transfers_.store(true);
  launched(0);
}

// Whether a kernel that was enqueued has not entered; of a group that has failed none has to.
bool Proxy::is_awaited() const noexcept {
  return static_cast<int64_t>(due_.load(std::memory_order_relaxed) - load(page().epoch)) > 0 && !own_->poison.is_set();
}

bool Proxy::has_rung(const Worker& worker) const noexcept {
  for (uint32_t parity = 0; parity < 2; ++parity) {
    for (uint32_t chunk = worker.index; chunk < kMostChunks; chunk += budget_.threads) {
      const auto& line = *reinterpret_cast<const ChunkLine*>(arena_ + CrossingLayout::line(parity, chunk));
      const uint64_t sent = worker.sent[parity * kMostChunks + chunk].load(std::memory_order_relaxed);
      if (load(line.bell) != sent) return true;
    }
  }
  return false;
}

bool Proxy::has_something_to_send(const Worker& worker) const noexcept {
  const bool has_transfers = worker.index == 0 && has_transfers_.load(std::memory_order_relaxed) && !carries_all();
  return worker.has_due.load(std::memory_order_relaxed) || has_rung(worker) || has_transfers;
}

bool Proxy::stands_still() noexcept {
  bool still = false;
  for (const auto& worker : workers_) {
    const uint64_t looks = worker->looks.load(std::memory_order_relaxed);
    still = still || (looks == worker->looks_before && has_something_to_send(*worker));
    worker->looks_before = looks;
  }
  return still;
}

Proxy::Heard Proxy::heard_of(uint32_t rank, uint64_t epoch) const noexcept {
  using protocol::SourceLine;
  const uint64_t word = load(source(epoch, rank).word);
  const bool has_entered = SourceLine::has_entered(word, epoch);
  return {has_entered, has_entered && SourceLine::node_is_here(word)};
}

// Finds the lines of the thread's connections whose bells have rung, among the first so many chunks. Returns whether
// there were any.
bool Proxy::find_due(Worker* worker, uint32_t chunks) noexcept {
  bool found = false;
  for (uint32_t parity = 0; parity < 2; ++parity) {
    // A chunk's connection, chunk % connections, is one of this thread's.
    for (uint32_t chunk = worker->index; chunk < chunks; chunk += budget_.threads) {
      const auto& line = *reinterpret_cast<const ChunkLine*>(arena_ + CrossingLayout::line(parity, chunk));
      std::atomic<uint64_t>& sent = worker->sent[parity * kMostChunks + chunk];
      const uint64_t epoch = load(line.bell);
      if (epoch == sent.load(std::memory_order_relaxed)) [[likely]]
        continue;
      sent.store(epoch, std::memory_order_relaxed);
      found = true;
      worker->chunks = static_cast<uint32_t>(std::min<uint64_t>(line.lines, kMostChunks));
      link::Message message{};
      message.kind = FrameKind::kChunk;
      message.payload = arena_ + layout_.outbox(epoch) + line.offset;
      message.bytes = line.bytes;
      message.run_bytes = protocol::kMostChunkBytes;
      message.slot = chunk | (line.node_is_here != 0 ? kNodeIsHere : 0);
      message.epoch = epoch;
      message.offset = line.offset;
      message.hash = line.hash;
      const uint64_t to = line.to;
      const uint32_t connection = chunk % budget_.connections;
      for (Queue& queue : worker->queues) {
        const bool is_for_it = queue.connection == connection && (to >> queue.rank & 1) != 0;
        if (!is_for_it) continue;
        queue.due[queue.end++ % kLines] = message;
        worker->has_due.store(true, std::memory_order_relaxed);
      }
    }
  }
  return found;
}

// Sends what the sockets take. Returns whether there was something to send.
bool Proxy::send_due(Worker* worker) noexcept {
  bool had = false;
  for (Queue& queue : worker->queues) {
    link::Link* const link = talk_.links().to(queue.rank, queue.connection);
    for (; queue.begin != queue.end && !link->is_behind(); ++queue.begin) {
      link->lend(queue.due[queue.begin % kLines]);
      link->flush();
      had = true;
    }
  }
  if (had) {
    const bool has_due = std::any_of(worker->queues.begin(), worker->queues.end(),
                                     [](const Queue& queue) { return queue.begin != queue.end; });
    worker->has_due.store(has_due, std::memory_order_relaxed);
  }
  return had;
}

// Sends what the kernels have written of transfers, and tells what they have read. Returns whether there was something.
bool Proxy::carry_transfers() noexcept {
  if (!has_transfers_.load(std::memory_order_relaxed)) return false;
  bool had = false;
  for (Stream& stream : streams_) {
    const protocol::TransferLine& line = transfers(stream.rank);
    link::Link* const link = talk_.links().to(stream.rank);
    link::Message message{};
    message.kind = FrameKind::kChunk;
    message.run_bytes = protocol::kMostChunkBytes;
    const uint64_t written = load(line.written);
    while (stream.sent.load(std::memory_order_relaxed) != written && !link->is_behind()) {
      const uint64_t sent = stream.sent.load(std::memory_order_relaxed);
      const uint64_t slot = sent % protocol::kTransferSlots;
      const uint64_t count =
          std::min({written - sent, protocol::kTransferSlots - slot, protocol::kMostChunkBytes / kPayloadBytes});
      message.slot = kTransfer;
      message.epoch = sent;
      // The sender writes there again only once the peer has read it.
      message.payload = arena_ + layout_.outgoing(stream.rank) + slot * kPayloadBytes;
      message.bytes = count * kPayloadBytes;
      link->lend(message);
      link->flush();
      stream.sent.store(sent + count, std::memory_order_relaxed);
      had = true;
    }
    const uint64_t read = load(line.read);
    if (read == stream.told.load(std::memory_order_relaxed) || link->is_behind()) continue;
    stream.told.store(read, std::memory_order_relaxed);
    message.slot = kCredit;
    message.epoch = read;
    message.payload = arena_;
    message.bytes = 0;
    link->lend(message);
    link->flush();
    had = true;
  }
  return had;
}

bool Proxy::carries_all() const noexcept {
  return std::all_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    const protocol::TransferLine& line = transfers(stream.rank);
    return stream.sent == load(line.written) && stream.told == load(line.read);
  });
}

// At the connections of the first so many chunks.
bool Proxy::look(const Worker& worker, uint32_t chunks) noexcept {
  link::Links& links = talk_.links();
  return worker.index == 0 ? links.look_in_call(chunks) : links.lane(worker.index).look(chunks);
}

// Waits for a socket, a launch or the end, for a moment. launches: that the thread knows of. Returns whether its
// connections have to be looked at.
bool Proxy::pause(const Worker& worker, uint64_t launches, uint32_t pauses) noexcept {
  link::Links& links = talk_.links();
  const int limit_ms = pauses < kShortPauses ? kPauseMs : kLongPauseMs;
  pausing_.fetch_add(1);
  bool wakes = launches_.load() != launches || leaves_.load();
  if (!wakes) wakes = worker.index == 0 ? links.wait(limit_ms) : links.lane(worker.index).set().wait(limit_ms);
  pausing_.fetch_sub(1);
  // A frame that was received may wait for the kernel's epoch.
  return wakes || std::any_of(worker.queues.begin(), worker.queues.end(), [&](const Queue& queue) {
           return links.to(queue.rank, queue.connection)->later_since_ns() != 0;
         });
}

void Proxy::run(Worker* worker) noexcept {
  link::Links& links = talk_.links();
  if (worker->index == 0) links.begin_call();
  uint64_t busy_ns = monotonic_ns();
  uint64_t launches = 0;
  bool has_sent_all = false;
  bool busy = false;
  for (uint64_t looks = 1; !ends_.load(std::memory_order_acquire); ++looks) {
    worker->looks.store(looks, std::memory_order_relaxed);
    busy = find_due(worker, looks % kLooksBetweenScans == 0 ? kMostChunks : worker->chunks) || busy;
    busy = send_due(worker) || busy;
    if (worker->index == 0) busy = carry_transfers() || busy;
    if (!has_sent_all && leaves_.load(std::memory_order_acquire)) {
      has_sent_all = !find_due(worker, kMostChunks) && !send_due(worker) && !worker->has_due.load() &&
                     (worker->index != 0 || !has_transfers_.load() || carries_all());
      if (has_sent_all) have_sent_all_.fetch_add(1, std::memory_order_release);
    }
    // A connection that the latest launches have not used costs a system call, too.
    busy = look(*worker, looks % kLooksBetweenAllLinks == 0 ? kMostChunks : worker->chunks) || busy;
    if (looks % kLooksBetweenClocks != 0) continue;
    const uint64_t now_ns = monotonic_ns();
    const uint64_t launches_now = launches_.load();
    if (busy || launches_now != launches || is_awaited()) busy_ns = now_ns;
    launches = launches_now;
    busy = false;
    for (uint32_t pauses = 0; now_ns - busy_ns > budget_.spin_ns && launches_.load() == launches && !leaves_.load();
         ++pauses) {
      const bool looks_at_links = pause(*worker, launches, pauses);
      worker->looks.store(++looks, std::memory_order_relaxed);
      busy = looks_at_links && look(*worker, kMostChunks);
      busy = find_due(worker, kMostChunks) || busy;
      busy = send_due(worker) || busy;  // a socket may take more by now
      busy = (worker->index == 0 && carry_transfers()) || busy;
      if (busy) break;
    }
  }
  if (worker->index == 0) links.end_call();
}

Destination Proxy::where(link::Link& from, const FrameHead& head) noexcept {
  // Answers are one thread's.
  if (head.kind == FrameKind::kAsk && !is_first(from))
    return Destination::refused("a question beside the first connection");
  if (head.kind == FrameKind::kPackets || head.kind == FrameKind::kNumbered) {
    return Destination::refused("packets for rings, which a GPU's proxy has not");
  }
  if (head.kind != FrameKind::kChunk) return Destination::link();
  if ((head.slot & kTransfer) != 0) return place_of_transfer(from, head);
  if ((head.slot & ~kNodeIsHere) >= kMostChunks) return Destination::refused("a chunk that no launch has");
  if (head.offset % protocol::kPacketBytes != 0 || uint64_t{head.offset} + head.bytes > layout_.area_bytes) {
    return Destination::refused("a chunk that lies outside the inbox");
  }
  // No rank is more than one epoch ahead, and none sends behind a launch that this one has left.
  const uint64_t ahead = head.epoch - load(page().epoch);
  if (ahead <= 1) return Destination::to(arena_ + layout_.inbox(head.epoch, from.peer()) + head.offset);
  if (ahead > uint64_t{1} << 63) return Destination::refused("a chunk of a launch that is over");
  const uint64_t since_ns = from.later_since_ns();
  if (since_ns != 0 && monotonic_ns() - since_ns > kLateNs) {
    return Destination::refused("a chunk of a launch that is far ahead");
  }
  return Destination::later();
}

// Of a rank only what follows what it has sent, and only into slots that the kernels have read.
Destination Proxy::place_of_transfer(const link::Link& from, const FrameHead& head) noexcept {
  if (!is_first(from)) return Destination::refused("a transfer beside the first connection");
  const auto stream =
      std::find_if(streams_.begin(), streams_.end(), [&](const Stream& of) { return of.rank == from.peer(); });
  if (head.slot == kCredit) {
    const bool is_credit = head.bytes == 0 && head.epoch >= stream->credited && head.epoch <= stream->sent;
    return is_credit ? Destination::to(arena_) : Destination::refused("a credit for what was not sent");
  }
  const uint64_t count = head.bytes / kPayloadBytes;
  const uint64_t slot = head.epoch % protocol::kTransferSlots;
  const bool is_next = head.slot == kTransfer && head.bytes % kPayloadBytes == 0 && head.epoch == stream->arrived;
  const uint64_t unread = stream->arrived - load(transfers(from.peer()).read);
  if (!is_next || count == 0 || count > protocol::kTransferSlots - unread || count > protocol::kTransferSlots - slot) {
    return Destination::refused("a transfer out of its turn");
  }
  return Destination::to(arena_ + layout_.incoming(from.peer()) + slot * kPayloadBytes);
}

const char* Proxy::take(link::Link& from, const FrameHead& head, const uint8_t* payload) noexcept {
  // Those of the first connection count. A failure may come by another one while the first is being made.
  const bool is_told_once = head.kind == FrameKind::kGoodbye || head.kind == FrameKind::kState;
  if (is_told_once && !is_first(from)) return nullptr;
  if (head.kind != FrameKind::kChunk) return talk_.take(from, head, payload);
  if ((head.slot & kTransfer) != 0) {
    for (Stream& stream : streams_) {
      if (stream.rank != from.peer()) continue;
      protocol::TransferLine& line = transfers(stream.rank);
      if (head.slot == kCredit) {
        stream.credited = head.epoch;
        store(&line.credited, head.epoch);
      } else {
        stream.arrived += head.bytes / kPayloadBytes;
        store(&line.arrived, stream.arrived);
      }
    }
    return nullptr;
  }
  // With the first chunk that comes, whichever it is, so that another call is found early. Chunks of a launch come to
  // several threads, and that a node is here must not be lost again.
  uint64_t& word = source(head.epoch, from.peer()).word;
  const bool node_is_here = (head.slot & kNodeIsHere) != 0;
  const uint64_t heard = protocol::SourceLine::of(head.epoch, head.hash, node_is_here);
  for (uint64_t was = load(word); node_is_here || !protocol::SourceLine::has_entered(was, head.epoch);) {
    if (__atomic_compare_exchange_n(&word, &was, heard, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
  }
  const uint32_t chunk = head.slot & ~kNodeIsHere;
  store(reinterpret_cast<uint64_t*>(arena_ + layout_.signal(head.epoch, from.peer(), chunk)), head.epoch);
  return nullptr;
}

}  // namespace nvrar::cuda
