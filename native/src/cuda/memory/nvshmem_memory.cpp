#include "cuda/memory/nvshmem_memory.h"

#include <cstring>
#include <string>

#include "common/error.h"
#include "cuda/memory/leftovers.h"

namespace nvrar::cuda {
namespace {

std::string state_text(const WorldPart& world) {
  switch (world.state) {
    case WorldState::kUnusable:
      return "cannot use NVSHMEM";
    case WorldState::kNone:
      return "is in no NVSHMEM world yet";
    case WorldState::kMember:
      return "is in an NVSHMEM world of " + std::to_string(world.size);
    case WorldState::kBusy:
      return "is making another group";
  }
  return "is in an unknown state";
}

// Checks every pair of members for combinations that NVSHMEM does not support.
void check_pairs(const std::vector<MemoryBlob>& blobs) {
  for (uint32_t b = 1; b < blobs.size(); ++b) {
    for (uint32_t a = 0; a < b; ++a) {
      const std::string both = place_of(a, blobs[a]) + " and " + place_of(b, blobs[b]);
      if (same_process(blobs[a].home, blobs[b].home)) {
        throw Error(NVRAR_UNAVAILABLE, both + " are in one process: NVSHMEM supports one rank per process");
      }
      if (std::memcmp(&blobs[a].device, &blobs[b].device, sizeof(Uuid)) == 0) {
        throw Error(NVRAR_UNAVAILABLE, both + " have the same GPU: NVSHMEM wants one of its own for every rank");
      }
      if (blobs[a].home.host_name_hash != blobs[b].home.host_name_hash) {
        throw Error(NVRAR_UNAVAILABLE,
                    both +
                        " are on one host but see different names of it: NVSHMEM identifies hosts by "
                        "name (containers need one --uts or --hostname)");
      }
    }
  }
}

}  // namespace

WorldPlan plan_world(const std::vector<MemoryBlob>& blobs, uint32_t rank) {
  check_pairs(blobs);
  const WorldPart& own = blobs[rank].world;
  UnitMap free = UnitMap::all_free();
  WorldPlan plan;
  plan.create = own.state == WorldState::kNone;
  for (uint32_t r = 0; r < blobs.size(); ++r) {
    const WorldPart& peer = blobs[r].world;
    const std::string both =
        place_of(r, blobs[r]) + " " + state_text(peer) + ", " + place_of(rank, blobs[rank]) + " " + state_text(own);
    const bool usable = peer.state == WorldState::kNone || peer.state == WorldState::kMember;
    if (!usable || peer.state != own.state) {
      throw Error(usable ? NVRAR_MISMATCH : NVRAR_UNAVAILABLE,
                  both + ": a process is in one NVSHMEM world at most, and a group in one");
    }
    if (!plan.create && peer.id != own.id) {
      throw Error(NVRAR_MISMATCH, both + ", and these are two: a group has all its members in one NVSHMEM world");
    }
    if (peer.arena_bytes != own.arena_bytes || peer.size != own.size) {
      throw Error(NVRAR_MISMATCH, "rank " + std::to_string(r) + " gives NVSHMEM an arena of " +
                                      std::to_string(peer.arena_bytes) + " bytes (cuda.arenaBytes), this rank (" +
                                      std::to_string(rank) + ") one of " + std::to_string(own.arena_bytes));
    }
    const uint32_t pe = plan.create ? r : peer.pe;
    for (uint32_t before = 0; before < r; ++before) {
      if (plan.pes[before] == pe) {
        throw Error(NVRAR_INVALID_ARGUMENT, "ranks " + std::to_string(before) + " and " + std::to_string(r) +
                                                " claim to be the same PE of the NVSHMEM world");
      }
    }
    if (!plan.create && pe >= own.size) {
      throw Error(NVRAR_INVALID_ARGUMENT, "rank " + std::to_string(r) + " says that it is PE " + std::to_string(pe) +
                                              " of an NVSHMEM world of " + std::to_string(own.size));
    }
    plan.pes.push_back(pe);
    free.intersect(plan.create ? UnitMap::all_free() : peer.free);
  }
  const uint64_t unit_bytes = own.arena_bytes / UnitMap::kUnits;
  const uint64_t bytes = blobs[rank].bytes;
  if (bytes > own.arena_bytes) {
    throw Error(NVRAR_UNAVAILABLE, "a group that needs " + std::to_string(bytes) +
                                       " bytes on each rank does not fit NVSHMEM's arena of " +
                                       std::to_string(own.arena_bytes) + " bytes (cuda.arenaBytes)");
  }
  plan.units = static_cast<uint32_t>((bytes + unit_bytes - 1) / unit_bytes);
  plan.first_unit = free.first_fit(plan.units);
  if (plan.first_unit == UnitMap::kNone) {
    throw Error(NVRAR_UNAVAILABLE, "NVSHMEM's arena of " + std::to_string(own.arena_bytes) +
                                       " bytes (cuda.arenaBytes) has no room for a group that needs " +
                                       std::to_string(bytes) + " bytes on each rank: free on all of them are at most " +
                                       std::to_string(free.longest_run() * unit_bytes) + " in one piece");
  }
  return plan;
}

NvshmemMemory::NvshmemMemory(const MemoryConfig& config)
    : config_(config), context_(std::make_shared<PrimaryContext>(config.device)) {
  blob_ = make_blob(config, context_->uuid());
  blob_.world = NvshmemWorld::of_process().reserve(config.nvshmem);
}

NvshmemMemory::NvshmemMemory(const MemoryConfig& config, std::shared_ptr<const PrimaryContext> context,
                             const MemoryBlob& blob)
    : config_(config), context_(std::move(context)), blob_(blob) {}

NvshmemMemory::~NvshmemMemory() {
  NvshmemWorld& world = NvshmemWorld::of_process();
  if (slice_ == nullptr) {
    world.withdraw();
  } else if (end_ != GroupEnd::kOrderly) {
    if (end_ == GroupEnd::kMemberLost) world.lose("a member of one of its groups was lost or aborted");
    leave_behind(std::move(all_left_), std::move(slice_));
  }
}

void NvshmemMemory::map(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere) {
  const std::vector<MemoryBlob> blobs = read_addresses(of_ranks, elsewhere, blob_, config_.rank, config_.world);
  if (!elsewhere.empty()) {
    throw Error(NVRAR_UNAVAILABLE, "memory of NVSHMEM is for groups of one host, and this group spans several");
  }
  const WorldPlan plan = plan_world(blobs, config_.rank);
  require_links(blobs);
  NvshmemWorld& world = NvshmemWorld::of_process();
  if (plan.create) world.create(config_.nvshmem, config_.nvshmem_id, config_.rank, config_.world, context_);
  for (const uint32_t pe : plan.pes) addresses_.push_back(world.address_of(pe, plan.first_unit));
  slice_ = world.settle(plan.first_unit, plan.units);
}

}  // namespace nvrar::cuda
