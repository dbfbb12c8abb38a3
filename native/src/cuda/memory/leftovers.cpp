#include "cuda/memory/leftovers.h"

#include <cstddef>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <utility>

namespace nvrar::cuda {
namespace {

struct Leftover {
  std::function<bool()> all_left;
  std::shared_ptr<void> memory;
};

struct Leftovers {
  std::mutex mutex;
  std::list<Leftover> entries;  // guarded by mutex
};

Leftovers& leftovers() {
  static auto* const of_process = new Leftovers;  // never destroyed: its entries must not be freed at exit
  return *of_process;
}

bool still_in_reach(const Leftover& leftover) {
  try {
    return leftover.all_left == nullptr || !leftover.all_left();
  } catch (const std::exception&) {  // unknown counts as still there
    return true;
  }
}

}  // namespace

void leave_behind(std::function<bool()> all_left, std::shared_ptr<void> memory) noexcept {
  try {
    Leftovers& kept = leftovers();
    std::list<Leftover> entry;
    entry.push_back({std::move(all_left), memory});
    const std::lock_guard guard(kept.mutex);
    kept.entries.splice(kept.entries.end(), entry);
  } catch (const std::exception&) {
    // Destructors call this. An owner that is never destroyed keeps the memory from being freed under a peer.
    alignas(std::shared_ptr<void>) std::byte owner[sizeof memory];
    new (owner) std::shared_ptr<void>(std::move(memory));
  }
}

void sweep_leftovers() noexcept {
  Leftovers& kept = leftovers();
  std::list<Leftover> entries;
  {
    const std::lock_guard guard(kept.mutex);
    entries.swap(kept.entries);
  }
  // The checks and the freeing run without the lock, and nothing here needs memory.
  entries.remove_if([](const Leftover& leftover) { return !still_in_reach(leftover); });
  const std::lock_guard guard(kept.mutex);
  kept.entries.splice(kept.entries.end(), entries);
}

}  // namespace nvrar::cuda
