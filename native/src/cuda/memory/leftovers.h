// Memory of groups that have ended here while a peer could still write to it. A rank that closes first cannot wait for
// the others, so its memory waits instead: it is looked at again whenever another group of this process is made.
#ifndef NVRAR_CUDA_MEMORY_LEFTOVERS_H
#define NVRAR_CUDA_MEMORY_LEFTOVERS_H

#include <functional>
#include <memory>

namespace nvrar::cuda {

// Holds `memory` until `all_left` says that no peer can write any more; for ever if that is null.
void leave_behind(std::function<bool()> all_left, std::shared_ptr<void> memory);

// Lets go of what nobody can reach any more.
void sweep_leftovers();

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_LEFTOVERS_H
