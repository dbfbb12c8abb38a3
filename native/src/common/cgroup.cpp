#include "common/cgroup.h"

#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "common/read_file.h"

namespace nvrar {
namespace {

constexpr char kMount[] = "/sys/fs/cgroup";

// Whether the controllers of a line of /proc/self/cgroup, such as "cpu,cpuacct", have this one.
bool has(const std::string& controllers, const std::string& controller) {
  std::istringstream list(controllers);
  std::string one;
  while (std::getline(list, one, ',')) {
    if (one == controller) return true;
  }
  return controllers == controller;  // both empty: cgroup v2
}

// This process's path in the hierarchy of the controller. A line is "4:cpu,cpuacct:/a/b", that of cgroup v2 "0::/a/b".
std::string path_of(const std::string& controller, const std::string& root) {
  std::istringstream lines(read_file(root + "/proc/self/cgroup"));
  std::string line;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    if (has(line.substr(first + 1, second - first - 1), controller)) return line.substr(second + 1);
  }
  return "/";
}

uint32_t whole_cores(int64_t quota_us, int64_t period_us) {
  if (quota_us < 0 || period_us <= 0) return kNoQuota;
  return static_cast<uint32_t>(std::min<int64_t>(quota_us / period_us, kNoQuota));
}

// "max 100000", "150000 100000"
uint32_t quota_of_v2(const std::string& directory) {
  std::istringstream file(read_file(directory + "/cpu.max"));
  int64_t quota_us = -1;
  int64_t period_us = 0;
  return file >> quota_us >> period_us ? whole_cores(quota_us, period_us) : kNoQuota;
}

// A quota of -1 is none.
uint32_t quota_of_v1(const std::string& directory) {
  std::istringstream quota(read_file(directory + "/cpu.cfs_quota_us"));
  std::istringstream period(read_file(directory + "/cpu.cfs_period_us"));
  int64_t quota_us = -1;
  int64_t period_us = 0;
  return quota >> quota_us && period >> period_us ? whole_cores(quota_us, period_us) : kNoQuota;
}

// The same from every namespace of control groups; never 0.
uint32_t number_of(const std::string& directory) {
  struct stat status {};
  (void)::stat(directory.c_str(), &status);
  return static_cast<uint32_t>(status.st_ino ^ status.st_ino >> 32) | 1U << 31;
}

}  // namespace

std::vector<std::string> cgroup_directories(const std::string& controller, const std::string& root) {
  const std::string top = kMount + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> directories;
  for (std::string path = path_of(controller, root); path.size() > 1; path.resize(path.rfind('/'))) {
    directories.push_back(top + path);
  }
  directories.push_back(top);
  return directories;
}

CpuQuota cpu_quota(const std::string& root) {
  CpuQuota smallest;
  const auto look_at = [&](const std::string& directory, uint32_t cores) {
    if (cores < smallest.cores) smallest = {cores, number_of(directory)};
  };
  for (const std::string& group : cgroup_directories("", root)) look_at(root + group, quota_of_v2(root + group));
  for (const std::string& group : cgroup_directories("cpu", root)) look_at(root + group, quota_of_v1(root + group));
  return smallest;
}

}  // namespace nvrar
