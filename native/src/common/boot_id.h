// Which kernel runs this process: a random number of each start of a machine, the same in all of its containers.
#ifndef NVRAR_COMMON_BOOT_ID_H
#define NVRAR_COMMON_BOOT_ID_H

#include <array>
#include <cstdint>

namespace nvrar {

using BootId = std::array<uint8_t, 16>;

// Zeros if it cannot be read.
BootId read_boot_id() noexcept;

}  // namespace nvrar

#endif  // NVRAR_COMMON_BOOT_ID_H
