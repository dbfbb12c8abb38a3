// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), by which the two ends of a link prove that they know the group's secret.
#ifndef NVRAR_COMMON_SHA256_H
#define NVRAR_COMMON_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace nvrar {

using Digest = std::array<uint8_t, 32>;
using Bytes = std::span<const uint8_t>;

// Of the parts, one after the other.
Digest sha256(std::initializer_list<Bytes> parts) noexcept;
Digest hmac_sha256(Bytes key, std::initializer_list<Bytes> parts) noexcept;
// In a time that does not depend on where they differ.
bool equal_digests(const Digest& a, const Digest& b) noexcept;

}  // namespace nvrar

#endif  // NVRAR_COMMON_SHA256_H
