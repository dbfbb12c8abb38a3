#include "link/runs.h"

namespace nvrar::link {

bool take_run(Link& link, const WantedRun& wanted, bool* took, const uint8_t** run) noexcept {
  *run = nullptr;
  while (link.find_frame()) {
    const FrameHead* const rest = link.rest();
    if (rest != nullptr && begins_with(*rest, wanted)) {
      *run = take_next_run(link, wanted);
      break;
    }
    if (!link.has_frame()) break;
    if (!link.give_frame(took)) return false;
  }
  return link.refused() == nullptr;
}

const uint8_t* take_following(Link& link, const WantedRun& wanted, uint64_t stride, uint64_t most,
                              uint64_t* bytes) noexcept {
  *bytes = 0;
  const FrameHead* const rest = link.rest();
  const bool is_next = rest != nullptr && rest->kind == FrameKind::kPackets && wanted.bytes == wanted.whole_bytes &&
                       wanted.slot == rest->slot && wanted.epoch == rest->epoch && stride == rest->stride;
  if (!is_next) return nullptr;
  const uint64_t arrived = std::min<uint64_t>(link.arrived(), rest->bytes);
  const auto runs = static_cast<uint32_t>(std::min(most, arrived) / wanted.bytes);
  if (runs == 0) return nullptr;
  *bytes = uint64_t{runs} * wanted.bytes;
  return link.take_part(static_cast<uint32_t>(*bytes), runs);
}

}  // namespace nvrar::link
