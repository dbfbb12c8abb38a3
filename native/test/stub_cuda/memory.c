// Memory of devices, pinned memory, and memory of other processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stub.h"

static int make_shareable(Allocation* allocation, size_t bytes) {
  allocation->fd = memfd_create("stub-cuda", MFD_CLOEXEC);
  if (allocation->fd < 0 || ftruncate(allocation->fd, (off_t)bytes) != 0) return 0;
  allocation->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation->fd, 0);
  return allocation->base != MAP_FAILED;
}

static CUresult allocate(void** base, size_t bytes, MemoryKind memory) {
  REQUIRE(!breaks_captures(), kCaptureUnsupported);
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
  REQUIRE(!breaks_captures(), kCaptureUnsupported);
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

static CUresult attribute_of(const Allocation* allocation, int attribute, void* value) {
  switch (attribute) {
    case 1:  // context
      *(Context**)value = allocation == NULL ? NULL : allocation->object.context;
      return kSuccess;
    case 2:  // memory type: 1 host, 2 device
      *(unsigned*)value = allocation == NULL ? 0 : allocation->memory == kHostMemory ? 1 : 2;
      return kSuccess;
    case 9:  // device ordinal
      *(int*)value = allocation == NULL ? -2 : allocation->object.context->device;
      return kSuccess;
    case 11:  // start of the range
      *(CUdeviceptr*)value = allocation == NULL ? 0 : (uintptr_t)allocation->base;
      return kSuccess;
    case 12:  // its size
      *(size_t*)value = allocation == NULL ? 0 : allocation->bytes;
      return kSuccess;
    default:
      return kNotSupported;
  }
}

CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address) {
  ENTER(1);
  Allocation* allocation = allocation_of(pointer(address), 1);
  REQUIRE(allocation != NULL, kInvalidValue);
  return leave(attribute_of(allocation, attribute, value));
}

// Unlike the one above, it knows an answer for what was never allocated.
CUresult cuPointerGetAttributes(unsigned count, const int* attributes, void** values, CUdeviceptr address) {
  ENTER(1);
  for (unsigned i = 0; i < count; i++) {
    CUresult result = attribute_of(allocation_of(pointer(address), 1), attributes[i], values[i]);
    REQUIRE(result == kSuccess, result);
  }
  return leave(kSuccess);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* base, unsigned flags) {
  ENTER(1);
  const Allocation* allocation = allocation_of(base, 1);
  REQUIRE(flags == 0 && allocation != NULL && allocation->memory == kHostMemory, kInvalidValue);
  *address = (uintptr_t)base;
  return leave(kSuccess);
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
