#include "cuda/proxy/proxy.h"

#include <unistd.h>

#include <algorithm>
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
// The thread looks all the time until nothing has happened for so long, and then now and then: a launch that another
// program makes of a graph is found by that.
constexpr uint64_t kSpinNs = 2'000'000;
constexpr int kPauseMs = 2;
// A kernel's epoch is known to its proxy within microseconds.
constexpr uint64_t kLateNs = kNsPerSecond;
constexpr useconds_t kLeavePollUs = 50;
constexpr uint32_t kLooksBetweenClocks = 64;
constexpr uint32_t kLooksBetweenScans = 16;

uint64_t load(const uint64_t& word) noexcept { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
void store(uint64_t* word, uint64_t value) noexcept { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

}  // namespace

Proxy::~Proxy() {
  stop(0, [] { return true; });
}

void Proxy::start(shared::GroupSegments* segments, const CrossingLayout& layout, uint8_t* arena, const Digest& secret,
                  const std::vector<link::Remote>& remotes, uint64_t deadline_ns, uint32_t connections) {
  layout_ = layout;
  arena_ = arena;
  late_since_ns_.assign(layout.world, 0);
  const uint64_t before_first = protocol::first_epoch() - 1;
  store(&page().epoch, before_first);
  for (uint32_t rank = 0; rank < layout_.world; ++rank) {
    for (const uint64_t epoch : {before_first, before_first - 1}) {
      store(&source(epoch, rank).word, protocol::SourceLine::of(epoch, 0, false));
    }
  }
  queues_.resize(remotes.size() * connections);
  for (size_t i = 0; i < queues_.size(); ++i) {
    queues_[i].rank = remotes[i % remotes.size()].rank;
    queues_[i].connection = static_cast<uint32_t>(i / remotes.size());
  }
  talk_.open(segments);
  talk_.connect(secret, remotes, deadline_ns, this, link::LinksOwner::kCaller, connections);
  try {
    const SignalsBlocked inherited;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error(NVRAR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
}

void Proxy::stop(uint64_t limit_ns, const std::function<bool()>& ended) noexcept {
  if (!thread_.joinable()) return;
  leaves_.store(true, std::memory_order_release);
  talk_.links().wake();
  const uint64_t until_ns = monotonic_ns() + limit_ns;
  while (!has_sent_all_.load(std::memory_order_acquire) && !ended() && monotonic_ns() < until_ns) {
    ::usleep(kLeavePollUs);
  }
  talk_.links().leave(limit_ns, ended);
  ends_.store(true, std::memory_order_release);
  talk_.links().wake();
  thread_.join();
}

void Proxy::wake() noexcept {
  if (!awake_.exchange(true, std::memory_order_acq_rel)) talk_.links().wake();
}

Proxy::Heard Proxy::heard_of(uint32_t rank, uint64_t epoch) const noexcept {
  using protocol::SourceLine;
  const uint64_t word = load(source(epoch, rank).word);
  const bool has_entered = SourceLine::has_entered(word, epoch);
  return {has_entered, has_entered && SourceLine::node_is_here(word)};
}

// Finds the lines whose bells have rung, among the first so many chunks. Returns whether there were any.
bool Proxy::find_due(uint32_t chunks) noexcept {
  bool found = false;
  for (uint32_t parity = 0; parity < 2; ++parity) {
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const auto& line = *reinterpret_cast<const ChunkLine*>(arena_ + CrossingLayout::line(parity, chunk));
      uint64_t& sent = sent_[parity * kMostChunks + chunk];
      const uint64_t epoch = load(line.bell);
      if (epoch == sent) [[likely]]
        continue;
      sent = epoch;
      found = true;
      chunks_ = static_cast<uint32_t>(std::min<uint64_t>(line.lines, kMostChunks));
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
      const uint32_t connection = chunk % talk_.links().connections();
      for (Queue& queue : queues_) {
        const bool is_for_it = queue.connection == connection && (to >> queue.rank & 1) != 0;
        if (is_for_it) queue.due[queue.end++ % kLines] = message;
      }
    }
  }
  return found;
}

// Sends what the sockets take. Returns whether there was something to send.
bool Proxy::send_due() noexcept {
  bool had = false;
  for (Queue& queue : queues_) {
    link::Link* const link = talk_.links().to(queue.rank, queue.connection);
    for (; queue.begin != queue.end && !link->is_behind(); ++queue.begin) {
      link->lend(queue.due[queue.begin % kLines]);
      link->flush();
      had = true;
    }
  }
  return had;
}

bool Proxy::has_nothing_due() const noexcept {
  return std::all_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.begin == queue.end; });
}

void Proxy::run() noexcept {
  link::Links& links = talk_.links();
  links.begin_call();
  uint64_t busy_ns = monotonic_ns();
  for (uint32_t looks = 1; !ends_.load(std::memory_order_acquire); ++looks) {
    bool busy = find_due(looks % kLooksBetweenScans == 0 ? kMostChunks : chunks_);
    busy = send_due() || busy;
    const bool is_last = leaves_.load(std::memory_order_acquire) && !has_sent_all_.load(std::memory_order_relaxed);
    if (is_last && !find_due(kMostChunks) && !send_due()) has_sent_all_.store(has_nothing_due());
    busy = links.look_in_call() || busy;
    if (busy) awake_.store(true, std::memory_order_relaxed);
    if (looks % kLooksBetweenClocks != 0) continue;
    const uint64_t now_ns = monotonic_ns();
    if (awake_.exchange(false, std::memory_order_acq_rel)) busy_ns = now_ns;
    const auto may_pause = [&] { return !awake_.load() && !leaves_.load() && !find_due(kMostChunks); };
    while (now_ns - busy_ns > kSpinNs && may_pause()) {
      if (links.wait(kPauseMs) || links.look_in_call()) break;  // a frame may have waited for the kernel's epoch
    }
  }
  links.end_call();
}

Destination Proxy::where(link::Link& from, const FrameHead& head) noexcept {
  if (head.kind == FrameKind::kPackets || head.kind == FrameKind::kNumbered) {
    return Destination::refused("packets for rings, which a GPU's proxy has not");
  }
  if (head.kind != FrameKind::kChunk) return Destination::link();
  if ((head.slot & ~kNodeIsHere) >= kMostChunks) return Destination::refused("a chunk that no launch has");
  if (head.offset % protocol::kPacketBytes != 0 || uint64_t{head.offset} + head.bytes > layout_.area_bytes) {
    return Destination::refused("a chunk that lies outside the inbox");
  }
  // No rank is more than one epoch ahead, and none sends behind a launch that this one has left.
  const uint64_t ahead = head.epoch - load(page().epoch);
  if (ahead <= 1) {
    late_since_ns_[from.peer()] = 0;
    return Destination::to(arena_ + layout_.inbox(head.epoch, from.peer()) + head.offset);
  }
  if (ahead > uint64_t{1} << 63) return Destination::refused("a chunk of a launch that is over");
  const uint64_t now_ns = monotonic_ns();
  uint64_t& since_ns = late_since_ns_[from.peer()];
  if (since_ns == 0) since_ns = now_ns;
  if (now_ns - since_ns > kLateNs) return Destination::refused("a chunk of a launch that is far ahead");
  return Destination::later();
}

const char* Proxy::take(link::Link& from, const FrameHead& head, const uint8_t* payload) noexcept {
  if (head.kind != FrameKind::kChunk) return talk_.take(from, head, payload);
  // With the first chunk that comes, whichever it is, so that another call is found early.
  uint64_t& word = source(head.epoch, from.peer()).word;
  const bool node_is_here = (head.slot & kNodeIsHere) != 0;
  if (node_is_here || !protocol::SourceLine::has_entered(word, head.epoch)) {
    store(&word, protocol::SourceLine::of(head.epoch, head.hash, node_is_here));
  }
  const uint32_t chunk = head.slot & ~kNodeIsHere;
  store(reinterpret_cast<uint64_t*>(arena_ + layout_.signal(head.epoch, from.peer(), chunk)), head.epoch);
  return nullptr;
}

}  // namespace nvrar::cuda
