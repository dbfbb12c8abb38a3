// Fuzzes what a linked rank sends: any bytes, in any pieces, while any runs are taken past the rings. A model of its
// own says what each frame may do; the rings, with the runs that were taken, hold exactly that, and the first frame
// that is refused ends the link.
#include <fuzzer/FuzzedDataProvider.h>
#include <nvrar.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "call/call.h"
#include "link/ring_inbox.h"
#include "link/runs.h"
#include "property.h"
#include "shared/group_segments.h"

namespace nvrar::fuzz {
namespace {

using link::FrameHead;
using link::FrameKind;
using protocol::Hop;
using protocol::PacketKind;

constexpr uint32_t kWorld = 3;  // each on a host of its own
constexpr uint64_t kRingBytes = 8192;
constexpr uint64_t kGroupHash = 17;
constexpr size_t kPoisonBytes = sizeof(uint64_t) + sizeof(RankSet);
constexpr size_t kStateBytes = sizeof(RankSet) + sizeof(uint64_t) + sizeof(nvrar_call);
constexpr size_t kMostBytes = size_t{64} << 10;  // of one attempt, or of one part of it: no socket is full

struct Words {
  uint64_t low;
  uint64_t high;
};
static_assert(sizeof(Words) == protocol::kPacketBytes);

// What a slot is for (protocol.md 2 and 16).
struct Use {
  enum Kind { kNothing, kHeader, kEpoch, kSentinel, kCredit, kTransfers } kind = kNothing;
  uint32_t of = 0;  // the parity of epochs, or the rank that writes
  uint32_t source = 0;
  bool operator==(const Use& other) const = default;
};

std::vector<Use> uses_of(const protocol::RingLayout& layout) {
  std::vector<Use> uses(layout.total_slots());
  const auto mark = [&](uint64_t begin, uint64_t slots, const Use& use) {
    for (uint64_t slot = begin; slot < begin + slots; ++slot) {
      require(uses.at(slot).kind == Use::kNothing, "a slot has one use");
      uses[slot] = use;
    }
  };
  for (uint32_t parity = 0; parity < protocol::kParities; ++parity) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      mark(protocol::RingLayout::header_slot(parity, rank), 1, {Use::kHeader, parity, rank});
    }
    for (const Hop hop : {Hop::kData, Hop::kResult, Hop::kExchange}) {
      mark(layout.area_begin(PacketKind::kEpoch, parity, hop), layout.area_slots(PacketKind::kEpoch),
           {Use::kEpoch, parity});
      mark(layout.area_begin(PacketKind::kSentinel, parity, hop), layout.area_slots(PacketKind::kSentinel),
           {Use::kSentinel, parity});
    }
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    mark(layout.credit_slot(rank), 1, {Use::kCredit, rank});
    mark(layout.transfer_ring_begin(rank), layout.transfer_ring_slots(), {Use::kTransfers, rank});
  }
  return uses;
}

void store_packets(Words* rings, Use::Kind kind, uint64_t slot, const uint8_t* payload, uint64_t bytes,
                   uint64_t epoch) {
  const uint64_t packet_bytes = kind == Use::kSentinel ? 16 : 8;
  for (uint64_t at = 0; at < bytes; at += packet_bytes, ++slot) {
    Words words{0, kind == Use::kSentinel ? 0 : epoch};
    std::memcpy(&words, payload + at, std::min(packet_bytes, bytes - at));
    if (kind == Use::kSentinel && words.high >> 32 == 0xFFFFFFFF) words.high -= uint64_t{1} << 32;
    rings[slot] = words;
  }
}

// What the rank that receives should do.
class Expected {
 public:
  Expected(const std::vector<Use>* uses, uint32_t source, std::vector<Words> rings)
      : rings_(std::move(rings)), uses_(uses), source_(source) {}

  void take(const uint8_t* bytes, size_t count) {
    if (ended) return;
    waiting_.insert(waiting_.end(), bytes, bytes + count);
    size_t at = 0;
    while (!ended && waiting_.size() - at >= sizeof(FrameHead)) {
      FrameHead head;
      std::memcpy(&head, waiting_.data() + at, sizeof head);
      ended = head.number != frames_ || (head.stride != 0 && static_cast<uint16_t>(head.kind) != 1) ||
              head.bytes > link::most_payload_bytes(head.kind);
      if (ended || waiting_.size() - at - sizeof head < head.bytes) break;
      ended = !does(head, waiting_.data() + at + sizeof head);
      if (ended) break;
      ++frames_;
      at += sizeof head + head.bytes;
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(at));
  }

  // With the first bytes of a frame of which no more was used.
  std::vector<Words> rings(uint64_t bytes) const {
    std::vector<Words> rings = rings_;
    if (bytes != 0) {
      FrameHead head;
      std::memcpy(&head, waiting_.data(), sizeof head);
      const Use::Kind kind = (*uses_)[head.slot].kind;
      store_runs(rings.data(), kind, head, waiting_.data() + sizeof head, bytes);
    }
    return rings;
  }
  const std::vector<Words>& rings() const { return rings_; }
  // The frame that has not arrived whole was refused.
  void refuse() {
    FrameHead head;
    require(!ended && waiting_.size() >= sizeof head, "a frame is refused for its head");
    std::memcpy(&head, waiting_.data(), sizeof head);
    const std::vector<uint8_t> any(head.bytes);
    ended = !does(head, any.data());
  }
  uint32_t frames() const { return frames_; }

  uint64_t epoch = 0;
  bool ended = false;
  bool closed = false;
  bool poisoned = false;
  size_t answers = 0;

 private:
  bool all(uint64_t slot, uint64_t packets, const Use& use) const {
    for (uint64_t i = slot; i < slot + packets; ++i) {
      if (i >= uses_->size() || !((*uses_)[i] == use)) return false;
    }
    return true;
  }
  bool does(const FrameHead& head, const uint8_t* payload) {
    switch (static_cast<uint16_t>(head.kind)) {
      case 1:
        return packets(head, payload);
      case 2:
        return numbered(head, payload);
      case 3:
        answers += head.bytes == 0 ? 1 : 0;
        return head.bytes == 0;
      case 4:
        return head.bytes == kStateBytes;
      case 5: {
        if (head.bytes != kPoisonBytes) return false;
        const uint32_t origin = payload[1] | uint32_t{payload[2]} << 8;
        const bool fails = origin < kWorld && std::any_of(payload, payload + 8, [](uint8_t byte) { return byte != 0; });
        poisoned = poisoned || fails;
        return fails;
      }
      case 6:
        closed = closed || head.bytes == 0;
        return head.bytes == 0;
      default:
        return false;
    }
  }
  bool packets(const FrameHead& head, const uint8_t* payload) {
    if (head.bytes == 0 || (head.epoch != epoch && head.epoch != epoch + 1)) return false;
    const auto parity = static_cast<uint32_t>(head.epoch % 2);
    if (head.stride != 0 && head.stride < 32) return false;
    const uint64_t by_8 = (head.bytes + 7) / 8;
    const uint64_t by_16 = (head.bytes + 15) / 16;
    const auto slot_of = [&](uint64_t packet) {
      return head.slot + (head.stride == 0 ? packet : packet / 32 * head.stride + packet % 32);
    };
    const auto all_packets = [&](uint64_t packets, const Use& use) {
      for (uint64_t i = 0; i < packets; ++i) {
        if (!all(slot_of(i), 1, use)) return false;
      }
      return true;
    };
    const bool header = by_8 == 1 && all(head.slot, 1, {Use::kHeader, parity, source_});
    const bool by_epoch = header || all_packets(by_8, {Use::kEpoch, parity});
    if (!by_epoch && !all_packets(by_16, {Use::kSentinel, parity})) return false;
    store_runs(rings_.data(), by_epoch ? Use::kEpoch : Use::kSentinel, head, payload, head.bytes);
    return true;
  }
  static void store_runs(Words* rings, Use::Kind kind, const FrameHead& head, const uint8_t* payload, uint64_t bytes) {
    const uint64_t run_bytes = head.stride == 0 ? bytes : 32 * (kind == Use::kSentinel ? 16 : 8);
    for (uint64_t at = 0, slot = head.slot; at < bytes; at += run_bytes, slot += head.stride) {
      store_packets(rings, kind, slot, payload + at, std::min(run_bytes, bytes - at), head.epoch);
    }
  }
  bool numbered(const FrameHead& head, const uint8_t* payload) {
    const uint64_t packets = head.bytes / 8;
    if (packets == 0 || head.bytes % 8 != 0) return false;
    const bool credit = packets == 1 && all(head.slot, 1, {Use::kCredit, source_});
    if (!credit && !all(head.slot, packets, {Use::kTransfers, source_})) return false;
    for (uint64_t i = 0; i < packets; ++i) {
      std::memcpy(&rings_[head.slot + i].low, payload + 8 * i, 8);
      rings_[head.slot + i].high = head.epoch + i;
    }
    return true;
  }

  std::vector<Words> rings_;
  const std::vector<Use>* uses_;
  uint32_t source_;
  uint32_t frames_ = 0;
  std::vector<uint8_t> waiting_;
};

// A member that lives for all attempts; its rings are new for each.
struct Stage {
  protocol::RingLayout layout{kRingBytes, {kWorld, 1}};
  std::vector<Use> uses = uses_of(layout);
  shared::GroupSegments segments{0, kWorld, kGroupHash, &layout};
  link::RingInbox remote{kWorld, "127.0.0.1", 0, 0, false};
  std::vector<Words> pristine{layout.total_slots()};

  Stage() {
    segments.map_peers(std::vector<shared::SegmentAddress>(kWorld), RankSet::of_first(0b110));
    std::memcpy(pristine.data(), segments.rings(0), layout.total_bytes());
  }
  void renew() {
    std::memcpy(static_cast<void*>(segments.rings(0)), pristine.data(), layout.total_bytes());
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      new (&segments.control(rank).poison) shared::SharedPoison;
      segments.control(rank).closed.store(0);
    }
    remote.open(&segments, layout);
  }
};

// A frame that is right but for some fields.
void append_frame(FuzzedDataProvider& input, const Stage& stage, uint32_t source, const Expected& now,
                  uint32_t frames_waiting, std::vector<uint8_t>* out) {
  constexpr std::array kSizes{0u,  1u,   7u,   8u,    9u,     16u,    static_cast<uint32_t>(kPoisonBytes),
                              24u, 256u, 512u, 4096u, 16384u, 16385u, static_cast<uint32_t>(kStateBytes)};
  FrameHead head{};
  head.bytes = input.ConsumeBool() ? input.PickValueInArray(kSizes) : input.ConsumeIntegralInRange<uint32_t>(0, 4200);
  head.kind = static_cast<FrameKind>(input.ConsumeIntegralInRange<uint16_t>(0, 7));
  head.number = now.frames() + frames_waiting;
  head.epoch = now.epoch + input.ConsumeIntegralInRange<uint64_t>(0, 3) - 1;
  const uint64_t parity = head.epoch % 2;
  const std::array<uint64_t, 9> begins{protocol::RingLayout::header_slot(parity, source),
                                       stage.layout.area_begin(PacketKind::kEpoch, parity, Hop::kData),
                                       stage.layout.area_begin(PacketKind::kEpoch, parity, Hop::kExchange),
                                       stage.layout.area_begin(PacketKind::kSentinel, parity, Hop::kData),
                                       stage.layout.area_begin(PacketKind::kSentinel, parity, Hop::kExchange),
                                       stage.layout.credit_slot(source),
                                       stage.layout.transfer_ring_begin(source),
                                       stage.layout.transfer_ring_begin(source) + stage.layout.transfer_ring_slots(),
                                       stage.layout.total_slots()};
  if (head.kind == FrameKind::kPackets) head.stride = input.PickValueInArray<uint16_t>({0, 32, 64, 96, 31});
  head.slot = static_cast<uint32_t>(input.PickValueInArray(begins)) + input.ConsumeIntegral<uint32_t>() % 64 - 8;
  switch (input.ConsumeIntegralInRange(0, 15)) {
    case 0:
      head.number = input.ConsumeIntegral<uint32_t>();
      break;
    case 1:
      head.stride = input.ConsumeIntegral<uint16_t>();
      break;
    case 2:
      head.epoch = input.ConsumeIntegral<uint64_t>();
      break;
    case 3:
      head.slot = input.ConsumeIntegral<uint32_t>();
      break;
    case 4:
      head.kind = static_cast<FrameKind>(input.ConsumeIntegral<uint16_t>());
      break;
    case 5:
      head.bytes = input.ConsumeIntegral<uint32_t>();
      break;
    default:
      break;
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&head);
  out->insert(out->end(), bytes, bytes + sizeof head);
  const auto first = input.ConsumeBytes<uint8_t>(input.ConsumeIntegralInRange<size_t>(0, 24));
  const auto rest = input.ConsumeIntegral<uint8_t>();
  for (uint32_t i = 0; i < std::min<uint32_t>(head.bytes, 17000); ++i)
    out->push_back(i < first.size() ? first[i] : rest);
}

// Gives the rings what arrives, and knows how much of a frame was taken past them.
class Taker : public link::Inbox {
 public:
  // choices: where frames go.
  Taker(link::RingInbox* remote, uint64_t choices) : remote_(remote), choices_(choices) {}

  link::Destination where(link::Link& from, const FrameHead& head) noexcept override {
    require(!is_open_, "the inbox is asked once for each frame");
    if (holds_ == 0) holds_ = 1 + next() % 4;
    if (--holds_ != 0) return link::Destination::later();
    const link::Destination to = remote_->where(from, head);
    refused_ = to.kind == link::Destination::Kind::kRefused;
    left_ = refused_ ? 0 : head.bytes;
    is_open_ = !refused_;
    if (refused_ || next() % 4 != 0) return to;
    memory_.assign(head.bytes + kGuardBytes, kGuard);
    return link::Destination::to(memory_.data());
  }
  const char* take(link::Link& from, const FrameHead& head, const uint8_t* payload) noexcept override {
    require(taken_ == 0 || left_ == head.bytes, "what is left of a frame follows what was taken");
    const char* const why = remote_->take(from, head, payload);
    if (!memory_.empty()) {
      require(payload == memory_.data() &&
                  std::all_of(memory_.end() - kGuardBytes, memory_.end(), [](uint8_t byte) { return byte == kGuard; }),
              "a payload is in its memory, and nowhere else");
      memory_.clear();
    }
    if (why == nullptr) taken_ = 0;
    is_open_ = false;
    return why;
  }
  void broke(uint32_t /*source*/) noexcept override {}
  void settled() noexcept override {}

  void took(uint32_t bytes) {
    require(bytes <= left_, "a run is of its frame");
    left_ -= bytes;
    taken_ = left_ == 0 ? 0 : taken_ + bytes;
    is_open_ = left_ != 0;
  }
  // Whether it has not said yet where a frame goes.
  bool holds() const { return holds_ != 0; }
  // Of a frame that has not ended.
  uint32_t taken() const { return taken_; }
  // Whether a frame was refused for its head, before the rest had to be there.
  bool has_refused() const { return refused_; }

 private:
  static constexpr int kGuardBytes = 64;
  static constexpr uint8_t kGuard = 0xA5;

  uint64_t next() {
    choices_ = choices_ * 6364136223846793005u + 1442695040888963407u;
    return choices_ >> 33;
  }

  link::RingInbox* remote_;
  uint64_t choices_;
  uint64_t holds_ = 0;
  bool is_open_ = false;
  std::vector<uint8_t> memory_;
  bool refused_ = false;
  uint32_t taken_ = 0;
  uint32_t left_ = 0;
};

// Runs that the rank waits for, one after the other.
struct Wanted {
  Use::Kind kind = Use::kNothing;
  uint64_t slot = 0;
  uint64_t stride = 0;
  uint32_t bytes = 0;
  uint32_t runs = 0;
};

class Attempt {
 public:
  Attempt(Stage& stage, FuzzedDataProvider& input)
      : stage_(stage),
        taker_(&stage.remote, input.ConsumeIntegral<uint64_t>()),
        source_(input.ConsumeIntegralInRange<uint32_t>(1, kWorld - 1)),
        expected_(&stage.uses, source_, stage.pristine) {
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets can be made");
    far_ = FileDescriptor(ends[0]);
    link_.emplace(source_, 0, FileDescriptor(ends[1]), nullptr, nullptr, &taker_);
    stage.renew();
    constexpr std::array<uint64_t, 4> kEpochs{0, 1, 0xFFFFFFFE, ~uint64_t{0} - 2};
    enter(input.PickValueInArray(kEpochs));
  }

  void run(FuzzedDataProvider& input) {
    while (input.remaining_bytes() != 0 && given_ < kMostBytes) {
      switch (input.ConsumeIntegralInRange(0, 8)) {
        case 0:
          enter(expected_.epoch + 1);
          break;
        case 1: {
          const auto raw = input.ConsumeBytes<uint8_t>(input.ConsumeIntegralInRange<size_t>(0, 64));
          waiting_.insert(waiting_.end(), raw.begin(), raw.end());
          break;
        }
        case 2:
          give(waiting_.size());
          break;
        case 3:
          give(std::min(waiting_.size(), input.ConsumeIntegralInRange<size_t>(0, 128)));
          break;
        case 8:
          want(input);
          break;
        default:
          append_frame(input, stage_, source_, expected_, frames_waiting_++, &waiting_);
          break;
      }
    }
    give(waiting_.size());
    require_answers();
    cut();
  }

 private:
  void enter(uint64_t epoch) {
    wanted_ = {};
    expected_.epoch = epoch;
    stage_.remote.enter(epoch);
  }
  void give(size_t count) {
    if (count == waiting_.size()) frames_waiting_ = 0;
    given_ += count;
    // In parts, because the frames that wait can be more than a socket holds.
    for (size_t sent = 0; !has_ended_ && sent < count;) {
      const size_t part = std::min(count - sent, kMostBytes);
      require(::send(far_.get(), waiting_.data() + sent, part, MSG_NOSIGNAL) == static_cast<ssize_t>(part),
              "a socket takes an attempt");
      expected_.take(waiting_.data() + sent, part);
      take_runs();
      if (!has_ended_) receive();
      sent += part;
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
    require_as_expected();
  }
  void want(FuzzedDataProvider& input) {
    wanted_.kind = input.ConsumeBool() ? Use::kEpoch : Use::kSentinel;
    const PacketKind kind = wanted_.kind == Use::kEpoch ? PacketKind::kEpoch : PacketKind::kSentinel;
    const uint64_t begin = stage_.layout.area_begin(kind, expected_.epoch % 2, Hop::kData);
    const uint64_t slots = stage_.layout.hops() * stage_.layout.area_slots(kind);
    const auto from = input.ConsumeIntegralInRange<uint64_t>(0, slots - 32);
    wanted_.slot = begin + (input.ConsumeBool() ? from : from / 32 * 32);
    wanted_.stride = input.PickValueInArray<uint64_t>({32, 64, 96});
    wanted_.bytes = input.ConsumeBool() ? run_bytes() : input.ConsumeIntegralInRange(1u, run_bytes());
    wanted_.runs = std::min<uint32_t>(input.ConsumeIntegralInRange(1u, 40u),
                                      static_cast<uint32_t>((begin + slots - 32 - wanted_.slot) / wanted_.stride + 1));
  }
  uint32_t run_bytes() const { return wanted_.kind == Use::kEpoch ? 256 : 512; }
  // Stores what it takes where it would have been.
  void take_runs() {
    bool more = true;
    while (more) {
      if (!link_->fill(&more)) return ended();
      while (wanted_.runs != 0) {
        const link::WantedRun wanted{wanted_.slot, expected_.epoch, wanted_.bytes, run_bytes()};
        uint64_t bytes = 0;
        const uint8_t* runs = nullptr;
        if (wanted_.runs % 2 == 0) {
          runs = link::take_following(*link_, wanted, wanted_.stride, uint64_t{wanted_.runs} * wanted_.bytes, &bytes);
        }
        if (runs == nullptr) {
          bytes = wanted_.bytes;
          runs = link::take_next_run(*link_, wanted);
        }
        bool took = false;
        if (runs == nullptr && !link::take_run(*link_, wanted, &took, &runs)) return ended();
        if (runs == nullptr) break;
        taker_.took(static_cast<uint32_t>(bytes));
        for (uint64_t at = 0; at < bytes; at += wanted_.bytes, --wanted_.runs, wanted_.slot += wanted_.stride) {
          store_packets(static_cast<Words*>(static_cast<void*>(stage_.segments.rings(0))), wanted_.kind, wanted_.slot,
                        runs + at, wanted_.bytes, expected_.epoch);
        }
      }
    }
  }
  void receive() {
    bool took = false;
    do {
      if (!link_->receive(&took)) return ended();
    } while (taker_.holds());
  }
  void ended() {  // as Links does
    has_ended_ = true;
    bool took = false;
    (void)link_->give(&took, [] { return false; });
    link_->end();
    stage_.remote.broke(source_);
  }
  void require_as_expected() {
    if (taker_.has_refused() && !expected_.ended) expected_.refuse();
    require(has_ended_ == expected_.ended, "a link ends with the first frame that is refused, and not before");
    const auto holds = [&](const std::vector<Words>& rings) {
      return std::memcmp(stage_.segments.rings(0), rings.data(), stage_.layout.total_bytes()) == 0;
    };
    require(taker_.taken() == 0 ? holds(expected_.rings()) : holds(expected_.rings(taker_.taken())),
            "the rings hold what the frames allow");
    const bool breaks = has_ended_ && !expected_.closed;
    require((stage_.segments.poisoned().status != NVRAR_OK) == (expected_.poisoned || breaks),
            "a group fails by a failure or a broken link");
    require(stage_.segments.closed(source_) == expected_.closed, "a rank that says goodbye has left");
    require(!stage_.segments.closed(3 - source_) && !stage_.segments.closed(0), "no other rank has left");
    require_sentence(describe(stage_.segments.call_of(source_)).c_str());
  }
  void require_answers() {
    static std::array<uint8_t, size_t{64} << 10> room;
    size_t bytes = 0;
    for (ssize_t got = 0; (got = ::recv(far_.get(), room.data(), room.size(), MSG_DONTWAIT)) > 0;) {
      bytes += static_cast<size_t>(got);
    }
    require(bytes == expected_.answers * (sizeof(FrameHead) + kStateBytes),
            "each question has one answer, and nothing else has");
  }
  void cut() {
    far_ = FileDescriptor();
    if (has_ended_) return;
    receive();
    expected_.ended = true;
    require_as_expected();
  }

  Stage& stage_;
  Taker taker_;
  Wanted wanted_;
  uint32_t source_;
  Expected expected_;
  FileDescriptor far_;
  std::optional<link::Link> link_;
  std::vector<uint8_t> waiting_;  // to be given
  uint32_t frames_waiting_ = 0;
  size_t given_ = 0;
  bool has_ended_ = false;
};

}  // namespace
}  // namespace nvrar::fuzz

// The buffers of a link are large: to keep many of them after their end would halve the speed.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=1"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static nvrar::fuzz::Stage stage;
  FuzzedDataProvider input(data, size);
  nvrar::fuzz::Attempt attempt(stage, input);
  attempt.run(input);
  return 0;
}
