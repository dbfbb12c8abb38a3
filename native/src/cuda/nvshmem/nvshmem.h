// libnvshmem_host.so.3, opened at run time. This header declares the part of NVSHMEM's host ABI that we use, so that
// compiling needs nothing from NVIDIA. Many NVSHMEM functions end the process if they are called in the wrong state
// (nvshmem_malloc before a complete initialisation, for example): only nvshmem_world.cpp calls them, and says why each
// call is safe.
#ifndef NVRAR_CUDA_NVSHMEM_NVSHMEM_H
#define NVRAR_CUDA_NVSHMEM_NVSHMEM_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/nvshmem/nvshmem_config.h"

namespace nvrar::cuda {

constexpr char kNvshmemLibrary[] = "libnvshmem_host.so.3";

// nvshmemx_uniqueid_t, nvshmemx_uniqueid_args_t, nvshmemx_init_args_t, nvshmemx_init_attr_t of 3.3.20 to 3.8.0. Their
// version is (revision << 16) + size. Revision 2 of the last two, new in 3.5, uses four former padding bytes for the
// device; everything else is the same.
struct NvshmemUniqueId {
  int32_t version;
  uint8_t content[124];
};
static_assert(sizeof(NvshmemUniqueId) == kNvshmemIdBytes);

struct NvshmemUniqueIdArguments {
  int32_t version;
  const NvshmemUniqueId* id;  // NVSHMEM keeps the pointer
  int32_t rank;
  int32_t ranks;
};
static_assert(sizeof(NvshmemUniqueIdArguments) == 24);

struct NvshmemInitArguments {
  int32_t version;
  NvshmemUniqueIdArguments unique_id;
  int32_t device;  // revision 2: ordinal
  uint8_t padding[92];
};
static_assert(sizeof(NvshmemInitArguments) == 128);
static_assert(offsetof(NvshmemInitArguments, unique_id) == 8 && offsetof(NvshmemInitArguments, device) == 32);

struct NvshmemInitAttributes {
  int32_t version;
  void* mpi_communicator;
  NvshmemInitArguments arguments;
};
static_assert(sizeof(NvshmemInitAttributes) == 144);
static_assert(offsetof(NvshmemInitAttributes, arguments) == 16);

constexpr unsigned kNvshmemInitWithUniqueId = 1 << 3;

// nvshmemx_init_status
enum NvshmemStatus : int {
  kNvshmemNotInitialized = 0,
  kNvshmemBootstrapped = 1,  // also the state after a failed initialisation that returned 0
  kNvshmemInitialized = 2,
  kNvshmemLimitedSharing = 3,  // several ranks on one GPU
  kNvshmemFullSharing = 4,
};

// X(result, name, arguments): the name as libnvshmem_host exports it.
#define NVRAR_NVSHMEM_FUNCTIONS(X)                                                                               \
  X(void, nvshmemx_vendor_get_version_info, (int* major, int* minor, int* patch))                                \
  X(int, nvshmemx_init_status, (void))                                                                           \
  X(int, nvshmemx_get_uniqueid, (NvshmemUniqueId*))                                                              \
  X(int, nvshmemx_set_attr_uniqueid_args, (int rank, int ranks, const NvshmemUniqueId*, NvshmemInitAttributes*)) \
  X(int, nvshmemx_hostlib_init_attr, (unsigned flags, NvshmemInitAttributes*))                                   \
  X(int, nvshmem_my_pe, (void))                                                                                  \
  X(int, nvshmem_n_pes, (void))                                                                                  \
  X(void*, nvshmem_malloc, (size_t bytes))                                                                       \
  X(void*, nvshmem_ptr, (const void* own, int pe))

struct NvshmemVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  bool at_least(int a, int b, int c) const noexcept;
  std::string text() const;
};

struct Nvshmem {
#define NVRAR_NVSHMEM_MEMBER(result, name, arguments) result(*name) arguments;
  NVRAR_NVSHMEM_FUNCTIONS(NVRAR_NVSHMEM_MEMBER)
#undef NVRAR_NVSHMEM_MEMBER
  NvshmemVersion version;
  std::string path;
};

// Opened once per process by the first caller; later calls get the same library, whatever their config. Does not
// initialise NVSHMEM and does not make it read its environment; only the version is queried. Throws NVRAR_UNAVAILABLE
// with every place that was tried and what was wrong there; the next call tries again.
const Nvshmem& nvshmem(const NvshmemConfig& config);

// The same for a place that the user names, "" for none. Also throws NVRAR_UNAVAILABLE if a library at another place is
// already open.
const Nvshmem& find_nvshmem(const std::string& place);

// The places where libnvshmem_host.so.3 may be, in the order in which they are tried. A bare name means the dynamic
// linker's own search.
std::vector<std::string> nvshmem_candidates(const NvshmemConfig& config);

// The site-packages directories in a command line. A Ray worker's class path contains that of Ray, and NVSHMEM may be
// installed beside Ray.
std::vector<std::string> site_packages_in(const std::string& command_line);

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_NVSHMEM_NVSHMEM_H
