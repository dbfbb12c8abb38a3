// The blobs that the caller carries between members.
#ifndef NVRAR_MEMBER_DESCRIPTOR_H
#define NVRAR_MEMBER_DESCRIPTOR_H

#include <nvrar.h>

#include <cstdint>

#include "cuda/driver/driver.h"
#include "cuda/memory/symmetric_memory.h"
#include "cuda/nvshmem/nvshmem_config.h"
#include "link/link_address.h"
#include "member/host_key.h"
#include "shared/shared_segment.h"

namespace nvrar {

struct UniqueId {
  static constexpr uint64_t kMagic = 0x44495241'52564E31ULL;
  uint64_t magic;
  int32_t backend;
  uint32_t reserved;
  uint8_t random[32];
  uint8_t nvshmem[cuda::kNvshmemIdBytes];  // zero if NVSHMEM is not used
  uint8_t unused[NVRAR_UNIQUE_ID_BYTES - 176];
};
static_assert(sizeof(UniqueId) == NVRAR_UNIQUE_ID_BYTES);

struct Descriptor {
  static constexpr uint64_t kMagic = 0x53454452'52564E31ULL;
  uint64_t magic;
  uint32_t abi_version;
  int32_t backend;
  uint32_t rank;
  uint32_t world;
  uint64_t ring_bytes;
  uint64_t group_hash;
  shared::SegmentAddress segment;
  char build_id[64];  // as text, so that the message of a mismatch can name both builds
  uint64_t tuning_hash;
  uint32_t ranks_per_node;  // the world size if all ranks are in one node
  // Used by the CUDA backend only.
  uint32_t compute_capability;  // 10 * major + minor
  uint32_t multiprocessors;
  uint32_t places_per_multiprocessor;  // cuda/launch/occupancy.h
  uint32_t concurrent_groups;
  uint32_t exclusive;
  uint32_t programmatic_launch;
  uint32_t most_in_cluster;  // cuda/launch/device.h
  uint8_t device_uuid[sizeof(cuda::Uuid)];
  uint8_t memory[cuda::kMemoryAddressBytes];
  HostKey host;
  // Of links.
  link::LinkAddress link;
  int32_t links;               // NVRAR_LINKS_*
  uint32_t link_security;      // NVRAR_LINK_*
  uint32_t network_namespace;  // member/host_key.h
  uint32_t quota_group;        // common/cgroup.h
  uint32_t link_threads;       // of a rank on a GPU
  uint8_t unused[NVRAR_DESCRIPTOR_BYTES - 456];
};
static_assert(sizeof(Descriptor) == NVRAR_DESCRIPTOR_BYTES);

}  // namespace nvrar

#endif  // NVRAR_MEMBER_DESCRIPTOR_H
