#include "shared/memory_room.h"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>

#include "common/cgroup.h"
#include "common/error.h"
#include "common/read_file.h"

namespace nvrar::shared {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// A missing file, or the value "max", means that there is no limit.
uint64_t read_number(const std::string& path) {
  std::istringstream file(read_file(path));
  uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

uint64_t mem_available_bytes(const std::string& root) {
  std::istringstream file(read_file(root + "/proc/meminfo"));
  std::string key;
  uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, rest);
  }
  return kUnlimited;
}

// The files of a hierarchy. Page cache and kernel caches count as used memory, but are reclaimed before the limit is
// enforced.
struct Hierarchy {
  const char* controller;
  const char* limit;
  const char* used;
  std::array<const char*, 3> reclaimable;  // keys of memory.stat
};
constexpr Hierarchy kHierarchies[] = {
    {"", "memory.max", "memory.current", {"active_file", "inactive_file", "slab_reclaimable"}},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file", ""}}};

uint64_t reclaimable_bytes(const std::string& path, const Hierarchy& of) {
  std::istringstream file(read_file(path));
  std::string key;
  uint64_t bytes = 0;
  uint64_t sum = 0;
  while (file >> key >> bytes) {
    if (std::find(of.reclaimable.begin(), of.reclaimable.end(), key) != of.reclaimable.end()) sum += bytes;
  }
  return sum;
}

}  // namespace

MemoryRoom memory_room(const std::string& root) {
  MemoryRoom room{mem_available_bytes(root), "MemAvailable in /proc/meminfo"};
  for (const Hierarchy& of : kHierarchies) {
    for (const std::string& group : cgroup_directories(of.controller, root)) {
      const std::string file = group + "/" + of.limit;
      const uint64_t limit = read_number(root + file);
      const uint64_t used = read_number(root + group + "/" + of.used);
      if (limit == kUnlimited || used == kUnlimited) continue;
      const uint64_t kept = used - std::min(used, reclaimable_bytes(root + group + "/memory.stat", of));
      const uint64_t free_bytes = limit > kept ? limit - kept : 0;
      if (free_bytes < room.free_bytes) room = {free_bytes, file};
    }
  }
  return room;
}

void reserve_in_steps(uint64_t bytes, uint32_t world, const std::function<MemoryRoom()>& room,
                      const std::function<void(uint64_t offset, uint64_t bytes)>& reserve) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t step = std::min(kReserveStepBytes, bytes - done);
    const uint64_t needed = bytes - done + (world - 1) * step;
    const MemoryRoom now = room();
    if (needed > now.free_bytes) {
      throw Error(NVRAR_SYSTEM, "there is no room for a shared memory segment of " + std::to_string(bytes) +
                                    " bytes: " + now.limited_by + " leaves " + std::to_string(now.free_bytes) +
                                    " of the " + std::to_string(needed) + " that " +
                                    (world == 1 ? "it needs" : "it and its peers' next steps need") +
                                    "; a smaller ring_bytes needs less");
    }
    reserve(done, step);
    done += step;
  }
}

}  // namespace nvrar::shared
