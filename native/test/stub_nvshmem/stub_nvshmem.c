// A stand-in for NVSHMEM's libnvshmem_host.so.3: PEs are processes of one host, their heaps memory files that all of
// them map. It is as unforgiving as the real one: what ends the process there ends it here, what waits for ever there
// waits here. Failures are ordered by variables of the environment:
//
//   STUB_NVSHMEM_VERSION=3.2.5    what it says it is; 3.4.5 without it
//   STUB_NVSHMEM_STATUS=1         what is left of an initialisation that returned 0; 2 without it. 3: a shared GPU
//   STUB_NVSHMEM_FAIL=WHAT        "id", "init": that call returns 7; "malloc": no memory; "init_waits": never returns
//   STUB_NVSHMEM_WRONG_PE=1       it makes everybody another PE than asked for
//   STUB_NVSHMEM_FAR_PE=2         nobody else maps that PE's heap
//   STUB_NVSHMEM_INITIALISED=1    somebody in this process initialised it before
//
// A missing symbol cannot be ordered: the library in the folder "incomplete" lacks nvshmem_ptr. The one in "newer" was
// built with a CUDA toolkit that no driver is new enough for.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kMaxPes = 8, kFailed = 7, kBootstrapped = 1, kInitialised = 2, kRevision1Id = (1 << 16) + 128 };
enum { kMisused = 255, kMulticastOn = 97, kWrongAttributes = 98 };  // exit codes

typedef struct UniqueId {
  int version;
  int pid;       // whose board it is: the root, as in the real one
  int board_fd;  // in that process
  char unused[116];
} UniqueId;

typedef struct InitAttributes {
  int version;
  void* mpi_communicator;
  int arguments_version;
  int padding;
  int id_version;
  const UniqueId* id;
  int rank;
  int ranks;
  int device;
  char unused[92];
} InitAttributes;
_Static_assert(sizeof(UniqueId) == 128 && sizeof(InitAttributes) == 144, "the layout of NVSHMEM's headers");

// Where PEs meet.
typedef struct Board {
  atomic_int arrived[64];
  struct {
    int pid;
    int heap_fd;
    size_t heap_bytes;
  } pe[kMaxPes];
} Board;

static Board* g_board;
static int g_status;
static int g_pe;
static int g_pes;
static int g_meetings;
static void* g_heaps[kMaxPes];
static size_t g_heap_bytes;

#ifdef STUB_NVSHMEM_NEWER
__attribute__((used)) static const char kSource[] = "/somewhere/toolkit/r99.1/main_nvshmem/src/host/init/init.cu";
#endif

static int ordered(const char* what) {
  const char* order = getenv("STUB_NVSHMEM_FAIL");
  return order != NULL && strcmp(order, what) == 0;
}

static long setting(const char* name, long otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : strtol(value, NULL, 10);
}

static void require(int condition, int code) {
  if (!condition) _exit(code);
}

static void* map(int fd, size_t bytes) {
  void* base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  require(base != MAP_FAILED, kMisused);
  return base;
}

static void* map_of_process(int pid, int fd, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  int opened = open(path, O_RDWR | O_CLOEXEC);
  if (opened < 0) return NULL;
  void* base = map(opened, bytes);
  close(opened);
  return base;
}

static void* new_memory(const char* name, size_t bytes, int* fd) {
  *fd = memfd_create(name, MFD_CLOEXEC);
  require(*fd >= 0 && ftruncate(*fd, (off_t)bytes) == 0, kMisused);
  return map(*fd, bytes);
}

// Waits for ever, as the real one does.
static void meet(void) {
  atomic_int* arrived = &g_board->arrived[g_meetings++];
  atomic_fetch_add(arrived, 1);
  while (atomic_load(arrived) < g_pes) usleep(200);
}

// The device is that of the calling thread's context, and without one there is only half an initialisation.
static int context_is_current(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*get_current)(void**) = driver == NULL ? NULL : (int (*)(void**))dlsym(driver, "cuCtxGetCurrent");
  void* context = NULL;
  return get_current != NULL && get_current(&context) == 0 && context != NULL;
}

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  const char* version = getenv("STUB_NVSHMEM_VERSION");
  require(sscanf(version == NULL ? "3.4.5" : version, "%d.%d.%d", major, minor, patch) == 3, kMisused);
}

int nvshmemx_init_status(void) { return g_status == 0 ? (int)setting("STUB_NVSHMEM_INITIALISED", 0) * 2 : g_status; }

int nvshmemx_get_uniqueid(UniqueId* id) {
  const char* multicast_off = getenv("NVSHMEM_DISABLE_NVLS");
  require(multicast_off != NULL && strcmp(multicast_off, "1") == 0, kMulticastOn);
  if (ordered("id")) return kFailed;
  memset(id, 0, sizeof *id);
  id->version = kRevision1Id;
  id->pid = getpid();
  munmap(new_memory("stub-nvshmem-board", sizeof(Board), &id->board_fd), sizeof(Board));
  return 0;
}

int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const UniqueId* id, InitAttributes* attributes) {
  attributes->id = id;
  attributes->rank = rank;
  attributes->ranks = ranks;
  return 0;
}

int nvshmemx_hostlib_init_attr(unsigned flags, InitAttributes* attributes) {
  const char* multicast_off = getenv("NVSHMEM_DISABLE_NVLS");
  require(multicast_off != NULL && strcmp(multicast_off, "1") == 0, kMulticastOn);
  int major, minor, patch;
  nvshmemx_vendor_get_version_info(&major, &minor, &patch);
  int revision = major > 3 || minor >= 5 ? 2 : 1;
  require(flags == 8 && attributes->version == (revision << 16) + 144 &&
              attributes->arguments_version == (revision << 16) + 128 && attributes->id_version == (1 << 16) + 24 &&
              attributes->id->version == kRevision1Id,
          kWrongAttributes);
  if (ordered("init_waits")) {
    for (;;) pause();
  }
  if (ordered("init")) return kFailed;
  g_pes = attributes->ranks;
  g_pe = attributes->rank;
  require(g_pes <= kMaxPes, kMisused);
  g_board = map_of_process(attributes->id->pid, attributes->id->board_fd, sizeof(Board));
  if (g_board == NULL) return kFailed;
  meet();
  g_status = context_is_current() ? (int)setting("STUB_NVSHMEM_STATUS", kInitialised) : kBootstrapped;
  return 0;
}

int nvshmem_my_pe(void) { return setting("STUB_NVSHMEM_WRONG_PE", 0) ? g_pe + 1 : g_pe; }

int nvshmem_n_pes(void) { return g_pes; }

void* nvshmem_malloc(size_t bytes) {
  require(g_status >= kInitialised, kMisused);
  if (ordered("malloc")) {
    meet();
    return NULL;
  }
  int fd;
  g_heaps[g_pe] = new_memory("stub-nvshmem-heap", bytes, &fd);
  g_heap_bytes = bytes;
  g_board->pe[g_pe].pid = getpid();
  g_board->pe[g_pe].heap_fd = fd;
  g_board->pe[g_pe].heap_bytes = bytes;
  meet();
  for (int pe = 0; pe < g_pes; pe++) {
    if (pe == g_pe || g_board->pe[pe].pid == 0) continue;
    g_heaps[pe] = map_of_process(g_board->pe[pe].pid, g_board->pe[pe].heap_fd, g_board->pe[pe].heap_bytes);
  }
  return g_heaps[g_pe];
}

#ifndef STUB_NVSHMEM_INCOMPLETE
void* nvshmem_ptr(const void* own, int pe) {
  require(g_status >= kInitialised, kMisused);
  ptrdiff_t offset = (const char*)own - (const char*)g_heaps[g_pe];
  if (pe < 0 || pe >= g_pes || offset < 0 || (size_t)offset >= g_heap_bytes) return NULL;
  if (pe != g_pe && setting("STUB_NVSHMEM_FAR_PE", -1) == pe) return NULL;
  return g_heaps[pe] == NULL ? NULL : (char*)g_heaps[pe] + offset;
}
#endif

// What must never be called here: it waits for PEs that may be dead.
void nvshmemx_hostlib_finalize(void) { _exit(kMisused); }
