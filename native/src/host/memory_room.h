// Whether there is room for a segment, asked before it is taken: reserving beyond a cgroup's limit would bring the OOM
// killer instead of an error.
#ifndef NVRAR_HOST_MEMORY_ROOM_H
#define NVRAR_HOST_MEMORY_ROOM_H

#include <cstdint>
#include <string>

namespace nvrar::host {

struct MemoryRoom {
  uint64_t free_bytes;
  std::string limited_by;  // "MemAvailable" or the cgroup's file
};

// `root` is "" on a live system; a test gives a directory that holds a proc/ and sys/ of its own.
MemoryRoom memory_room(const std::string& root = "");

// Throws NVRAR_SYSTEM with one sentence if `bytes` do not fit.
void require_room(uint64_t bytes, const std::string& root = "");

}  // namespace nvrar::host

#endif  // NVRAR_HOST_MEMORY_ROOM_H
