#include "link/link_address.h"

#include <arpa/inet.h>

#include <cstring>

#include "common/error.h"

namespace nvrar::link {
namespace {

constexpr uint16_t kVersion4 = 4;
constexpr uint16_t kVersion6 = 6;

}  // namespace

LinkAddress LinkAddress::of(const std::string& numeric, uint16_t port) {
  LinkAddress address{};
  address.port = port;
  if (::inet_pton(AF_INET, numeric.c_str(), address.bytes) == 1) {
    address.version = kVersion4;
  } else if (::inet_pton(AF_INET6, numeric.c_str(), address.bytes) == 1) {
    address.version = kVersion6;
  } else {
    throw Error(NVRAR_INVALID_ARGUMENT, "link_address is not a numeric IPv4 or IPv6 address");
  }
  return address;
}

std::string LinkAddress::text() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (version == kVersion4) {
    ::inet_ntop(AF_INET, bytes, text, sizeof text);
    return std::string(text) + ":" + std::to_string(port);
  }
  if (version == kVersion6) {
    ::inet_ntop(AF_INET6, bytes, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(port);
  }
  return "no address";
}

SocketAddress::SocketAddress(const LinkAddress& address) noexcept {
  if (address.version == kVersion6) {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    std::memcpy(&v6->sin6_addr, address.bytes, sizeof v6->sin6_addr);
    bytes = sizeof *v6;
  } else {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    std::memcpy(&v4->sin_addr, address.bytes, sizeof v4->sin_addr);
    bytes = sizeof *v4;
  }
}

}  // namespace nvrar::link
