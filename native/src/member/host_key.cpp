#include "member/host_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "common/handle.h"

namespace nvrar {
namespace {

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
constexpr char kPidNamespace[] = "/proc/self/ns/pid";
constexpr char kNetworkNamespace[] = "/proc/self/ns/net";
constexpr char kUserNamespace[] = "/proc/self/ns/user";

unsigned digit_of(char c) noexcept {
  return static_cast<unsigned>(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16);
}

uint64_t inode_of(const char* path) noexcept {
  struct stat status {};
  return ::stat(path, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

bool HostKey::same_kernel(const HostKey& other) const noexcept {
  constexpr uint8_t kUnknown[sizeof boot_id] = {};
  return std::memcmp(boot_id, other.boot_id, sizeof boot_id) == 0 &&
         std::memcmp(boot_id, kUnknown, sizeof boot_id) != 0;
}

uint32_t network_namespace() noexcept { return static_cast<uint32_t>(inode_of(kNetworkNamespace)); }

HostKey HostKey::of_this_process() noexcept {
  HostKey key{};
  const FileDescriptor file(::open(kBootId, O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  if (file && ::read(file.get(), text, sizeof text - 1) > 0) {
    size_t digits = 0;
    for (const char c : text) {
      const unsigned digit = digit_of(c);
      if (digit > 15 || digits == 2 * sizeof key.boot_id) continue;
      key.boot_id[digits / 2] = static_cast<uint8_t>(unsigned{key.boot_id[digits / 2]} << 4 | digit);
      ++digits;
    }
  }
  key.pid_namespace = inode_of(kPidNamespace);
  key.user_namespace = inode_of(kUserNamespace);
  return key;
}

}  // namespace nvrar
