#include "common/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/error.h"

namespace nvrar {

void random_bytes(void* to, size_t bytes) {
  auto* at = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw Error(NVRAR_SYSTEM, "the system provides no random bytes: " + std::string(::strerrordesc_np(errno)));
    }
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

}  // namespace nvrar
