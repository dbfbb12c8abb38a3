#include "common/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/handle.h"

namespace nvrar {

std::string read_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  while (file) {
    const ssize_t got = ::read(file.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return "";
    if (got == 0) break;
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace nvrar
