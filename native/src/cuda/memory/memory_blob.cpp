#include "cuda/memory/memory_blob.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "common/hash.h"

namespace nvrar::cuda {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

std::string provider_text(MemoryProvider provider) {
  const char* const name = name_of(provider);
  return name != nullptr ? name : "a provider " + std::to_string(static_cast<uint32_t>(provider)) + " that is none";
}

}  // namespace

const char* name_of(MemoryProvider provider) noexcept {
  switch (provider) {
    case MemoryProvider::kAutomatic:
      return "the provider of its choice";
    case MemoryProvider::kNvshmem:
      return "NVSHMEM";
    case MemoryProvider::kIpc:
      return "CUDA IPC";
    case MemoryProvider::kLocal:
      return "memory of one process";
  }
  return nullptr;
}

Home this_home() {
  Home home{};
  home.boot_id = read_boot_id();
  if (home.boot_id == BootId{}) {
    throw Error(NVRAR_SYSTEM, std::string("this host has no identity: ") + kBootIdFile + " is not readable");
  }
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0) {
    throw Error(NVRAR_SYSTEM, std::string("/proc/self/ns/pid: ") + ::strerrordesc_np(errno));
  }
  home.pid_namespace = static_cast<uint32_t>(status.st_ino);
  home.pid = ::getpid();
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) {
    throw Error(NVRAR_SYSTEM, std::string("this host has no name: ") + ::strerrordesc_np(errno));
  }
  home.host_name_hash = static_cast<uint32_t>(hash_bytes(name, std::strlen(name)));
  return home;
}

MemoryBlob make_blob(const MemoryConfig& config, const Uuid& device) {
  MemoryBlob blob{};
  blob.magic = MemoryBlob::kMagic;
  blob.provider = config.provider;
  blob.home = this_home();
  blob.flags = config.shared_devices ? MemoryBlob::kSharedDevices : 0;
  blob.device = device;
  blob.bytes = config.bytes;
  return blob;
}

MemoryAddress address_of(const MemoryBlob& blob) noexcept {
  MemoryAddress address;
  std::memcpy(address.bytes, &blob, sizeof blob);
  return address;
}

std::string text_of(const Uuid& device) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof device.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHexDigits[device.bytes[i] >> 4];
    text += kHexDigits[device.bytes[i] & 15];
  }
  return text;
}

std::string place_of(uint32_t rank, const MemoryBlob& blob) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(blob.home.pid) + ", " + text_of(blob.device) + ")";
}

std::vector<MemoryBlob> read_addresses(const std::vector<MemoryAddress>& of_ranks, const RankSet& elsewhere,
                                       const MemoryBlob& own, uint32_t rank, uint32_t world) {
  const auto invalid = [](const std::string& sentence) { return Error(NVRAR_INVALID_ARGUMENT, sentence); };
  if (of_ranks.size() != world) {
    throw invalid("there are memory addresses of " + std::to_string(of_ranks.size()) + " ranks for a group of " +
                  std::to_string(world));
  }
  std::vector<MemoryBlob> blobs(world);
  for (uint32_t r = 0; r < world; ++r) {
    if (elsewhere.has(r)) continue;
    MemoryBlob& peer = blobs[r];
    std::memcpy(&peer, of_ranks[r].bytes, sizeof peer);
    const std::string who = "rank " + std::to_string(r);
    const std::string self = "this rank (" + std::to_string(rank) + ")";
    if (peer.magic != MemoryBlob::kMagic) throw invalid("the memory address of " + who + " is none");
    if (r == rank && std::memcmp(&peer, &own, sizeof own) != 0) {
      throw invalid("the memory address of " + who + " is not the one that this member made");
    }
    if (peer.provider != own.provider) {
      throw Error(NVRAR_MISMATCH, who + " shares its memory by " + provider_text(peer.provider) + ", " + self + " by " +
                                      provider_text(own.provider));
    }
    if (peer.bytes != own.bytes) {
      throw Error(NVRAR_MISMATCH, who + " has " + std::to_string(peer.bytes) + " bytes of symmetric memory, " + self +
                                      " has " + std::to_string(own.bytes));
    }
    if (peer.flags != own.flags) {
      throw Error(NVRAR_MISMATCH, who + (peer.flags == 0 ? " does not let" : " lets") + " ranks share a GPU, " + self +
                                      (own.flags == 0 ? " does not" : " does"));
    }
    if (!same_kernel(peer.home, own.home)) {
      throw Error(NVRAR_UNAVAILABLE,
                  who + " is on another host than " + self + ": GPUs of several hosts cannot be one group");
    }
    if ((own.flags & MemoryBlob::kSharedDevices) != 0) continue;
    for (uint32_t before = 0; before < r; ++before) {
      if (std::memcmp(&blobs[before].device, &peer.device, sizeof peer.device) != 0) continue;
      throw invalid("ranks " + std::to_string(before) + " and " + std::to_string(r) + " have the same GPU, " +
                    text_of(peer.device) + ": every rank needs one of its own");
    }
  }
  return blobs;
}

}  // namespace nvrar::cuda
