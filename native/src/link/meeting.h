// How the links of a group come about. Of two ranks the higher one dials the lower one's listener, and each proves that
// it knows the group's secret (candidate.h). A stranger's connection is closed after a few seconds, and there are few
// at a time.
#ifndef NVRAR_LINK_MEETING_H
#define NVRAR_LINK_MEETING_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/handle.h"
#include "link/candidate.h"
#include "link/link_address.h"

namespace nvrar::link {

class Listener {
 public:
  // Listens at the first free port from `first` to `last`; at any if both are 0. Throws NVRAR_SYSTEM.
  static Listener open(const std::string& numeric_address, uint16_t first, uint16_t last);
  Listener() = default;

  int get() const noexcept { return socket_.get(); }
  const LinkAddress& address() const noexcept { return address_; }
  void close() noexcept { socket_ = FileDescriptor(); }

 private:
  FileDescriptor socket_;
  LinkAddress address_{};
};

// Gives the connections to the remote ranks, each of which is one of `remotes`, to `linked`, as they come about.
// `ended` is asked now and then; when it is true, the meeting ends. Throws NVRAR_SYSTEM with a sentence that names a
// rank that could not be reached by the deadline (CLOCK_MONOTONIC), its address, and why; NVRAR_ABORTED if it was
// ended.
void meet(const Listener& listener, const Identity& self, const std::vector<Remote>& remotes, uint64_t deadline_ns,
          const std::function<void(uint32_t, Connection)>& linked, const std::function<bool()>& ended);

}  // namespace nvrar::link

#endif  // NVRAR_LINK_MEETING_H
