#include "control/memory_room.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "common/error.h"

namespace nvrar::control {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// A missing file, or the value "max", means that there is no limit.
uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

uint64_t mem_available_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, rest);
  }
  return kUnlimited;
}

// Page cache and kernel caches count as used memory, but are reclaimed before the limit is enforced.
uint64_t reclaimable_bytes(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  uint64_t bytes = 0;
  uint64_t sum = 0;
  while (file >> key >> bytes) {
    if (key == "active_file" || key == "inactive_file" || key == "slab_reclaimable") sum += bytes;
  }
  return sum;
}

// This process's path in the cgroup v2 tree: "0::/a/b" -> "/a/b".
std::string cgroup_path(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::/", 0) == 0) return line.substr(3);
  }
  return "/";
}

}  // namespace

MemoryRoom memory_room(const std::string& root) {
  MemoryRoom room{mem_available_bytes(root), "MemAvailable in /proc/meminfo"};
  std::string path = cgroup_path(root);
  // The limits of all ancestors apply.
  for (;;) {
    const std::string shown = "/sys/fs/cgroup" + (path == "/" ? "" : path);
    const uint64_t limit = read_number(root + shown + "/memory.max");
    const uint64_t used = read_number(root + shown + "/memory.current");
    if (limit != kUnlimited && used != kUnlimited) {
      const uint64_t kept = used - std::min(used, reclaimable_bytes(root + shown + "/memory.stat"));
      const uint64_t free_bytes = limit > kept ? limit - kept : 0;
      if (free_bytes < room.free_bytes) room = {free_bytes, shown + "/memory.max"};
    }
    if (path.empty() || path == "/") return room;
    path.resize(path.rfind('/'));
    if (path.empty()) path = "/";
  }
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

}  // namespace nvrar::control
