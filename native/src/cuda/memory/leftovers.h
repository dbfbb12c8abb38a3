// Memory of groups that have ended in this process while a peer could still write to it. A rank that closes first
// does not wait for long, so its memory is kept instead. It is checked again whenever another group of this process is
// created or destroyed.
#ifndef NVRAR_CUDA_MEMORY_LEFTOVERS_H
#define NVRAR_CUDA_MEMORY_LEFTOVERS_H

#include <functional>
#include <memory>

namespace nvrar::cuda {

// Keeps `memory` until `all_left` returns that no peer can write any more; for ever if `all_left` is null, or if the
// process has no memory left to note it.
void leave_behind(std::function<bool()> all_left, std::shared_ptr<void> memory) noexcept;

// Frees the memory that no peer can write any more.
void sweep_leftovers() noexcept;

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMORY_LEFTOVERS_H
