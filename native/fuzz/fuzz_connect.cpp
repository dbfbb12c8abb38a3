// Fuzzes the descriptors that a hostile member could send: nvrar_connect either maps the segments of this group or
// refuses with a sentence. It opens nothing else, and after a refusal nvrar_destroy frees everything.
#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <nvrar.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "member/descriptor.h"
#include "property.h"
#include "shared/control_block.h"

namespace nvrar::fuzz {
namespace {

constexpr int32_t kWorld = 3;
constexpr uint64_t kRingBytes = 8192;
constexpr uint64_t kHugeBytes = uint64_t{1} << 40;
constexpr uint32_t kChecksEvery = 1024;

nvrar_config config_of(int32_t rank) {
  nvrar_config config{};
  config.size = sizeof config;
  config.backend = NVRAR_BACKEND_CPU;
  config.rank = rank;
  config.world_size = kWorld;
  config.ring_bytes = kRingBytes;
  config.timeout_ns = 1'000'000'000;
  return config;
}

using Blob = std::array<uint8_t, NVRAR_DESCRIPTOR_BYTES>;

nvrar_comm* prepare(int32_t rank, const uint8_t* unique_id, Blob* blob) {
  const nvrar_config config = config_of(rank);
  nvrar_comm* comm = nullptr;
  require(nvrar_prepare(&config, nullptr, 0, unique_id, blob->data(), &comm) == NVRAR_OK, "a member can be prepared");
  return comm;
}

// A file that a hostile process could hold. It looks like rank 1's segment as far as `bytes` and `name` allow.
shared::SegmentAddress decoy(const char* name, uint64_t bytes, uint64_t group_hash, uint32_t rank = 1,
                             uint8_t nonce = 0) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  require(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0, "a decoy can be made");
  shared::SegmentAddress address{};
  address.pid = ::getpid();
  address.fd = fd;
  address.bytes = bytes;
  if (bytes < sizeof(shared::ControlBlock)) return address;
  void* base = ::mmap(nullptr, sizeof(shared::ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  require(base != MAP_FAILED, "a decoy can be mapped");
  auto* control = new (base) shared::ControlBlock;
  control->segment_bytes = bytes;
  control->rank = rank;
  control->group_hash = group_hash;
  control->nonce[0] = nonce;
  ::munmap(base, sizeof(shared::ControlBlock));
  require(::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "a decoy can be sealed");
  return address;
}

struct Stage {
  uint8_t unique_id[NVRAR_UNIQUE_ID_BYTES];
  std::array<nvrar_comm*, kWorld> members{};
  nvrar_comm* other_member;
  std::array<Blob, kWorld> blobs{};
  std::vector<shared::SegmentAddress> decoys;
  Belongings before;

  Stage() {
    require(nvrar_unique_id(NVRAR_BACKEND_CPU, unique_id) == NVRAR_OK, "an id can be made");
    for (size_t rank = 0; rank < kWorld; ++rank) {
      members[rank] = prepare(static_cast<int32_t>(rank), unique_id, &blobs[rank]);
    }

    uint8_t other_id[NVRAR_UNIQUE_ID_BYTES];
    require(nvrar_unique_id(NVRAR_BACKEND_CPU, other_id) == NVRAR_OK, "an id can be made");
    Blob other;
    other_member = prepare(1, other_id, &other);
    Descriptor descriptor;
    std::memcpy(&descriptor, other.data(), sizeof descriptor);
    decoys.push_back(descriptor.segment);  // of another group
    std::memcpy(&descriptor, blobs[1].data(), sizeof descriptor);
    const uint64_t bytes = descriptor.segment.bytes;
    const uint64_t group = descriptor.group_hash;
    decoys.push_back(decoy("nvrar", 4096, group));
    decoys.push_back(decoy("nvrar", sizeof(shared::ControlBlock), group));
    decoys.push_back(decoy("nvrar", bytes - 4096, group));
    decoys.push_back(decoy("nvrar", bytes + 4096, group));
    decoys.push_back(decoy("nvrar", kHugeBytes, group));  // sparse: to populate it would take all memory
    decoys.push_back(decoy("another", bytes, group));
    decoys.push_back(decoy("nvrar", bytes, group, 0));     // right in all but its rank
    decoys.push_back(decoy("nvrar", bytes, group, 1, 9));  // in all but its nonce
    int pipes[2];
    require(::pipe2(pipes, O_CLOEXEC) == 0, "a pipe can be made");
    decoys.push_back({::getpid(), pipes[0], bytes, {}});
    decoys.push_back({::getpid(), ::open("/dev/zero", O_RDWR | O_CLOEXEC), bytes, {}});
    before = Belongings::now();
  }

  Descriptor member(size_t rank) const {
    Descriptor descriptor;
    std::memcpy(&descriptor, blobs[rank].data(), sizeof descriptor);
    return descriptor;
  }

  void replace_member() {
    require(nvrar_destroy(members[0]) == NVRAR_OK, "a member can be destroyed");
    members[0] = prepare(0, unique_id, &blobs[0]);
  }
};

void mutate(FuzzedDataProvider& input, const Stage& stage, Descriptor* descriptor) {
  switch (input.ConsumeIntegralInRange(0, 4)) {
    case 0:
      break;
    case 1:
      descriptor->segment = stage.decoys[input.ConsumeIntegralInRange<size_t>(0, stage.decoys.size() - 1)];
      break;
    case 2: {  // a few bytes anywhere
      auto* bytes = reinterpret_cast<uint8_t*>(descriptor);
      const size_t offset = input.ConsumeIntegralInRange<size_t>(0, sizeof *descriptor - 1);
      const auto patch = input.ConsumeBytes<uint8_t>(std::min<size_t>(16, sizeof *descriptor - offset));
      std::copy(patch.begin(), patch.end(), bytes + offset);
      break;
    }
    case 3:
      descriptor->segment.pid = input.ConsumeIntegral<int32_t>();
      descriptor->segment.fd = input.ConsumeIntegral<int32_t>();
      break;
    default: {
      const auto whole = input.ConsumeBytes<uint8_t>(sizeof *descriptor);
      std::copy(whole.begin(), whole.end(), reinterpret_cast<uint8_t*>(descriptor));
      break;
    }
  }
}

void try_connect(Stage& stage, const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  std::array<Descriptor, kWorld> descriptors;
  for (size_t rank = 0; rank < kWorld; ++rank) {
    const size_t from = input.ConsumeBool() ? rank : input.ConsumeIntegralInRange<size_t>(0, kWorld - 1);
    std::memcpy(&descriptors[rank], stage.blobs[from].data(), sizeof descriptors[rank]);
    mutate(input, stage, &descriptors[rank]);
  }

  const nvrar_status status = nvrar_connect(stage.members[0], reinterpret_cast<const uint8_t*>(descriptors.data()));
  if (status != NVRAR_OK) {
    const HostKey host = stage.member(0).host;
    const bool on_other_hosts = std::any_of(descriptors.begin(), descriptors.end(), [&](const Descriptor& each) {
      return std::memcmp(&each.host, &host, sizeof host) != 0;
    });
    require(status == NVRAR_INVALID_ARGUMENT || status == NVRAR_MISMATCH || status == NVRAR_SYSTEM ||
                (status == NVRAR_UNAVAILABLE && on_other_hosts),
            "a bad descriptor is the caller's mistake, a mismatch, nothing to reach, or on another host without links");
    require_sentence(nvrar_last_error());
    return;
  }
  for (size_t rank = 0; rank < kWorld; ++rank) {
    const shared::SegmentAddress expected = stage.member(rank).segment;
    require(std::memcmp(&descriptors[rank].segment, &expected, sizeof expected) == 0,
            "nothing but this group's segments is mapped");
  }
  stage.replace_member();
}

}  // namespace
}  // namespace nvrar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static nvrar::fuzz::Stage stage;
  static uint32_t runs = 0;
  nvrar::fuzz::try_connect(stage, data, size);
  if (++runs % nvrar::fuzz::kChecksEvery == 0) {
    stage.replace_member();
    nvrar::fuzz::Belongings::require_as(stage.before);
  }
  return 0;
}
