#include "cuda/memory/device_memory.h"

#include <cstring>

#include "common/error.h"
#include "common/random.h"
#include "cuda/memory/memory_blob.h"

namespace nvrar::cuda {
namespace {

// The driver packs smaller allocations into one page, and an IPC handle maps the whole page (cuIpcGetMemHandle).
constexpr uint64_t kPageBytes = 2 << 20;

constexpr uint64_t id_offset(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

uint64_t allocation_bytes(uint64_t bytes) {
  return (id_offset(bytes) + sizeof(uint64_t) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

void require_link(DeviceHandle own, DeviceHandle peer, const std::string& own_place, const std::string& peer_place) {
  if (own == peer) return;
  int can = 0;
  check(driver().cuDeviceCanAccessPeer(&can, own, peer), "asking for peer access");
  if (can == 0) {
    throw Error(NVRAR_UNAVAILABLE, "the GPU of " + own_place + " cannot access the memory of the GPU of " + peer_place +
                                       ": there is no peer access between them (see nvidia-smi topo -p2p rw)");
  }
  // A packet is one relaxed access of 16 bytes at system scope, and the protocol relies on it never being seen in
  // halves. Between GPUs such an access is atomic if their link supports atomics natively, as NVLink does; a PCIe
  // bridge may split a store. The driver has no other query that distinguishes the two links.
  int native_atomics = 0;
  check(driver().cuDeviceGetP2PAttribute(&native_atomics, kNativeAtomicsSupported, own, peer),
        "asking for the link between two GPUs");
  if (native_atomics != 0) return;
  throw Error(NVRAR_UNAVAILABLE, "the GPU of " + own_place + " and that of " + peer_place +
                                     " have no NVLink between them, and over PCIe a packet may not arrive whole: they "
                                     "cannot be in one group (see nvidia-smi topo -m)");
}

}  // namespace

std::optional<DeviceHandle> visible_device(const Uuid& uuid) {
  const Driver& cuda = driver();
  int count = 0;
  check(cuda.cuDeviceGetCount(&count), "counting the devices");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceHandle device = 0;
    Uuid its{};
    check(cuda.cuDeviceGet(&device, ordinal), "getting a device");
    check(cuda.cuDeviceGetUuid_v2(&its, device), "reading a device's UUID");
    if (std::memcmp(&its, &uuid, sizeof uuid) == 0) return device;
  }
  return std::nullopt;
}

// Pairs of other ranks are checked, too: those ranks would refuse, and this rank would wait for them.
void require_links(const std::vector<MemoryBlob>& blobs) {
  std::vector<std::optional<DeviceHandle>> devices;
  for (const MemoryBlob& blob : blobs) devices.push_back(visible_device(blob.device));
  for (uint32_t a = 0; a < blobs.size(); ++a) {
    for (uint32_t b = a + 1; b < blobs.size(); ++b) {
      if (!devices[a] || !devices[b]) continue;
      require_link(*devices[a], *devices[b], place_of(a, blobs[a]), place_of(b, blobs[b]));
      require_link(*devices[b], *devices[a], place_of(b, blobs[b]), place_of(a, blobs[a]));
    }
  }
}

DeviceMemory::DeviceMemory(std::shared_ptr<const PrimaryContext> context, uint64_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
  while (id_ == 0) random_bytes(&id_, sizeof id_);
  const CurrentContext current(context_->get());
  const uint64_t size = allocation_bytes(bytes_);
  check(driver().cuMemAlloc_v2(&address_, size),
        ("allocating " + std::to_string(size) + " bytes on " + text_of(context_->uuid())).c_str());
  const Result written = copy_to_gpu(address_ + id_offset(bytes_), &id_, sizeof id_);
  if (written == kSuccess) return;
  (void)driver().cuMemFree_v2(address_);
  check(written, "writing to memory that was just allocated");
}

DeviceMemory::~DeviceMemory() {
  // In a broken context nothing can be freed; the process has to end.
  if (const ContextScope scope(context_->get()); scope) (void)driver().cuMemFree_v2(address_);
}

IpcMemoryHandle DeviceMemory::ipc_handle() const {
  const CurrentContext current(context_->get());
  IpcMemoryHandle handle{};
  check(driver().cuIpcGetMemHandle(&handle, address_), "getting a CUDA IPC handle");
  return handle;
}

uint64_t DeviceMemory::id_behind(DeviceAddress base, uint64_t bytes) {
  uint64_t id = 0;
  check(copy_from_gpu(&id, base + id_offset(bytes), sizeof id), "reading a peer's memory");
  return id;
}

}  // namespace nvrar::cuda
