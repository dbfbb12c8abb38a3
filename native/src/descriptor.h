// The blobs that the caller carries between members.
#ifndef NVRAR_DESCRIPTOR_H
#define NVRAR_DESCRIPTOR_H

#include <nvrar.h>

#include <cstdint>

#include "host/shared_segment.h"

namespace nvrar {

struct UniqueId {
  static constexpr uint64_t kMagic = 0x44495241'52564E31ULL;
  uint64_t magic;
  int32_t backend;
  uint32_t reserved;
  uint8_t random[32];
  uint8_t unused[NVRAR_UNIQUE_ID_BYTES - 48];
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
  host::SegmentAddress segment;
  char build_id[64];  // as text, so that the message of a mismatch can name both builds
  uint64_t tuning_hash;
  uint32_t ranks_per_node;  // the world size where all ranks are in one node
  uint8_t unused[NVRAR_DESCRIPTOR_BYTES - 148];
};
static_assert(sizeof(Descriptor) == NVRAR_DESCRIPTOR_BYTES);

}  // namespace nvrar

#endif  // NVRAR_DESCRIPTOR_H
