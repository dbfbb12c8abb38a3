#include "member/host_key.h"

#include <sys/stat.h>

namespace nvrar {
namespace {

constexpr char kPidNamespace[] = "/proc/self/ns/pid";
constexpr char kNetworkNamespace[] = "/proc/self/ns/net";
constexpr char kUserNamespace[] = "/proc/self/ns/user";

uint64_t inode_of(const char* path) noexcept {
  struct stat status {};
  return ::stat(path, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

bool HostKey::same_kernel(const HostKey& other) const noexcept {
  return boot_id == other.boot_id && boot_id != BootId{};
}

std::string HostKey::text() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < boot_id.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[boot_id[i] >> 4];
    text += kDigits[boot_id[i] & 15];
  }
  return text + " pid:[" + std::to_string(pid_namespace) + "] user:[" + std::to_string(user_namespace) + "]";
}

uint32_t network_namespace() noexcept { return static_cast<uint32_t>(inode_of(kNetworkNamespace)); }

HostKey HostKey::of_this_process() noexcept {
  HostKey key{};
  key.boot_id = read_boot_id();
  key.pid_namespace = inode_of(kPidNamespace);
  key.user_namespace = inode_of(kUserNamespace);
  return key;
}

}  // namespace nvrar
