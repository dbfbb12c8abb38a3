// The address of a link's end, as descriptors carry it.
#ifndef NVRAR_LINK_LINK_ADDRESS_H
#define NVRAR_LINK_LINK_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace nvrar::link {

struct LinkAddress {
  uint8_t bytes[16];  // in network order; an IPv4 address has the first four
  uint16_t port;
  uint16_t version;  // of IP: 4 or 6; 0: there is no address

  // Of a numeric address. Throws NVRAR_INVALID_ARGUMENT.
  static LinkAddress of(const std::string& numeric, uint16_t port);
  static LinkAddress of(const sockaddr_storage& socket) noexcept;
  bool exists() const noexcept { return version != 0; }
  bool is_loopback() const noexcept;
  // Whether it is one of this host's own, which may be loopback.
  bool leads_here() const noexcept;
  // "10.0.0.2:4711", "[fd00::2]:4711"
  std::string text() const;
  // "10.0.0.2", "fd00::2"
  std::string host() const;
  // text(), cut where the room ends; always with a 0 at its end.
  void write(char* room, size_t bytes) const noexcept;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  explicit SocketAddress(const LinkAddress& address) noexcept;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};

// Of a socket's ends; no address if it is not, or no longer, connected.
LinkAddress local_end(int socket) noexcept;
LinkAddress remote_end(int socket) noexcept;

}  // namespace nvrar::link

#endif  // NVRAR_LINK_LINK_ADDRESS_H
