#include "link/link_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "common/error.h"
#include "common/handle.h"

namespace nvrar::link {
namespace {

constexpr uint16_t kVersion4 = 4;
constexpr uint16_t kVersion6 = 6;
constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr size_t kTextBytes = INET6_ADDRSTRLEN + sizeof "[]:65535";

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
  // An IPv4 address as IPv6 writes it. The sockets of IPv4 are the ones that lead there.
  if (address.version == kVersion6 && std::memcmp(address.bytes, kMapped, sizeof kMapped) == 0) {
    std::memmove(address.bytes, address.bytes + sizeof kMapped, sizeof address.bytes - sizeof kMapped);
    std::memset(address.bytes + sizeof address.bytes - sizeof kMapped, 0, sizeof kMapped);
    address.version = kVersion4;
  }
  // A socket would listen there, and the ranks of other hosts would dial themselves.
  if (std::all_of(std::begin(address.bytes), std::end(address.bytes), [](uint8_t byte) { return byte == 0; })) {
    throw Error(NVRAR_INVALID_ARGUMENT,
                "link_address " + numeric + " stands for all addresses of a host: other hosts need one of them");
  }
  if (address.version == kVersion6 && address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80) {
    throw Error(NVRAR_INVALID_ARGUMENT, "link_address " + numeric +
                                            " is link-local: it leads to this host only by an interface's name, which "
                                            "differs from host to host");
  }
  return address;
}

LinkAddress LinkAddress::of(const sockaddr_storage& socket) noexcept {
  LinkAddress address{};
  if (socket.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(socket);
    std::memcpy(address.bytes, &v4.sin_addr, sizeof v4.sin_addr);
    address.port = ntohs(v4.sin_port);
    address.version = kVersion4;
  } else if (socket.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(socket);
    std::memcpy(address.bytes, &v6.sin6_addr, sizeof v6.sin6_addr);
    address.port = ntohs(v6.sin6_port);
    address.version = kVersion6;
  }
  return address;
}

bool LinkAddress::is_loopback() const noexcept {
  constexpr uint8_t kLoopback6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return version == kVersion4 ? bytes[0] == 127
                              : version == kVersion6 && std::memcmp(bytes, kLoopback6, sizeof bytes) == 0;
}

// To an address of its own a host sends from that address. Nothing is sent: UDP only looks the route up.
bool LinkAddress::leads_here() const noexcept {
  if (is_loopback()) return true;
  const SocketAddress address(*this);
  const FileDescriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), address.get(), address.bytes) != 0) return false;
  return std::memcmp(local_end(socket.get()).bytes, bytes, sizeof bytes) == 0;
}

std::string LinkAddress::text() const {
  char text[kTextBytes];
  write(text, sizeof text);
  return text;
}

std::string LinkAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (exists()) ::inet_ntop(version == kVersion4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
  return text;
}

void LinkAddress::write(char* room, size_t room_bytes) const noexcept {
  char text[INET6_ADDRSTRLEN] = "?";
  if (version == kVersion4) {
    ::inet_ntop(AF_INET, bytes, text, sizeof text);
    std::snprintf(room, room_bytes, "%s:%u", text, unsigned{port});
  } else if (version == kVersion6) {
    ::inet_ntop(AF_INET6, bytes, text, sizeof text);
    std::snprintf(room, room_bytes, "[%s]:%u", text, unsigned{port});
  } else {
    std::snprintf(room, room_bytes, "no address");
  }
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

LinkAddress local_end(int socket) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) == 0 ? LinkAddress::of(storage)
                                                                                  : LinkAddress{};
}

LinkAddress remote_end(int socket) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) == 0 ? LinkAddress::of(storage)
                                                                                  : LinkAddress{};
}

}  // namespace nvrar::link
