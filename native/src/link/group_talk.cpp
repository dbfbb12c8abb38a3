#include "link/group_talk.h"

#include <unistd.h>

#include <cstring>

#include "shared/doorbell.h"
#include "shared/packet_access.h"

namespace nvrar::link {
namespace {

// How long a rank whose group has failed before it was connected tries to tell the others.
constexpr uint64_t kTellNs = 500'000'000;
constexpr useconds_t kLearnPollUs = 100;

}  // namespace

void GroupTalk::connect(const Digest& secret, const std::vector<Remote>& remotes, uint64_t deadline_ns, Inbox* inbox,
                        LinksOwner owner, uint32_t connections, uint32_t lanes) {
  const Identity self{segments_->rank(), segments_->own().group_hash, secret};
  const auto failed = [&] { return segments_->poisoned().status != NVRAR_OK; };
  // The ranks that come within a moment are linked even so, because a link is the only way to tell them.
  uint64_t until_ns = 0;
  const auto ended = [&] {
    if (!failed()) return false;
    const uint64_t now_ns = monotonic_ns();
    if (until_ns == 0) until_ns = now_ns + kTellNs;
    return now_ns >= until_ns;
  };
  try {
    links_.connect(self, remotes, segments_->world(), encrypted_, deadline_ns, ended, inbox, owner, connections, lanes);
  } catch (...) {
    if (failed()) {
      tell(segments_->poisoned());
      links_.leave(kTellNs, [] { return false; });
    }
    links_.give_up();
    throw;
  }
}

void GroupTalk::tell(const shared::Poison& poison) noexcept {
  const State state = own_state();
  const Failure failure{poison.word(), poison.ranks};
  links_.tell_all(FrameKind::kState, &state, sizeof state);
  links_.tell_all(FrameKind::kPoison, &failure, sizeof failure);
}

void GroupTalk::tell_last() noexcept {
  const State state = own_state();
  links_.tell_all(FrameKind::kState, &state, sizeof state);
}

void GroupTalk::ask(const RankSet& awaited) noexcept {
  const RankSet all = RankSet::all(segments_->world());
  RankSet asked = awaited & all;
  for (RankSet open = asked; !open.empty();) {
    RankSet next;
    open.each([&](uint32_t rank) { next |= segments_->control(rank).waits_for.load() & all; });
    open = next - asked;
    asked |= next;
  }
  asked.each([&](uint32_t rank) {
    if (links_.to(rank) != nullptr) links_.tell(rank, FrameKind::kAsk, nullptr, 0);
  });
}

void GroupTalk::learn(uint64_t limit_ns) noexcept {
  const uint64_t question = asked_.fetch_add(1) + 1;
  links_.tell_all(FrameKind::kAsk, nullptr, 0, question);
  const auto all_answered = [&] {
    for (uint32_t rank = 0; rank < segments_->world(); ++rank) {
      if (links_.to(rank) != nullptr && !links_.has_ended(rank) && answered_[rank].load() < question) return false;
    }
    return true;
  };
  // A failure that comes meanwhile says more than the answers.
  const bool had_failed = segments_->own().poison.is_set();
  const auto has_just_failed = [&] { return !had_failed && segments_->own().poison.is_set(); };
  const uint64_t until_ns = monotonic_ns() + limit_ns;
  while (!all_answered() && !has_just_failed() && monotonic_ns() < until_ns) {
    if (links_.look()) settled();
    ::usleep(kLearnPollUs);
  }
}

nvrar_link GroupTalk::link_of(uint32_t rank) const noexcept {
  nvrar_link known{sizeof known, NVRAR_LINK_NONE, "", "", 0, 0};
  const Link* const link = links_.to(rank);
  if (link == nullptr) return known;
  known.state = segments_->closed(rank) ? NVRAR_LINK_CLOSED : link->has_ended() ? NVRAR_LINK_BROKEN : NVRAR_LINK_OPEN;
  link->local().write(known.local, sizeof known.local);
  link->remote().write(known.remote, sizeof known.remote);
  known.asked = asked_.load();
  known.answered = answered_[rank].load();
  return known;
}

GroupTalk::State GroupTalk::own_state() const noexcept {
  const shared::ControlBlock& own = segments_->own();
  State state{};
  state.waits_for = own.waits_for.load();
  const uint64_t looked_ns = own.looked_ns.load(std::memory_order_acquire);  // first: the other is then not before it
  state.looked_ago_ns = monotonic_ns() - looked_ns;
  state.call = segments_->call_of(segments_->rank());
  return state;
}

void GroupTalk::note(uint32_t source, const State& state) noexcept {
  shared::ControlBlock& theirs = segments_->control(source);
  theirs.waits_for.store(state.waits_for);
  const uint64_t now_ns = monotonic_ns();
  theirs.looked_ns.store(state.looked_ago_ns < now_ns ? now_ns - state.looked_ago_ns : 0, std::memory_order_release);
  nvrar_call call = state.call;
  if (call.state < NVRAR_CALL_NONE || call.state > NVRAR_CALL_QUEUED) call.state = NVRAR_CALL_NONE;
  call.begin_ns = call.end_ns = 0;  // by another host's clock, and not when this one was told
  constexpr uint64_t kUntimed = shared::FlightRecord::kUntimed;
  Known& known = known_[source];
  nvrar_call as_before = call;
  as_before.state = known.call.state;
  if (std::memcmp(&as_before, &known.call, sizeof call) != 0) {
    // What the rank was in before has ended, or it would be in it still.
    if (known.call.state != NVRAR_CALL_NONE) theirs.flight.end_unless_failed(known.number, NVRAR_CALL_DONE, kUntimed);
    if (call.state != NVRAR_CALL_NONE) known.number = theirs.flight.begin(call, call.state, kUntimed);
  } else if (call.state != known.call.state) {
    theirs.flight.end(known.number, call.state, kUntimed);
  }
  known.call = call;
}

const char* GroupTalk::take(Link& from, const FrameHead& head, const uint8_t* payload) noexcept {
  const uint32_t source = from.peer();
  switch (head.kind) {
    case FrameKind::kAsk: {
      if (head.bytes != 0) return "a question with a payload";
      if (from.is_stuffed()) return nullptr;  // else questions of a rank that reads nothing would fill the memory
      const State state = own_state();
      from.put(FrameKind::kState, 0, head.epoch, &state, sizeof state);
      from.flush();
      if (from.is_behind()) links_.flush();  // has the thread of the links go on with it
      return nullptr;
    }
    case FrameKind::kState: {
      State state;
      if (head.bytes != sizeof state) return "a state of another size";
      std::memcpy(&state, payload, sizeof state);
      note(source, state);
      if (head.epoch > answered_[source].load() && head.epoch <= asked_.load()) answered_[source].store(head.epoch);
      return nullptr;
    }
    case FrameKind::kPoison: {
      Failure failure;
      if (head.bytes != sizeof failure) return "a poison word of another size";
      std::memcpy(&failure, payload, sizeof failure);
      if (failure.word == 0) return "a poison word without a failure";
      const auto poison = shared::Poison::of(failure.word, failure.ranks & RankSet::all(segments_->world()));
      if (poison.origin >= segments_->world()) return "a poison word of a rank that is not in the group";
      segments_->poison(poison);
      return nullptr;
    }
    case FrameKind::kGoodbye:
      if (head.bytes != 0) return "a goodbye with a payload";
      segments_->control(source).closed.store(1);
      return nullptr;
    default:
      break;
  }
  return "a frame of no kind";
}

void GroupTalk::broke(uint32_t source) noexcept {
  if (segments_->closed(source)) return;
  const shared::Poison lost{NVRAR_PEER_LOST, segments_->rank(), RankSet::of(source), 0};
  segments_->poison(lost);
  tell(segments_->poisoned());
}

void GroupTalk::settled() noexcept {
  shared::full_fence();
  shared::wake_if_asleep(segments_->own());
}

}  // namespace nvrar::link
