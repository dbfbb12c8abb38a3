// The control groups that this process is in, of cgroup v2 and of v1's controllers, and what they leave of the CPUs.
#ifndef NVRAR_COMMON_CGROUP_H
#define NVRAR_COMMON_CGROUP_H

#include <cstdint>
#include <string>
#include <vector>

namespace nvrar {

// The directories (without root) of this process's groups, from its own group up to the outermost: the limits of all of
// them apply, and those that a container does not see are not there. controller: of cgroup v1, such as "memory"; "":
// of cgroup v2. root: "" on a live system; a test passes a directory with a proc/ and sys/ of its own.
std::vector<std::string> cgroup_directories(const std::string& controller, const std::string& root = "");

constexpr uint32_t kNoQuota = ~uint32_t{0};
struct CpuQuota {
  uint32_t cores = kNoQuota;  // whole ones, which it lasts for without a pause; 0 if for less than one
  uint32_t group = 0;         // of processes of one host, those with the same number share it; 0: there is none
};
// The smallest of these groups.
CpuQuota cpu_quota(const std::string& root = "");

}  // namespace nvrar

#endif  // NVRAR_COMMON_CGROUP_H
