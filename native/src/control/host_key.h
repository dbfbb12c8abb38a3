// Identifies the part of a machine in which processes can map each other's segments: the kernel that runs it, the
// namespace in which a pid means the same process, and the namespace of users, because a process has no permission to
// open the memory of processes outside of its own.
#ifndef NVRAR_CONTROL_HOST_KEY_H
#define NVRAR_CONTROL_HOST_KEY_H

#include <cstdint>

namespace nvrar::control {

struct HostKey {
  uint8_t boot_id[16];
  uint64_t pid_namespace;
  uint64_t user_namespace;

  // Zeros stand for what cannot be read.
  static HostKey of_this_process() noexcept;
  bool operator==(const HostKey&) const = default;
};

}  // namespace nvrar::control

#endif  // NVRAR_CONTROL_HOST_KEY_H
