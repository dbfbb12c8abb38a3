// The NVSHMEM world of this process. NVSHMEM knows one per process: it is made once, with the process's first group
// over NVSHMEM, together with an arena of which every group takes a slice. It is never finalized (that waits for peers
// that may be dead) and, once lost, never made again.
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

// A group's part of the arena, given back when it goes.
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

  // Each has a socket of NVSHMEM's that nothing closes, so one that no group will use any more is put back.
  NvshmemId make_id(const NvshmemConfig& config);
  // Of a group that has come about without it. Nothing if it was made by another process.
  void put_back(const NvshmemId& id) noexcept;

  // What a group that is being made tells its members. No other group of this process can be made over NVSHMEM until
  // settle() or withdraw(): the members choose a slice from what all of them told, so it must stay true. Throws Error.
  WorldPart reserve(const NvshmemConfig& config);
  void withdraw() noexcept;

  // Initialises NVSHMEM with the group's ranks as its PEs, on a thread that is watched. Throws Error, and then there is
  // no world in this process any more.
  void create(const NvshmemConfig& config, const NvshmemId& id, uint32_t rank, uint32_t ranks,
              std::shared_ptr<const PrimaryContext> context);
  // The group that reserved takes its slice. Throws Error if the world was lost meanwhile.
  std::shared_ptr<ArenaSlice> settle(uint32_t first_unit, uint32_t units);
  // A member died or aborted: nobody can say what its kernels still write, so no byte of the arena is used again.
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
  void require_usable(const Nvshmem& library) const;
  static Made initialise(const Nvshmem& library, NvshmemInitAttributes* attributes, const PrimaryContext& context,
                         uint64_t arena_bytes);

  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::string lost_;  // why there will be no world in this process; empty: nothing of that kind
  bool reserved_ = false;
  bool made_ = false;
  uint64_t id_ = 0;
  uint32_t pe_ = 0;
  uint64_t arena_bytes_ = 0;
  std::vector<DeviceAddress> arenas_;
  UnitMap free_ = UnitMap::all_free();
  std::vector<NvshmemId> ids_;        // made here
  std::vector<NvshmemId> spare_ids_;  // of them
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_NVSHMEM_WORLD_H
