// Checks whether there is room for a segment before it is reserved: reserving beyond a cgroup's limit would trigger the
// OOM killer instead of an error.
#ifndef NVRAR_SHARED_MEMORY_ROOM_H
#define NVRAR_SHARED_MEMORY_ROOM_H

#include <cstdint>
#include <functional>
#include <string>

namespace nvrar::shared {

struct MemoryRoom {
  uint64_t free_bytes;
  std::string limited_by;  // "MemAvailable" or the cgroup's file
};

// `root` is "" on a live system; a test passes a directory with a proc/ and sys/ of its own.
MemoryRoom memory_room(const std::string& root = "");

// How much a rank may reserve between two checks of the room.
constexpr uint64_t kReserveStepBytes = uint64_t{8} << 20;

// Reserves [0, bytes) in steps. Each step is made only if there is room for everything left to reserve, and for the
// step that each other rank of the group may be making now: ranks that reserve concurrently see each other grow and
// stop at the limit. Throws NVRAR_SYSTEM with one sentence if there is no room, and whatever `reserve` throws.
void reserve_in_steps(uint64_t bytes, uint32_t world, const std::function<MemoryRoom()>& room,
                      const std::function<void(uint64_t offset, uint64_t bytes)>& reserve);

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_MEMORY_ROOM_H
