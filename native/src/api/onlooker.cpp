#include "api/onlooker.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "api/version.h"
#include "common/error.h"
#include "common/tick_clock.h"
#include "member/descriptor.h"
#include "shared/shared_segment.h"

namespace nvrar {
namespace {

// The counter's rate is measured since the clock was made: this long for a precision of some parts in a million.
constexpr auto kClockAge = std::chrono::milliseconds(10);

const TickClock& clock_of_process() {
  static const TickClock clock = [] {
    TickClock made;
    std::this_thread::sleep_for(kClockAge);
    return made;
  }();
  return clock;
}

Descriptor checked(const uint8_t* bytes) {
  Descriptor descriptor{};
  std::memcpy(&descriptor, bytes, sizeof descriptor);
  if (descriptor.magic != Descriptor::kMagic) throw Error(NVRAR_INVALID_ARGUMENT, "this is no descriptor of a member");
  descriptor.build_id[sizeof descriptor.build_id - 1] = '\0';
  // The layout of the memory is that of one build.
  if (std::strcmp(descriptor.build_id, build_id()) != 0) {
    throw Error(NVRAR_MISMATCH,
                "the member has another build of the library than this process, which is " + std::string(build_id()));
  }
  return descriptor;
}

}  // namespace

Sight look_at(const uint8_t* descriptor, uint32_t most_calls) {
  const Descriptor member = checked(descriptor);
  const shared::SharedSegment segment =
      shared::SharedSegment::map_to_look(member.segment, member.rank, member.group_hash);
  const shared::ControlBlock& control = segment.control();
  if (control.closed.load() != 0) {
    throw Error(NVRAR_SYSTEM, "rank " + std::to_string(member.rank) + " has destroyed its communicator");
  }
  Sight sight;
  sight.failure = control.poison.get().status;
  sight.newest.resize(std::min<uint32_t>(most_calls, NVRAR_FLIGHT_RECORDS));
  const uint32_t read =
      control.flight.read(clock_of_process(), sight.newest.data(), static_cast<uint32_t>(sight.newest.size()));
  sight.newest.resize(read);
  sight.begun = control.flight.begun();
  return sight;
}

}  // namespace nvrar
