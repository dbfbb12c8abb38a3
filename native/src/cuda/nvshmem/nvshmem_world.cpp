#include "cuda/nvshmem/nvshmem_world.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

#include "common/error.h"
#include "common/hash.h"
#include "common/watched.h"

namespace nvrar::cuda {
namespace {

constexpr uint64_t kUnitGranularityBytes = 4096;
constexpr uint64_t kOwnHeapBytes = 64 << 20;  // NVSHMEM's own need, in addition to the arena, if its heap cannot grow
constexpr uint64_t kAddressAlignment = 256;

constexpr int32_t revision(int32_t number, size_t bytes) { return (number << 16) + static_cast<int32_t>(bytes); }

std::string seconds_text(uint64_t ns) {
  std::ostringstream text;
  text << static_cast<double>(ns) / 1e9 << " s";
  return text.str();
}

struct Variable {
  const char* name;
  std::string value;
  bool always = false;  // overrides the user's setting
};

bool is_of(const char* entry, const Variable& variable) {
  const size_t length = std::strlen(variable.name);
  return std::strncmp(entry, variable.name, length) == 0 && entry[length] == '=';
}

// setenv is not used, because it frees or moves memory that other threads of a JVM may be reading by getenv. With this
// function they find either the old environment, which is never changed or freed, or a complete new one. Only a
// concurrent setenv or unsetenv of other code could undo the settings made here, or be undone by them; the C library
// has no lock that could prevent this.
void add_to_environment(const std::vector<Variable>& variables) {
  std::vector<const Variable*> lacking;
  for (const Variable& variable : variables) {
    const char* const value = std::getenv(variable.name);
    if (value == nullptr || (variable.always && value != variable.value)) lacking.push_back(&variable);
  }
  if (lacking.empty()) return;
  std::vector<char*> entries;
  // Each entry is read once: another thread's unsetenv may shorten the list meanwhile.
  char** at = environ;
  for (char* entry = nullptr; at != nullptr && (entry = *at) != nullptr; ++at) {
    const bool replaced =
        std::any_of(lacking.begin(), lacking.end(), [&](const Variable* variable) { return is_of(entry, *variable); });
    if (!replaced) entries.push_back(entry);
  }
  for (const Variable* const variable : lacking) {
    const std::string entry = std::string(variable->name) + "=" + variable->value;
    entries.push_back(std::strcpy(new char[entry.size() + 1], entry.c_str()));
  }
  entries.push_back(nullptr);
  char** const whole = new char*[entries.size()];  // never freed, and neither are its strings
  std::copy(entries.begin(), entries.end(), whole);
  __atomic_store_n(&environ, whole, __ATOMIC_RELEASE);
}

// NVSHMEM reads its environment once, at its first call, and these settings cannot be passed in another way. The user's
// own settings are kept, except for multicast.
void set_environment(const NvshmemConfig& config) {
  add_to_environment({
      // Multicast is always disabled: the protocol does not use multicast mappings, and creating them has broken hosts.
      {"NVSHMEM_DISABLE_NVLS", "1", true},
      {"NVSHMEM_DISABLE_NCCL", "1"},  // otherwise it creates NCCL communicators when it is initialised
      // Its proxy thread spins on a core. All ranks are on one host here, so no transport needs it either; and a
      // transport that fails ends the process.
      {"NVSHMEM_DISABLE_LOCAL_ONLY_PROXY", "1"},
      {"NVSHMEM_REMOTE_TRANSPORT", "none"},
      {"NVSHMEM_MAX_TEAMS", "7"},                 // each team costs heap, and only the predefined ones are used
      {"NVSHMEM_CUMEM_GRANULARITY", "16777216"},  // the heap grows in such steps, 512 MiB by default
      {"NVSHMEM_SYMMETRIC_SIZE", std::to_string(NvshmemWorld::rounded_arena(config.arena_bytes) + kOwnHeapBytes)},
  });
}

// The status of a copy of NVSHMEM that other code has loaded into this process; 0 if there is none.
int status_of_other_copy() {
  void* const loaded = ::dlopen(kNvshmemLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return kNvshmemNotInitialized;
  void* const symbol = ::dlsym(loaded, "nvshmemx_init_status");
  const int status = symbol == nullptr ? kNvshmemNotInitialized : reinterpret_cast<int (*)()>(symbol)();
  ::dlclose(loaded);
  return status;
}

}  // namespace

NvshmemWorld& NvshmemWorld::of_process() {
  static auto* const world = new NvshmemWorld;  // never destroyed: a watched thread may outlive the static objects
  return *world;
}

uint64_t NvshmemWorld::world_id(const NvshmemId& id) noexcept { return hash_bytes(id.data(), id.size()); }

uint64_t NvshmemWorld::rounded_arena(uint64_t bytes) noexcept {
  constexpr uint64_t step = kUnitGranularityBytes * UnitMap::kUnits;
  return (bytes + step - 1) / step * step;
}

void NvshmemWorld::require_not_lost() const {
  if (!is_lost_) return;
  throw Error(NVRAR_UNAVAILABLE,
              "this process can make no group over NVSHMEM any more and has to be replaced, or use CUDA IPC" +
                  (why_lost_.empty() ? "" : " (" + why_lost_ + ")"));
}

void NvshmemWorld::require_usable(const Nvshmem& library) const {
  require_not_lost();
  if (made_) return;
  if (library.nvshmemx_init_status() != kNvshmemNotInitialized || status_of_other_copy() != kNvshmemNotInitialized) {
    throw Error(NVRAR_UNAVAILABLE,
                "NVSHMEM was already initialised in this process by other code (perhaps PyTorch), and it supports one "
                "world per process: use CUDA IPC, or another process");
  }
}

NvshmemId NvshmemWorld::make_id(const NvshmemConfig& config) {
  const Nvshmem& library = nvshmem(config);
  const std::lock_guard guard(mutex_);
  require_usable(library);
  NvshmemId id{};
  if (made_) return id;
  if (!spare_ids_.empty()) {
    id = spare_ids_.back();
    spare_ids_.pop_back();
    return id;
  }
  set_environment(config);
  NvshmemUniqueId made{};
  made.version = revision(1, sizeof made);
  const int failed = library.nvshmemx_get_uniqueid(&made);
  if (failed != 0) {
    throw Error(NVRAR_UNAVAILABLE, "NVSHMEM could not make a unique id (error " + std::to_string(failed) +
                                       "): it found no network interface to listen on; "
                                       "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME names one");
  }
  std::memcpy(id.data(), &made, sizeof made);
  ids_.push_back(id);
  return id;
}

void NvshmemWorld::put_back(const NvshmemId& id) noexcept {
  const std::lock_guard guard(mutex_);
  if (std::find(ids_.begin(), ids_.end(), id) == ids_.end()) return;
  if (std::find(spare_ids_.begin(), spare_ids_.end(), id) != spare_ids_.end()) return;
  try {
    spare_ids_.push_back(id);
  } catch (const std::bad_alloc&) {
    ids_.erase(std::find(ids_.begin(), ids_.end(), id));  // only its socket stays open
  }
}

WorldPart NvshmemWorld::reserve(const NvshmemConfig& config) {
  const Nvshmem& library = nvshmem(config);
  const std::lock_guard guard(mutex_);
  require_usable(library);
  if (reserved_) {
    throw Error(NVRAR_INVALID_USAGE,
                "another group of this process is being made over NVSHMEM: groups of one process are made one after "
                "another, and a rank needs a process of its own");
  }
  WorldPart part{};
  part.state = made_ ? WorldState::kMember : WorldState::kNone;
  part.id = id_;
  part.pe = static_cast<uint16_t>(pe_);
  part.size = static_cast<uint16_t>(arenas_.size());
  part.arena_bytes = made_ ? arena_bytes_ : rounded_arena(config.arena_bytes);
  part.free = free_;
  reserved_ = true;
  return part;
}

void NvshmemWorld::withdraw() noexcept {
  const std::lock_guard guard(mutex_);
  reserved_ = false;
}

// Runs on the watched thread. In this state every call here returns its failure instead of ending the process,
// according to NVSHMEM's sources (3.4.5, 3.5.1): hostlib_init_attr always; my_pe, n_pes, malloc and ptr once the status
// is 2.
NvshmemWorld::Made NvshmemWorld::initialise(const Nvshmem& library, NvshmemInitAttributes* attributes,
                                            const PrimaryContext& context, uint64_t arena_bytes) {
  const NvshmemUniqueIdArguments& own = attributes->arguments.unique_id;
  const OutsideCaptures outside;
  const CurrentContext current(context.get());  // NVSHMEM takes the device from the calling thread
  const auto refused = [](const std::string& sentence) { return Error(NVRAR_SYSTEM, sentence); };
  const int failed = library.nvshmemx_hostlib_init_attr(kNvshmemInitWithUniqueId, attributes);
  if (failed != 0) {
    throw refused("NVSHMEM's initialisation failed on rank " + std::to_string(own.rank) + " (error " +
                  std::to_string(failed) + "; NVSHMEM_DEBUG=INFO lets it say more)");
  }
  const int status = library.nvshmemx_init_status();
  if (status == kNvshmemLimitedSharing || status == kNvshmemFullSharing) {
    throw Error(NVRAR_INVALID_ARGUMENT, "NVSHMEM found several ranks on one GPU: every rank needs one of its own");
  }
  if (status != kNvshmemInitialized) {
    throw refused("NVSHMEM's initialisation on rank " + std::to_string(own.rank) +
                  " reached the other ranks but not its GPU (status " + std::to_string(status) +
                  " instead of 2; NVSHMEM_DEBUG=INFO lets it say more)");
  }
  if (library.nvshmem_my_pe() != own.rank || library.nvshmem_n_pes() != own.ranks) {
    throw refused("NVSHMEM made rank " + std::to_string(own.rank) + " of " + std::to_string(own.ranks) + " PE " +
                  std::to_string(library.nvshmem_my_pe()) + " of " + std::to_string(library.nvshmem_n_pes()));
  }
  void* const base = library.nvshmem_malloc(arena_bytes);
  if (base == nullptr) {
    throw refused("NVSHMEM has no room for an arena of " + std::to_string(arena_bytes) +
                  " bytes (cuda.arenaBytes) on rank " + std::to_string(own.rank) +
                  ": the GPU's memory is full, or NVSHMEM_SYMMETRIC_SIZE too small");
  }
  if (reinterpret_cast<uint64_t>(base) % kAddressAlignment != 0) {
    throw refused("NVSHMEM's memory is not aligned to " + std::to_string(kAddressAlignment) + " bytes");
  }
  Made made;
  for (int pe = 0; pe < own.ranks; ++pe) {
    void* const address = library.nvshmem_ptr(base, pe);
    if (address == nullptr) {
      throw Error(NVRAR_UNAVAILABLE, "NVSHMEM cannot map the memory of rank " + std::to_string(pe) + " for rank " +
                                         std::to_string(own.rank) +
                                         ": there is no peer access between their GPUs (see nvidia-smi topo -p2p rw), "
                                         "or NVSHMEM_DISABLE_P2P is set");
    }
    made.arenas.push_back(reinterpret_cast<uint64_t>(address));
  }
  return made;
}

void NvshmemWorld::create(const NvshmemConfig& config, const NvshmemId& id, uint32_t rank, uint32_t ranks,
                          std::shared_ptr<const PrimaryContext> context) {
  const Nvshmem& library = nvshmem(config);
  const uint64_t arena_bytes = rounded_arena(config.arena_bytes);
  if (!has_nvshmem_id(id)) {
    throw Error(NVRAR_UNAVAILABLE,
                "the group's unique id contains no NVSHMEM id: the process that made it is in an NVSHMEM world already "
                "or has no "
                "NVSHMEM, and no member is in a world");
  }
  {
    const std::lock_guard guard(mutex_);
    require_usable(library);
    set_environment(config);
  }
  // Never freed, because NVSHMEM keeps pointers to both.
  auto* const unique_id = new NvshmemUniqueId;
  std::memcpy(unique_id, id.data(), sizeof *unique_id);
  auto* const attributes = new NvshmemInitAttributes{};
  const int32_t version = library.version.at_least(3, 5, 0) ? 2 : 1;
  attributes->version = revision(version, sizeof *attributes);
  attributes->arguments.version = revision(version, sizeof attributes->arguments);
  attributes->arguments.unique_id.version = revision(1, sizeof attributes->arguments.unique_id);
  if (version == 2) attributes->arguments.device = context->ordinal();
  library.nvshmemx_set_attr_uniqueid_args(static_cast<int>(rank), static_cast<int>(ranks), unique_id, attributes);
  std::optional<Made> made;
  try {
    made = run_watched<Made>(
        [&library, attributes, context, arena_bytes] { return initialise(library, attributes, *context, arena_bytes); },
        config.deadline_ns);
  } catch (const std::exception& error) {
    lose(error.what());
    throw;
  }
  if (!made) {
    const std::string sentence = "NVSHMEM's initialisation on rank " + std::to_string(rank) + " did not end within " +
                                 seconds_text(config.deadline_ns) +
                                 ": a member did not come, or cannot be reached from here";
    lose(sentence.c_str());
    throw Error(NVRAR_TIMEOUT, sentence);
  }
  const std::lock_guard guard(mutex_);
  made_ = true;
  id_ = world_id(id);
  pe_ = rank;
  arena_bytes_ = arena_bytes;
  arenas_ = std::move(made->arenas);
}

std::shared_ptr<ArenaSlice> NvshmemWorld::settle(uint32_t first_unit, uint32_t units) {
  auto slice = std::make_shared<ArenaSlice>(*this, first_unit, units);
  const std::lock_guard guard(mutex_);
  require_not_lost();  // lost by another group during this group's creation
  free_.take(first_unit, units);
  reserved_ = false;
  return slice;
}

ArenaSlice::~ArenaSlice() { world_.give_back(first_unit_, units_); }

void NvshmemWorld::give_back(uint32_t first_unit, uint32_t units) noexcept {
  const std::lock_guard guard(mutex_);
  free_.give(first_unit, units);
}

void NvshmemWorld::lose(const char* why) noexcept {
  const std::lock_guard guard(mutex_);
  if (is_lost_) return;
  is_lost_ = true;
  try {
    why_lost_ = why;
  } catch (const std::bad_alloc&) {  // destructors call this: the world is lost without a reason
  }
}

DeviceAddress NvshmemWorld::address_of(uint32_t pe, uint32_t unit) const {
  const std::lock_guard guard(mutex_);
  return arenas_[pe] + unit * (arena_bytes_ / UnitMap::kUnits);
}

}  // namespace nvrar::cuda
