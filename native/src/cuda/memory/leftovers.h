// Memory of groups that have ended in this process while a peer could still write to it. A rank that closes first
// cannot wait for the others, so its memory is kept instead. It is checked again whenever another group of this process
// is created.
#ifndef NVRAR_CUDA_MEMORY_LEFTOVERS_H
#define NVRAR_CUDA_MEMORY_LEFTOVERS_H

#include <functional>
#include <memory>

namespace nvrar::cuda {

// Keeps `memory` until `all_left` returns that no peer can write any more; for ever if `all_left` is null.
void leave_behind(std::function<bool()> all_left, std::shared_ptr<void> memory);

// Frees the memory that no peer can write any more.
void sweep_leftovers();

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_LEFTOVERS_H
