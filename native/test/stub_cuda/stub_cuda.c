// A stand-in for NVIDIA's libcuda.so.1 that is no GPU: memory is host memory, a stream runs what is submitted at once,
// a capture records copies and sets and a graph runs them again. Every failure that a real driver has can be ordered by
// a variable of the environment, so that what is said about it can be tested on any machine:
//
//   STUB_CUDA_DEVICES=2               the number of devices, 0 to 8; 1 without it, and with 0 cuInit finds none
//   STUB_CUDA_FIRST_DEVICE=2          the first device that this process sees, as with CUDA_VISIBLE_DEVICES
//   STUB_CUDA_SAME_UUID=1             all devices are one
//   STUB_CUDA_PEER_ACCESS=0           no device can access another one's memory
//   STUB_CUDA_MEMORY=1000000          bytes of each device; 1 GiB without it
//   STUB_CUDA_DRIVER_VERSION=11080    what cuDriverGetVersion says; 13000 without it
//   STUB_CUDA_FAIL=NAME:ERROR:N,...   from its N-th call on the function NAME fails with that error, a number;
//                                     one that breaks the context stays, for all functions, as with a driver
//
// A missing symbol cannot be ordered: the library in the folder "incomplete" lacks cuGraphLaunch.
//
// A call that needs a context fails where the calling thread has none, a handle or an address that is not alive is
// refused, and an address of one device is no address on another: what a real driver would forgive or crash on fails
// here.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

enum {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCapturedEvent = 907
};

static const struct Error {
  CUresult code;
  const char* name;
  const char* text;
} kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {721, "CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not initiated in this stream / not joined to it"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"}};

// Errors after which a context never works again.
static int is_sticky(CUresult code) { return code == 214 || code == 700 || code == 719 || code == 721; }

// What lives: contexts are the devices' primary ones, graphs are lists of copies and sets.

enum { kMaxDevices = 8 };

typedef struct Context {
  CUdevice device;
  int retained;
  size_t used_bytes;
  unsigned peers;  // bit d: access to device d was enabled
} Context;

typedef enum { kDeviceMemory, kHostMemory, kPeerMemory } MemoryKind;

typedef enum { kAllocation, kStream, kEvent, kGraph, kExecutable } Kind;

// One list of all that lives, so that a handle can be checked before it is believed.
typedef struct Object {
  struct Object* next;
  Kind kind;
  Context* context;
} Object;

typedef struct Allocation {
  Object object;
  MemoryKind memory;
  void* base;
  size_t bytes;
  int fd;  // of device memory, a file that other processes can map; -1 where it is a mapping of theirs
} Allocation;

typedef struct Operation {
  struct Operation* next;
  void* target;
  const void* source;  // null: a set
  uint32_t value;
  size_t element_bytes;
  size_t bytes;
} Operation;

typedef struct Graph {
  Object object;
  Operation* first;
  Operation** end;
} Graph;

typedef struct Stream {
  Object object;
  Graph* capture;
  int is_origin;
} Stream;

typedef struct Event {
  Object object;
  Graph* capture;
  int is_recorded;
  struct timespec at;
} Event;

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static int g_initialized;
static CUresult g_sticky;
static Context g_contexts[kMaxDevices];
static Object* g_objects;
static _Thread_local Context* t_current;
enum { kMaxDepth = 16 };
static _Thread_local Context* t_pushed[kMaxDepth];
static _Thread_local int t_depth;

static long setting(const char* name, long otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : strtol(value, NULL, 10);
}

static int device_count(void) {
  long count = setting("STUB_CUDA_DEVICES", 1);
  return count < 0 ? 0 : count > kMaxDevices ? kMaxDevices : (int)count;
}

static size_t device_bytes(void) { return (size_t)setting("STUB_CUDA_MEMORY", 1L << 30); }

// What STUB_CUDA_FAIL orders for this call of a function. The table of counters is as long as any order is.
static CUresult ordered_failure(const char* function) {
  static struct Counter {
    const char* function;
    long calls;
  } counters[32];
  const char* order = getenv("STUB_CUDA_FAIL");
  size_t length = strlen(function);
  while (order != NULL && *order != '\0') {
    int code = 0;
    long from = 0;
    if (strncmp(order, function, length) == 0 && sscanf(order + length, ":%d:%ld", &code, &from) == 2) {
      size_t i = 0;
      while (counters[i].function != NULL && strcmp(counters[i].function, function) != 0) i++;
      counters[i].function = function;
      if (++counters[i].calls >= from) return code;
    }
    order = strchr(order, ',');
    order = order == NULL ? NULL : order + 1;
  }
  return kSuccess;
}

// Every function but those that say errors and versions begins here, with the lock taken.
static CUresult enter(const char* function, int needs_context) {
  pthread_mutex_lock(&g_lock);
  CUresult ordered = ordered_failure(function);
  if (g_sticky != kSuccess) return g_sticky;
  if (is_sticky(ordered)) g_sticky = ordered;
  if (ordered != kSuccess) return ordered;
  if (!g_initialized && strcmp(function, "cuInit") != 0) return kNotInitialized;
  if (needs_context && t_current == NULL) return kInvalidContext;
  return kSuccess;
}

static CUresult leave(CUresult result) {
  pthread_mutex_unlock(&g_lock);
  return result;
}

#define ENTER(needs_context)                           \
  do {                                                 \
    CUresult entered = enter(__func__, needs_context); \
    if (entered != kSuccess) return leave(entered);    \
  } while (0)
#define REQUIRE(condition, error)          \
  do {                                     \
    if (!(condition)) return leave(error); \
  } while (0)

static void add_object(Object* object, Kind kind) {
  object->kind = kind;
  object->context = t_current;
  object->next = g_objects;
  g_objects = object;
}

static void remove_object(Object* object) {
  Object** at = &g_objects;
  while (*at != object) at = &(*at)->next;
  *at = object->next;
  free(object);
}

static int lives(const void* handle, Kind kind) {
  for (Object* object = g_objects; object != NULL; object = object->next) {
    if (object == handle) return object->kind == kind;
  }
  return 0;
}

static Allocation* allocation_of(const void* address, size_t bytes) {
  for (Object* object = g_objects; object != NULL; object = object->next) {
    Allocation* allocation = (Allocation*)object;
    if (object->kind == kAllocation && (uintptr_t)address >= (uintptr_t)allocation->base &&
        (uintptr_t)address + bytes <= (uintptr_t)allocation->base + allocation->bytes) {
      return allocation;
    }
  }
  return NULL;
}

static int is_device_memory(const void* address, size_t bytes) {
  Allocation* allocation = allocation_of(address, bytes);
  return allocation != NULL && allocation->memory != kHostMemory;
}

static void* pointer(CUdeviceptr address) { return (void*)(uintptr_t)address; }

// Errors, version, devices.

static const struct Error* find_error(CUresult code) {
  for (size_t i = 0; i < sizeof kErrors / sizeof kErrors[0]; i++) {
    if (kErrors[i].code == code) return &kErrors[i];
  }
  return NULL;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  const struct Error* error = find_error(code);
  *name = error == NULL ? NULL : error->name;
  return error == NULL ? kInvalidValue : kSuccess;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  const struct Error* error = find_error(code);
  *text = error == NULL ? NULL : error->text;
  return error == NULL ? kInvalidValue : kSuccess;
}

CUresult cuDriverGetVersion(int* version) {
  *version = (int)setting("STUB_CUDA_DRIVER_VERSION", 13000);
  return kSuccess;
}

CUresult cuInit(unsigned flags) {
  ENTER(0);
  REQUIRE(flags == 0, kInvalidValue);
  REQUIRE(device_count() > 0, kNoDevice);
  g_initialized = 1;
  for (int i = 0; i < kMaxDevices; i++) g_contexts[i].device = i;
  return leave(kSuccess);
}

CUresult cuDeviceGetCount(int* count) {
  ENTER(0);
  *count = device_count();
  return leave(kSuccess);
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(0);
  REQUIRE(ordinal >= 0 && ordinal < device_count(), kInvalidDevice);
  *device = ordinal;
  return leave(kSuccess);
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  ENTER(0);
  snprintf(name, (size_t)length, "stub %d (host memory, no GPU)", device);
  return leave(kSuccess);
}

static void fill_uuid(unsigned char* uuid, CUdevice device) {
  memset(uuid, 0xAB, 16);
  if (!setting("STUB_CUDA_SAME_UUID", 0)) uuid[15] = (unsigned char)(setting("STUB_CUDA_FIRST_DEVICE", 0) + device);
}

CUresult cuDeviceGetUuid(unsigned char* uuid, CUdevice device) {
  ENTER(0);
  fill_uuid(uuid, device);
  return leave(kSuccess);
}

CUresult cuDeviceGetUuid_v2(unsigned char* uuid, CUdevice device) {
  ENTER(0);
  fill_uuid(uuid, device);
  return leave(kSuccess);
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  ENTER(0);
  snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)device);
  return leave(kSuccess);
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  ENTER(0);
  (void)device;
  switch (attribute) {
    case 10:  // warp size
      *value = 32;
      break;
    case 16:  // multiprocessors
      *value = 132;
      break;
    case 41:  // unified addressing
      *value = 1;
      break;
    case 75:  // compute capability, major
      *value = 9;
      break;
    default:
      *value = 0;
  }
  return leave(kSuccess);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  ENTER(0);
  (void)device;
  *bytes = device_bytes();
  return leave(kSuccess);
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  ENTER(0);
  *can = device != peer && setting("STUB_CUDA_PEER_ACCESS", 1);
  return leave(kSuccess);
}

// Contexts.

CUresult cuDevicePrimaryCtxRetain(Context** context, CUdevice device) {
  ENTER(0);
  REQUIRE(device >= 0 && device < device_count(), kInvalidDevice);
  g_contexts[device].retained++;
  *context = &g_contexts[device];
  return leave(kSuccess);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(0);
  REQUIRE(device >= 0 && device < device_count(), kInvalidDevice);
  REQUIRE(g_contexts[device].retained > 0, kInvalidContext);
  g_contexts[device].retained--;
  return leave(kSuccess);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  ENTER(0);
  *flags = 0;
  *active = g_contexts[device].retained > 0;
  return leave(kSuccess);
}

CUresult cuCtxSetCurrent(Context* context) {
  ENTER(0);
  t_current = context;
  return leave(kSuccess);
}

CUresult cuCtxGetCurrent(Context** context) {
  ENTER(0);
  *context = t_current;
  return leave(kSuccess);
}

CUresult cuCtxGetDevice(CUdevice* device) {
  ENTER(1);
  *device = t_current->device;
  return leave(kSuccess);
}

CUresult cuCtxPushCurrent_v2(Context* context) {
  ENTER(0);
  REQUIRE(t_depth < kMaxDepth, kInvalidValue);
  t_pushed[t_depth++] = t_current;
  t_current = context;
  return leave(kSuccess);
}

CUresult cuCtxPopCurrent_v2(Context** context) {
  ENTER(0);
  REQUIRE(t_depth > 0, kInvalidContext);
  *context = t_current;
  t_current = t_pushed[--t_depth];
  return leave(kSuccess);
}

CUresult cuCtxEnablePeerAccess(Context* peer, unsigned flags) {
  ENTER(1);
  REQUIRE(flags == 0 && peer != t_current, kInvalidDevice);
  REQUIRE(setting("STUB_CUDA_PEER_ACCESS", 1), kPeerAccessUnsupported);
  unsigned bit = 1U << peer->device;
  REQUIRE((t_current->peers & bit) == 0, kPeerAccessAlreadyEnabled);
  t_current->peers |= bit;
  return leave(kSuccess);
}

CUresult cuCtxSynchronize(void) {
  ENTER(1);
  return leave(kSuccess);
}

// Memory.

static int make_shareable(Allocation* allocation, size_t bytes) {
  allocation->fd = memfd_create("stub-cuda", MFD_CLOEXEC);
  if (allocation->fd < 0 || ftruncate(allocation->fd, (off_t)bytes) != 0) return 0;
  allocation->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation->fd, 0);
  return allocation->base != MAP_FAILED;
}

static CUresult allocate(void** base, size_t bytes, MemoryKind memory) {
  REQUIRE(bytes > 0, kInvalidValue);
  if (memory == kDeviceMemory) {
    REQUIRE(bytes <= device_bytes() - t_current->used_bytes, kOutOfMemory);
  }
  Allocation* allocation = calloc(1, sizeof *allocation);
  REQUIRE(allocation != NULL, kOutOfMemory);
  if (memory == kDeviceMemory) {
    REQUIRE(make_shareable(allocation, bytes), kOutOfMemory);
  } else {
    REQUIRE(posix_memalign(&allocation->base, 512, bytes) == 0, kOutOfMemory);
  }
  // Nobody may rely on zeros that a GPU does not give.
  memset(allocation->base, 0xCD, bytes < 4096 ? bytes : 4096);
  allocation->memory = memory;
  allocation->bytes = bytes;
  add_object(&allocation->object, kAllocation);
  if (memory == kDeviceMemory) t_current->used_bytes += bytes;
  *base = allocation->base;
  return leave(kSuccess);
}

static CUresult release(void* base, MemoryKind memory) {
  Allocation* allocation = allocation_of(base, 1);
  REQUIRE(allocation != NULL && allocation->base == base && allocation->memory == memory, kInvalidValue);
  if (memory == kDeviceMemory) allocation->object.context->used_bytes -= allocation->bytes;
  if (memory == kHostMemory) {
    free(base);
  } else {
    munmap(base, allocation->bytes);
    if (allocation->fd >= 0) close(allocation->fd);
  }
  remove_object(&allocation->object);
  return leave(kSuccess);
}

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER(1);
  *total = device_bytes();
  *free_bytes = *total - t_current->used_bytes;
  return leave(kSuccess);
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  void* base = NULL;
  ENTER(1);
  CUresult result = allocate(&base, bytes, kDeviceMemory);
  *address = (uintptr_t)base;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER(1);
  return release(pointer(address), kDeviceMemory);
}

CUresult cuMemHostAlloc(void** base, size_t bytes, unsigned flags) {
  ENTER(1);
  (void)flags;
  return allocate(base, bytes, kHostMemory);
}

CUresult cuMemAllocHost_v2(void** base, size_t bytes) {
  ENTER(1);
  return allocate(base, bytes, kHostMemory);
}

CUresult cuMemFreeHost(void* base) {
  ENTER(1);
  return release(base, kHostMemory);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  ENTER(1);
  Allocation* allocation = allocation_of(pointer(address), 1);
  REQUIRE(allocation != NULL && allocation->memory == kDeviceMemory, kInvalidValue);
  if (base != NULL) *base = (uintptr_t)allocation->base;
  if (bytes != NULL) *bytes = allocation->bytes;
  return leave(kSuccess);
}

CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address) {
  ENTER(1);
  Allocation* allocation = allocation_of(pointer(address), 1);
  REQUIRE(allocation != NULL, kInvalidValue);
  switch (attribute) {
    case 1:  // context
      *(Context**)value = allocation->object.context;
      return leave(kSuccess);
    case 2:  // memory type: 1 host, 2 device
      *(unsigned*)value = allocation->memory == kHostMemory ? 1 : 2;
      return leave(kSuccess);
    case 9:  // device ordinal
      *(int*)value = allocation->object.context->device;
      return leave(kSuccess);
    default:
      return leave(kNotSupported);
  }
}

// Memory of other processes.

typedef struct IpcHandle {
  int pid;
  int fd;  // in that process
  size_t bytes;
  unsigned char device[16];
  char unused[32];
} IpcHandle;

CUresult cuIpcGetMemHandle(IpcHandle* handle, CUdeviceptr address) {
  ENTER(1);
  Allocation* allocation = allocation_of(pointer(address), 1);
  REQUIRE(allocation != NULL && allocation->memory == kDeviceMemory && (uintptr_t)allocation->base == address,
          kInvalidValue);
  memset(handle, 0, sizeof *handle);
  handle->pid = getpid();
  handle->fd = allocation->fd;
  handle->bytes = allocation->bytes;
  fill_uuid(handle->device, allocation->object.context->device);
  return leave(kSuccess);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, IpcHandle handle, unsigned flags) {
  ENTER(1);
  REQUIRE(flags == 1, kInvalidValue);
  REQUIRE(handle.pid != getpid(), kInvalidContext);
  unsigned char own[16];
  fill_uuid(own, t_current->device);
  REQUIRE(memcmp(own, handle.device, sizeof own) == 0 || setting("STUB_CUDA_PEER_ACCESS", 1), kPeerAccessUnsupported);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  int opened = open(path, O_RDWR | O_CLOEXEC);
  REQUIRE(opened >= 0, kInvalidValue);
  struct stat status;
  void* base = MAP_FAILED;
  if (handle.bytes > 0 && fstat(opened, &status) == 0 && status.st_size == (off_t)handle.bytes) {
    base = mmap(NULL, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  }
  close(opened);
  REQUIRE(base != MAP_FAILED, kInvalidValue);
  Allocation* mapping = calloc(1, sizeof *mapping);
  mapping->memory = kPeerMemory;
  mapping->base = base;
  mapping->bytes = handle.bytes;
  mapping->fd = -1;
  add_object(&mapping->object, kAllocation);
  *address = (uintptr_t)base;
  return leave(kSuccess);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  ENTER(1);
  return release(pointer(address), kPeerMemory);
}

// Streams run at once; a capturing one records.

static void run(const Operation* operation) {
  if (operation->source != NULL) {
    memmove(operation->target, operation->source, operation->bytes);
    return;
  }
  for (size_t i = 0; i < operation->bytes; i += operation->element_bytes) {
    memcpy((char*)operation->target + i, &operation->value, operation->element_bytes);
  }
}

static void append(Graph* graph, const Operation* operation) {
  Operation* copy = malloc(sizeof *copy);
  *copy = *operation;
  copy->next = NULL;
  *graph->end = copy;
  graph->end = &copy->next;
}

static Graph* new_graph(Kind kind, const Graph* contents) {
  Graph* graph = calloc(1, sizeof *graph);
  graph->end = &graph->first;
  for (const Operation* at = contents == NULL ? NULL : contents->first; at != NULL; at = at->next) append(graph, at);
  add_object(&graph->object, kind);
  return graph;
}

static void delete_graph(Graph* graph) {
  while (graph->first != NULL) {
    Operation* next = graph->first->next;
    free(graph->first);
    graph->first = next;
  }
  remove_object(&graph->object);
}

static CUresult submit(Stream* stream, Operation operation, int target_is_device, int source_is_device) {
  REQUIRE(stream == NULL || lives(stream, kStream), kInvalidHandle);
  REQUIRE(!target_is_device || is_device_memory(operation.target, operation.bytes), kInvalidValue);
  REQUIRE(!source_is_device || is_device_memory(operation.source, operation.bytes), kInvalidValue);
  if (stream != NULL && stream->capture != NULL) {
    append(stream->capture, &operation);
  } else {
    run(&operation);
  }
  return leave(kSuccess);
}

static CUresult copy(Stream* stream, void* target, int target_is_device, const void* source, int source_is_device,
                     size_t bytes) {
  if (bytes == 0) return leave(kSuccess);
  return submit(stream, (Operation){NULL, target, source, 0, 1, bytes}, target_is_device, source_is_device);
}

static CUresult set(Stream* stream, CUdeviceptr target, uint32_t value, size_t element_bytes, size_t count) {
  return submit(stream, (Operation){NULL, pointer(target), NULL, value, element_bytes, count * element_bytes}, 1, 0);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t bytes) {
  ENTER(1);
  return copy(NULL, pointer(target), 1, source, 0, bytes);
}

CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  return copy(NULL, target, 0, pointer(source), 1, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  return copy(NULL, pointer(target), 1, pointer(source), 1, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, Stream* stream) {
  ENTER(1);
  return copy(stream, pointer(target), 1, source, 0, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, Stream* stream) {
  ENTER(1);
  return copy(stream, target, 0, pointer(source), 1, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, Stream* stream) {
  ENTER(1);
  return copy(stream, pointer(target), 1, pointer(source), 1, bytes);
}

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  REQUIRE(allocation_of(pointer(target), bytes) != NULL && allocation_of(pointer(source), bytes) != NULL,
          kInvalidValue);
  return copy(NULL, pointer(target), 0, pointer(source), 0, bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, Stream* stream) {
  ENTER(1);
  REQUIRE(allocation_of(pointer(target), bytes) != NULL && allocation_of(pointer(source), bytes) != NULL,
          kInvalidValue);
  return copy(stream, pointer(target), 0, pointer(source), 0, bytes);
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
  ENTER(1);
  return set(NULL, target, value, 1, count);
}

CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned value, size_t count) {
  ENTER(1);
  return set(NULL, target, value, 4, count);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, Stream* stream) {
  ENTER(1);
  return set(stream, target, value, 1, count);
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, Stream* stream) {
  ENTER(1);
  return set(stream, target, value, 4, count);
}

static CUresult new_stream(Stream** stream) {
  *stream = calloc(1, sizeof **stream);
  add_object(&(*stream)->object, kStream);
  return leave(kSuccess);
}

CUresult cuStreamCreate(Stream** stream, unsigned flags) {
  ENTER(1);
  (void)flags;
  return new_stream(stream);
}

CUresult cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  ENTER(1);
  (void)flags;
  (void)priority;
  return new_stream(stream);
}

CUresult cuStreamDestroy_v2(Stream* stream) {
  ENTER(1);
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream->capture == NULL, kIllegalState);
  remove_object(&stream->object);
  return leave(kSuccess);
}

CUresult cuStreamGetCtx(Stream* stream, Context** context) {
  ENTER(1);
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  *context = stream->object.context;
  return leave(kSuccess);
}

static CUresult all_has_run(Stream* stream) {
  REQUIRE(stream == NULL || lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream == NULL || stream->capture == NULL, kCaptureUnsupported);
  return leave(kSuccess);
}

CUresult cuStreamQuery(Stream* stream) {
  ENTER(1);
  return all_has_run(stream);
}

CUresult cuStreamSynchronize(Stream* stream) {
  ENTER(1);
  return all_has_run(stream);
}

// Captures and graphs.

CUresult cuStreamIsCapturing(Stream* stream, int* status) {
  ENTER(1);
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  *status = stream->capture != NULL;
  return leave(kSuccess);
}

CUresult cuStreamBeginCapture_v2(Stream* stream, int mode) {
  ENTER(1);
  (void)mode;
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream->capture == NULL, kIllegalState);
  stream->capture = new_graph(kGraph, NULL);
  stream->is_origin = 1;
  return leave(kSuccess);
}

CUresult cuStreamEndCapture(Stream* stream, Graph** graph) {
  ENTER(1);
  *graph = NULL;
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream->capture != NULL, kIllegalState);
  REQUIRE(stream->is_origin, kCaptureUnmatched);
  *graph = stream->capture;
  for (Object* object = g_objects; object != NULL; object = object->next) {
    if (object->kind == kStream && ((Stream*)object)->capture == *graph) ((Stream*)object)->capture = NULL;
  }
  stream->is_origin = 0;
  return leave(kSuccess);
}

CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  static _Thread_local int current;
  ENTER(0);
  int before = current;
  current = *mode;
  *mode = before;
  return leave(kSuccess);
}

CUresult cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long flags) {
  ENTER(1);
  (void)flags;
  REQUIRE(lives(graph, kGraph), kInvalidHandle);
  *executable = new_graph(kExecutable, graph);
  return leave(kSuccess);
}

CUresult cuGraphUpload(Graph* executable, Stream* stream) {
  ENTER(1);
  REQUIRE(lives(executable, kExecutable) && lives(stream, kStream), kInvalidHandle);
  return leave(kSuccess);
}

#ifndef STUB_CUDA_INCOMPLETE
CUresult cuGraphLaunch(Graph* executable, Stream* stream) {
  ENTER(1);
  REQUIRE(lives(executable, kExecutable) && (stream == NULL || lives(stream, kStream)), kInvalidHandle);
  REQUIRE(stream == NULL || stream->capture == NULL, kCaptureUnsupported);
  for (const Operation* at = executable->first; at != NULL; at = at->next) run(at);
  return leave(kSuccess);
}
#endif

CUresult cuGraphExecDestroy(Graph* executable) {
  ENTER(1);
  REQUIRE(lives(executable, kExecutable), kInvalidHandle);
  delete_graph(executable);
  return leave(kSuccess);
}

CUresult cuGraphDestroy(Graph* graph) {
  ENTER(1);
  REQUIRE(lives(graph, kGraph), kInvalidHandle);
  delete_graph(graph);
  return leave(kSuccess);
}

// Events. In a capture an event is a place in it, and a stream that waits for it joins the capture.

CUresult cuEventCreate(Event** event, unsigned flags) {
  ENTER(1);
  (void)flags;
  *event = calloc(1, sizeof **event);
  add_object(&(*event)->object, kEvent);
  return leave(kSuccess);
}

CUresult cuEventRecord(Event* event, Stream* stream) {
  ENTER(1);
  REQUIRE(lives(event, kEvent) && (stream == NULL || lives(stream, kStream)), kInvalidHandle);
  REQUIRE(stream == NULL || event->object.context == stream->object.context, kInvalidHandle);
  event->capture = stream == NULL ? NULL : stream->capture;
  event->is_recorded = 1;
  clock_gettime(CLOCK_MONOTONIC, &event->at);
  return leave(kSuccess);
}

CUresult cuStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
  ENTER(1);
  (void)flags;
  REQUIRE(lives(event, kEvent) && lives(stream, kStream), kInvalidHandle);
  if (event->capture != NULL && lives(event->capture, kGraph)) stream->capture = event->capture;
  return leave(kSuccess);
}

static CUresult has_happened(Event* event) {
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  REQUIRE(event->capture == NULL, kCapturedEvent);
  return leave(kSuccess);
}

CUresult cuEventQuery(Event* event) {
  ENTER(1);
  return has_happened(event);
}

CUresult cuEventSynchronize(Event* event) {
  ENTER(1);
  return has_happened(event);
}

CUresult cuEventDestroy_v2(Event* event) {
  ENTER(1);
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  remove_object(&event->object);
  return leave(kSuccess);
}

CUresult cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  ENTER(1);
  REQUIRE(lives(start, kEvent) && lives(end, kEvent), kInvalidHandle);
  REQUIRE(start->is_recorded && end->is_recorded, kInvalidHandle);
  REQUIRE(start->capture == NULL && end->capture == NULL, kCapturedEvent);
  *milliseconds =
      (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 + (double)(end->at.tv_nsec - start->at.tv_nsec) / 1e6);
  return leave(kSuccess);
}

// What else a library that is linked against a driver wants to find: it is there and refuses.
#define UNSUPPORTED(function) \
  CUresult function(void);    \
  CUresult function(void) { return kNotSupported; }
#include "unsupported.h"
