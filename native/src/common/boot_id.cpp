#include "common/boot_id.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/handle.h"

namespace nvrar {
namespace {

constexpr unsigned kNoDigit = 16;

unsigned digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A' + 10) : kNoDigit;
}

}  // namespace

BootId parse_boot_id(std::string_view text) noexcept {
  BootId id{};
  size_t digits = 0;
  for (const char c : text) {
    const unsigned digit = digit_of(c);
    if (digit == kNoDigit || digits == 2 * id.size()) continue;
    id[digits / 2] = static_cast<uint8_t>(unsigned{id[digits / 2]} << 4 | digit);
    ++digits;
  }
  return id;
}

BootId read_boot_id() noexcept {
  const FileDescriptor file(::open(kBootIdFile, O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t length = file ? ::read(file.get(), text, sizeof text) : -1;
  return length <= 0 ? BootId{} : parse_boot_id({text, static_cast<size_t>(length)});
}

}  // namespace nvrar
