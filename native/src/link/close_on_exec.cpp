#include "link/close_on_exec.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "common/error.h"
#include "link/link_address.h"

namespace nvrar::link {
namespace {

constexpr char kDescriptors[] = "/proc/self/fd";

[[noreturn]] void refused(const std::string& what) {
  throw Error(NVRAR_SYSTEM, what + " failed: " + std::strerror(errno));
}

int option_of(int fd, int option) noexcept {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

// remote_port: 0 of one that listens.
bool is_tcp(int fd, int32_t local_port, int32_t remote_port) noexcept {
  const LinkAddress local = local_end(fd);
  return option_of(fd, SO_TYPE) == SOCK_STREAM && local.exists() && local.port == local_port &&
         (remote_port == 0 ? option_of(fd, SO_ACCEPTCONN) == 1 : remote_end(fd).port == remote_port);
}

}  // namespace

void close_on_exec(int32_t local_port, int32_t remote_port) {
  constexpr int32_t kMostPort = std::numeric_limits<uint16_t>::max();
  if (local_port < 1 || local_port > kMostPort || remote_port < 0 || remote_port > kMostPort) {
    throw Error(NVRAR_INVALID_ARGUMENT, "there is no TCP socket from port " + std::to_string(local_port) + " to port " +
                                            std::to_string(remote_port));
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(::opendir(kDescriptors), ::closedir);
  if (descriptors == nullptr) refused(std::string("opening ") + kDescriptors);
  bool found = false;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(descriptors.get());
    if (entry == nullptr && errno != 0) refused(std::string("reading ") + kDescriptors);
    if (entry == nullptr) break;
    char* end = nullptr;
    const long number = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || *end != '\0') continue;  // "." and ".."
    const int fd = static_cast<int>(number);
    // Other threads close and open descriptors meanwhile. A number that changes hands between the look and the flag
    // costs its new owner nothing but inheritance.
    if (!is_tcp(fd, local_port, remote_port)) continue;
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0) {
      if (errno == EBADF) continue;  // closed meanwhile
      refused("setting close-on-exec");
    }
    found = true;
  }
  if (found) return;
  const std::string port = std::to_string(local_port);
  throw Error(NVRAR_INVALID_ARGUMENT, remote_port == 0 ? "this process has no TCP socket that listens at port " + port
                                                       : "this process has no TCP socket that connects port " + port +
                                                             " to port " + std::to_string(remote_port));
}

}  // namespace nvrar::link
