// Keeps sockets of this process, whoever opened them, from the programs that the process starts.
#ifndef NVRAR_LINK_CLOSE_ON_EXEC_H
#define NVRAR_LINK_CLOSE_ON_EXEC_H

#include <cstdint>

namespace nvrar::link {

// Sets close-on-exec on every TCP socket of this process that listens at local_port (remote_port 0), or connects
// local_port to remote_port. Throws NVRAR_INVALID_ARGUMENT if there is none.
void close_on_exec(int32_t local_port, int32_t remote_port);

}  // namespace nvrar::link

#endif  // NVRAR_LINK_CLOSE_ON_EXEC_H
