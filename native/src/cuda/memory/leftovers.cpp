#include "cuda/memory/leftovers.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace nvrar::cuda {
namespace {

struct Leftover {
  std::function<bool()> all_left;
  std::shared_ptr<void> memory;
};

struct Leftovers {
  std::mutex mutex;
  std::vector<Leftover> entries;  // guarded by mutex
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

void leave_behind(std::function<bool()> all_left, std::shared_ptr<void> memory) {
  Leftovers& kept = leftovers();
  const std::lock_guard guard(kept.mutex);
  kept.entries.push_back({std::move(all_left), std::move(memory)});
}

void sweep_leftovers() {
  Leftovers& kept = leftovers();
  std::vector<Leftover> entries;
  {
    const std::lock_guard guard(kept.mutex);
    entries.swap(kept.entries);
  }
  // The checks and the freeing run without the lock.
  entries.erase(std::partition(entries.begin(), entries.end(), still_in_reach), entries.end());
  const std::lock_guard guard(kept.mutex);
  std::move(entries.begin(), entries.end(), std::back_inserter(kept.entries));
}

}  // namespace nvrar::cuda
