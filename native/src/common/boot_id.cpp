#include "common/boot_id.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/handle.h"

namespace nvrar {
namespace {

constexpr char kFile[] = "/proc/sys/kernel/random/boot_id";
constexpr unsigned kNoDigit = 16;

unsigned digit_of(char c) noexcept {
  return static_cast<unsigned>(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : kNoDigit);
}

}  // namespace

BootId read_boot_id() noexcept {
  const FileDescriptor file(::open(kFile, O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return {};
  BootId id{};
  size_t digits = 0;
  for (const char c : text) {
    const unsigned digit = digit_of(c);
    if (digit == kNoDigit || digits == 2 * id.size()) continue;
    id[digits / 2] = static_cast<uint8_t>(unsigned{id[digits / 2]} << 4 | digit);
    ++digits;
  }
  return digits == 2 * id.size() ? id : BootId{};
}

}  // namespace nvrar
