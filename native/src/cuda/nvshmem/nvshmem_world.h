// The NVSHMEM world of this process. NVSHMEM supports one world per process: it is created once, with the process's
// first group over NVSHMEM, together with an arena of which every group gets a slice. It is never finalized (that would
// wait for peers that may be dead) and, once lost, never created again.
#ifndef NVRAR_CUDA_NVSHMEM_NVSHMEM_WORLD_H
#define NVRAR_CUDA_NVSHMEM_NVSHMEM_WORLD_H

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver/context.h"
#include "cuda/nvshmem/nvshmem.h"
#include "cuda/nvshmem/world_part.h"

namespace nvrar::cuda {

class NvshmemWorld;

// A group's part of the arena; the destructor returns it.
class ArenaSlice {
 public:
  ArenaSlice(NvshmemWorld& world, uint32_t first_unit, uint32_t units) noexcept
      : world_(world), first_unit_(first_unit), units_(units) {}
  ~ArenaSlice();
  ArenaSlice(const ArenaSlice&) = delete;
  ArenaSlice& operator=(const ArenaSlice&) = delete;

 private:
  NvshmemWorld& world_;
  uint32_t first_unit_;
  uint32_t units_;
};

class NvshmemWorld {
 public:
  static NvshmemWorld& of_process();

  // Every id has a socket of NVSHMEM that is never closed, so an id that its group does not use is put back and reused.
  NvshmemId make_id(const NvshmemConfig& config);
  // Returns the id of a group that did not need it. Does nothing if another process made the id.
  void put_back(const NvshmemId& id) noexcept;

  // The state that a new group announces to its members. No other group of this process can be created over NVSHMEM
  // until settle() or withdraw(): the members choose a slice from the announced states, so these must stay valid.
  // Throws Error.
  WorldPart reserve(const NvshmemConfig& config);
  void withdraw() noexcept;

  // Initialises NVSHMEM with the group's ranks as its PEs, on a thread with a deadline. If it throws Error, this
  // process can have no world any more.
  void create(const NvshmemConfig& config, const NvshmemId& id, uint32_t rank, uint32_t ranks,
              std::shared_ptr<const PrimaryContext> context);
  // Ends the reservation by allocating the group's slice. Throws Error if the world was lost meanwhile.
  std::shared_ptr<ArenaSlice> settle(uint32_t first_unit, uint32_t units);
  // Called when a member died or aborted: its kernels may still write anywhere, so the arena is never reused.
  void lose(const char* why) noexcept;

  DeviceAddress address_of(uint32_t pe, uint32_t unit) const;

  static uint64_t world_id(const NvshmemId& id) noexcept;
  static uint64_t rounded_arena(uint64_t bytes) noexcept;

 private:
  friend class ArenaSlice;
  struct Made {
    std::vector<DeviceAddress> arenas;  // by PE
  };
  void give_back(uint32_t first_unit, uint32_t units) noexcept;
  void require_not_lost() const;
  void require_usable(const Nvshmem& library) const;
  static Made initialise(const Nvshmem& library, NvshmemInitAttributes* attributes, const PrimaryContext& context,
                         uint64_t arena_bytes);

  mutable std::mutex mutex_;
  // All guarded by mutex_.
  bool is_lost_ = false;  // this process can have no world any more
  std::string why_lost_;
  bool reserved_ = false;
  bool made_ = false;
  uint64_t id_ = 0;
  uint32_t pe_ = 0;
  uint64_t arena_bytes_ = 0;
  std::vector<DeviceAddress> arenas_;
  UnitMap free_ = UnitMap::all_free();
  std::vector<NvshmemId> ids_;        // all ids made by this process
  std::vector<NvshmemId> spare_ids_;  // those of ids_ that were put back
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_NVSHMEM_WORLD_H
