// Fuzzes the descriptions of GPU memory that members exchange: any input is refused with a sentence, or is one that an
// honest member could send; and a slice of NVSHMEM's arena chosen from it is free on all members.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>
#include <vector>

#include "common/error.h"
#include "cuda/memory/memory_blob.h"
#include "cuda/memory/nvshmem_memory.h"
#include "property.h"

namespace nvrar::fuzz {
namespace {

using cuda::MemoryAddress;
using cuda::MemoryBlob;
using cuda::UnitMap;

constexpr uint64_t kArenaBytes = 1 << 20;

MemoryBlob honest(const cuda::Home& home, uint32_t rank, cuda::WorldState state, uint64_t bytes) {
  MemoryBlob blob{};
  blob.magic = MemoryBlob::kMagic;
  blob.provider = cuda::MemoryProvider::kNvshmem;
  blob.home = home;
  blob.home.pid += static_cast<int32_t>(rank);
  blob.device.bytes[0] = static_cast<uint8_t>(rank);
  blob.bytes = bytes;
  const bool member = state == cuda::WorldState::kMember;
  blob.world = {member ? 77ULL : 0,
                static_cast<uint16_t>(member ? 7 - rank : 0),
                static_cast<uint16_t>(member ? 8 : 0),
                state,
                kArenaBytes,
                UnitMap::all_free()};
  return blob;
}

void require_plan(const std::vector<MemoryBlob>& blobs, const cuda::WorldPlan& plan, uint32_t rank) {
  require(plan.pes.size() == blobs.size(), "every rank has a PE");
  for (uint32_t r = 0; r < blobs.size(); ++r) {
    const uint32_t pes = plan.create ? static_cast<uint32_t>(blobs.size()) : blobs[rank].world.size;
    require(plan.pes[r] < pes, "a PE is one of the world");
    for (uint32_t before = 0; before < r; ++before) require(plan.pes[before] != plan.pes[r], "PEs differ");
  }
  require(plan.units > 0 && plan.first_unit + plan.units <= UnitMap::kUnits, "a slice is in the arena");
  require(plan.units * (kArenaBytes / UnitMap::kUnits) >= blobs[rank].bytes, "a slice holds what was asked for");
  for (uint32_t unit = plan.first_unit; !plan.create && unit < plan.first_unit + plan.units; ++unit) {
    for (const MemoryBlob& blob : blobs) require(blob.world.free.is_free(unit), "a slice is free for all members");
  }
}

void try_addresses(const cuda::Home& home, const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const auto world = input.ConsumeIntegralInRange<uint32_t>(1, 8);
  const auto rank = input.ConsumeIntegralInRange<uint32_t>(0, world - 1);
  const auto state = input.ConsumeBool() ? cuda::WorldState::kMember : cuda::WorldState::kNone;
  const auto bytes = input.ConsumeIntegralInRange<uint64_t>(1, kArenaBytes);
  std::vector<MemoryAddress> addresses;
  for (uint32_t r = 0; r < world; ++r) addresses.push_back(cuda::address_of(honest(home, r, state, bytes)));
  MemoryBlob own;
  std::memcpy(&own, addresses[rank].bytes, sizeof own);
  while (input.remaining_bytes() > 0) {
    const auto of = input.ConsumeIntegralInRange<uint32_t>(0, world - 1);
    const auto at = input.ConsumeIntegralInRange<size_t>(0, sizeof(MemoryAddress) - 1);
    const auto lie = input.ConsumeBytes<uint8_t>(input.ConsumeIntegralInRange<size_t>(1, sizeof(MemoryAddress) - at));
    std::copy(lie.begin(), lie.end(), addresses[of].bytes + at);
  }
  try {
    const std::vector<MemoryBlob> blobs = cuda::read_addresses(addresses, {}, own, rank, world);
    for (const MemoryBlob& blob : blobs) {
      require(blob.bytes == own.bytes && blob.provider == own.provider, "what is read is of the same kind and size");
    }
    require_plan(blobs, cuda::plan_world(blobs, rank), rank);
  } catch (const Error& error) {
    require_sentence(error.what());
  }
}

}  // namespace
}  // namespace nvrar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const nvrar::cuda::Home home = nvrar::cuda::this_home();
  nvrar::fuzz::try_addresses(home, data, size);
  return 0;
}
