// Plain TCP sockets on the loopback interface, with which tests attack links. They block, for a limited time.
#ifndef NVRAR_TEST_LINKS_SOCKET_H
#define NVRAR_TEST_LINKS_SOCKET_H

#include <cstdint>
#include <vector>

#include "common/handle.h"
#include "link/link_address.h"

namespace nvrar::test {

class Socket {
 public:
  Socket() = default;
  explicit Socket(FileDescriptor connected);
  // receive_buffer: its size in bytes, 0: the system's choice.
  static Socket dial(const link::LinkAddress& address, int receive_buffer = 0);
  // Begins a connection, and does not wait for it.
  static Socket knock(const link::LinkAddress& address);
  // The next connection to a listener; an empty socket if none comes within the limit.
  static Socket accept(int listener, double limit_seconds = 10);

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  // False: not everything could be sent.
  bool send(const void* bytes, size_t count);
  bool send(const std::vector<uint8_t>& bytes) { return send(bytes.data(), bytes.size()); }
  // So many bytes, or fewer if the connection ends or nothing comes for so long.
  std::vector<uint8_t> receive(size_t count, double limit_seconds = 10);
  // Whether the other end closes the connection within the limit. Reads and drops what it sends.
  bool is_closed_there(double limit_seconds = 10);
  void close() { fd_ = FileDescriptor(); }
  // Ends the connection by RST.
  void reset();

 private:
  FileDescriptor fd_;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_LINKS_SOCKET_H
