#include "shared/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "common/error.h"
#include "common/random.h"
#include "shared/memory_room.h"

namespace nvrar::shared {
namespace {

constexpr char kSegmentName[] = "nvrar";  // visible only in /proc/<pid>/fd
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string reason(int error) { return std::string(::strerrordesc_np(error)); }

// Why this process may not open the files of another, as a clause.
std::string lack_of_permission(const std::string& process) {
  const FileDescriptor file(::open(("/proc/" + process + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096] = {};
  const bool read = file && ::read(file.get(), text, sizeof text - 1) > 0;
  // The real, the effective and the saved one must be this process's.
  const auto differs = [&](const char* field, unsigned own) {
    const char* const line = read ? std::strstr(text, field) : nullptr;
    unsigned ids[3] = {own, own, own};
    if (line != nullptr) (void)std::sscanf(line + std::strlen(field), "%u %u %u", &ids[0], &ids[1], &ids[2]);
    for (const unsigned id : ids) {
      if (id != own) return std::optional(id);
    }
    return std::optional<unsigned>();
  };
  const auto both_run_as = [](const std::string& kind, unsigned theirs, unsigned own) {
    return "it runs as " + kind + std::to_string(theirs) + " and this process as " + kind + std::to_string(own);
  };
  if (const auto user = differs("\nUid:", ::geteuid())) return both_run_as("user ", *user, ::geteuid());
  if (const auto group = differs("\nGid:", ::getegid())) return both_run_as("group ", *group, ::getegid());
  return "it has capabilities that this process lacks, or the kernel protects it as it does programs with file "
         "capabilities or a change of user (CAP_SYS_PTRACE)";
}

Mapping map_shared(const FileDescriptor& file, uint64_t bytes, bool populated,
                   int protection = PROT_READ | PROT_WRITE) {
  const int flags = MAP_SHARED | (populated ? MAP_POPULATE : 0);
  void* base = ::mmap(nullptr, bytes, protection, flags, file.get(), 0);
  return base == MAP_FAILED ? Mapping() : Mapping(base, bytes);
}

}  // namespace

SharedSegment SharedSegment::create(const protocol::RingLayout* rings, uint32_t rank, uint32_t sharers,
                                    uint64_t group_hash) {
  const uint64_t bytes = kControlBytes + (rings == nullptr ? 0 : rings->total_bytes());
  SharedSegment segment;
  segment.file_ = FileDescriptor(::memfd_create(kSegmentName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.file_) throw Error(NVRAR_SYSTEM, "cannot create a shared memory segment: " + reason(errno));
  // The memory is reserved before use, so that a full tmpfs or a quota is an error here and not a SIGBUS later.
  reserve_in_steps(
      bytes, sharers, [] { return memory_room(); },
      [&](uint64_t offset, uint64_t step) {
        int failed = 0;
        do {
          failed = ::fallocate(segment.file_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(step)) == 0
                       ? 0
                       : errno;
        } while (failed == EINTR);
        if (failed != 0) {
          throw Error(NVRAR_SYSTEM, "there is no room for a shared memory segment of " + std::to_string(bytes) +
                                        " bytes: " + reason(failed) + "; a smaller ring_bytes needs less");
        }
      });
  // Shrinking the segment would cause a SIGBUS in every process that has mapped it.
  if (::fcntl(segment.file_.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    throw Error(NVRAR_SYSTEM, "cannot fix the size of a shared memory segment: " + reason(errno));
  }
  segment.mapping_ = map_shared(segment.file_, bytes, true);
  if (!segment.mapping_) {
    throw Error(NVRAR_SYSTEM,
                "cannot map a shared memory segment of " + std::to_string(bytes) + " bytes: " + reason(errno));
  }

  auto* control = new (segment.mapping_.base()) ControlBlock;
  control->segment_bytes = bytes;
  control->rank = rank;
  control->group_hash = group_hash;
  control->owner_base = reinterpret_cast<uint64_t>(segment.mapping_.base());
  random_bytes(control->nonce, sizeof control->nonce);
  if (rings != nullptr) {  // the rest is zero, as the kernel provides it: epoch 0 is never used
    std::memset(segment.rings() + rings->sentinel_begin(), 0xFF,
                (rings->sentinel_end() - rings->sentinel_begin()) * protocol::kPacketBytes);
  }
  return segment;
}

SharedSegment SharedSegment::of_remote(uint32_t rank, uint64_t group_hash) {
  SharedSegment segment;
  void* const base = ::mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    throw Error(NVRAR_SYSTEM, "cannot reserve memory for a rank on another host: " + reason(errno));
  segment.mapping_ = Mapping(base, kControlBytes);
  auto* control = new (base) ControlBlock;
  control->rank = rank;
  control->group_hash = group_hash;
  return segment;
}

SegmentAddress SharedSegment::address() const noexcept {
  SegmentAddress address{};
  address.pid = ::getpid();
  address.fd = file_.get();
  address.bytes = mapping_.bytes();
  std::memcpy(address.nonce, control().nonce, kNonceBytes);
  return address;
}

SharedSegment SharedSegment::map_peer(const SegmentAddress& address, uint32_t rank, uint64_t group_hash,
                                      bool populated) {
  return map(address, rank, group_hash, populated, false);
}

SharedSegment SharedSegment::map_to_look(const SegmentAddress& address, uint32_t rank, uint64_t group_hash) {
  return map(address, rank, group_hash, false, true);
}

SharedSegment SharedSegment::map(const SegmentAddress& address, uint32_t rank, uint64_t group_hash, bool populated,
                                 bool to_look) {
  const auto unreachable = [&](const std::string& why) {
    return Error(NVRAR_SYSTEM, "rank " + std::to_string(rank) + " (pid " + std::to_string(address.pid) +
                                   ") is not on this host or not visible from this process: " + why);
  };
  const std::string process = address.pid == ::getpid() ? "self" : std::to_string(address.pid);
  const std::string path = "/proc/" + process + "/fd/" + std::to_string(address.fd);
  const auto closed = [&](int error) {
    if (error != EACCES && error != EPERM) return unreachable(path + ": " + reason(error));
    return Error(NVRAR_SYSTEM, "rank " + std::to_string(rank) + " (pid " + std::to_string(address.pid) +
                                   ") is on this host, and this process may not open its memory (" + path + ": " +
                                   reason(error) + "): " + lack_of_permission(process));
  };
  // The link is read before the file is opened: opening an arbitrary device or pipe could block or have side effects.
  char target[64] = {};
  if (::readlink(path.c_str(), target, sizeof target - 1) < 0) throw closed(errno);
  if (std::strncmp(target, "/memfd:nvrar", 12) != 0) throw unreachable(path + " is no segment of a group");

  // The name may lie, or the descriptor have been reused since: not even a pipe without a writer keeps this waiting.
  const int access = to_look ? O_RDONLY : O_RDWR;
  const FileDescriptor file(::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) throw closed(errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw unreachable(path + ": " + reason(errno));
  if (static_cast<uint64_t>(status.st_size) != address.bytes || address.bytes < kControlBytes)
    throw unreachable(path + " has another size");
  const int seals = ::fcntl(file.get(), F_GET_SEALS);  // negative for a file that is not a memfd
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) throw unreachable(path + " could change its size");

  SharedSegment segment;
  segment.mapping_ =
      to_look ? map_shared(file, kControlBytes, false, PROT_READ) : map_shared(file, address.bytes, populated);
  if (!segment.mapping_) {
    throw Error(NVRAR_SYSTEM, "cannot map the segment of rank " + std::to_string(rank) + " (" +
                                  std::to_string(address.bytes) + " bytes): " + reason(errno));
  }
  const ControlBlock& control = segment.control();
  if (control.magic != kSegmentMagic || control.segment_bytes != address.bytes || control.rank != rank ||
      control.group_hash != group_hash || std::memcmp(control.nonce, address.nonce, kNonceBytes) != 0) {
    throw unreachable(path + " belongs to another group");
  }
  return segment;
}

}  // namespace nvrar::shared
