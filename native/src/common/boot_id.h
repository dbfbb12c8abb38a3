// Which kernel runs this process: a random number of each start of a machine, the same in all of its containers.
#ifndef NVRAR_COMMON_BOOT_ID_H
#define NVRAR_COMMON_BOOT_ID_H

#include <array>
#include <cstdint>
#include <string_view>

namespace nvrar {

using BootId = std::array<uint8_t, 16>;

constexpr char kBootIdFile[] = "/proc/sys/kernel/random/boot_id";

// Zeros if it cannot be read.
BootId read_boot_id() noexcept;
// Of the file's text. The first 32 digits count, of upper or lower case; other characters are passed over.
BootId parse_boot_id(std::string_view text) noexcept;

}  // namespace nvrar

#endif  // NVRAR_COMMON_BOOT_ID_H
