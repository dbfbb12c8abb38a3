// Identifies the part of a machine in which processes can map each other's segments: the kernel that runs it, the
// namespace in which a pid means the same process, and the namespace of users, because a process has no permission to
// open the memory of processes outside of its own.
#ifndef NVRAR_MEMBER_HOST_KEY_H
#define NVRAR_MEMBER_HOST_KEY_H

#include <cstdint>
#include <string>

#include "common/boot_id.h"

namespace nvrar {

struct HostKey {
  BootId boot_id;
  uint64_t pid_namespace;
  uint64_t user_namespace;

  // Zeros stand for what cannot be read.
  static HostKey of_this_process() noexcept;
  bool operator==(const HostKey&) const = default;
  // Equal for equal keys, and for no others.
  std::string text() const;
  // Whether both run on one kernel, whatever their namespaces.
  bool same_kernel(const HostKey& other) const noexcept;
};

// Of processes on one kernel, those with the same number, not 0, have the same network.
uint32_t network_namespace() noexcept;

}  // namespace nvrar

#endif  // NVRAR_MEMBER_HOST_KEY_H
