// Whether there is room for a segment, asked before it is taken: reserving beyond a cgroup's limit would bring the OOM
// killer instead of an error.
#ifndef NVRAR_CONTROL_MEMORY_ROOM_H
#define NVRAR_CONTROL_MEMORY_ROOM_H

#include <cstdint>
#include <functional>
#include <string>

namespace nvrar::control {

struct MemoryRoom {
  uint64_t free_bytes;
  std::string limited_by;  // "MemAvailable" or the cgroup's file
};

// `root` is "" on a live system; a test gives a directory that holds a proc/ and sys/ of its own.
MemoryRoom memory_room(const std::string& root = "");

// A step is what a rank may take between two looks at the room.
constexpr uint64_t kReserveStepBytes = uint64_t{8} << 20;

// Reserves [0, bytes) step by step, each only if there is room for all that is left to reserve and for the step that
// each other rank of the group may be taking now: ranks that reserve at once see each other grow and stop at the limit.
// Throws NVRAR_SYSTEM with one sentence if there is no room, and what `reserve` throws.
void reserve_in_steps(uint64_t bytes, uint32_t world, const std::function<MemoryRoom()>& room,
                      const std::function<void(uint64_t offset, uint64_t bytes)>& reserve);

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_MEMORY_ROOM_H
