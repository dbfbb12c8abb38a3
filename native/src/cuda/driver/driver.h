// libcuda.so.1, opened at run time, because libnvrar also runs on machines without it. This header declares the part of
// the CUDA driver API's ABI that we use, so that compiling needs nothing from NVIDIA.
#ifndef NVRAR_CUDA_DRIVER_DRIVER_H
#define NVRAR_CUDA_DRIVER_DRIVER_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace nvrar::cuda {

using Result = int;  // CUresult
using DeviceHandle = int;
using DeviceAddress = uint64_t;  // CUdeviceptr
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

constexpr Result kSuccess = 0;
constexpr Result kErrorNotFound = 500;
constexpr Result kErrorNotReady = 600;
constexpr Result kErrorPeerAccessAlreadyEnabled = 704;

struct Uuid {
  uint8_t bytes[16];
};
struct IpcMemoryHandle {
  uint8_t bytes[64];
};

// CUdevice_attribute
enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kPciBusId = 33,
  kPciDeviceId = 34,
  kPciDomainId = 50,
  kSharedBytesOfAMultiprocessor = 81,
  kRegistersOfAMultiprocessor = 82,
  kReservedSharedBytes = 111,  // of every block
  kClusterLaunch = 120,
};
// CUdevice_P2PAttribute
constexpr int kNativeAtomicsSupported = 3;
// CUfunction_attribute
enum FunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kSharedBytes = 1,
  kLocalBytes = 3,
  kRegisters = 4,
  kMostDynamicSharedBytes = 8,
  kMayHaveLargeClusters = 14,
};
// CUpointer_attribute
enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDeviceOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
};
constexpr unsigned kMemoryTypeHost = 1;
constexpr unsigned kMemoryTypeDevice = 2;
// Flags of cuMemHostAlloc, cuStreamCreate, cuIpcOpenMemHandle, cuEventCreate.
constexpr unsigned kHostPortable = 1;
constexpr unsigned kHostMapped = 2;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kIpcLazyEnablePeerAccess = 1;
constexpr unsigned kEventDisableTiming = 2;
// CUstreamCaptureStatus
constexpr int kCaptureNone = 0;
constexpr int kCaptureActive = 1;
// CUstreamCaptureMode
constexpr int kCaptureRelaxed = 2;

// CUlaunchAttributeID
constexpr int kClusterDimension = 4;
constexpr int kProgrammaticStreamSerialization = 6;
// CUlaunchAttribute, CUlaunchConfig
struct alignas(8) LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int value;
    unsigned cluster[3];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

// X(result, name, arguments): the name as libcuda exports it.
#define NVRAR_CUDA_FUNCTIONS(X)                                                                             \
  X(cuInit, (unsigned flags))                                                                               \
  X(cuDriverGetVersion, (int* version))                                                                     \
  X(cuGetErrorName, (Result, const char** name))                                                            \
  X(cuGetErrorString, (Result, const char** text))                                                          \
  X(cuDeviceGetCount, (int* count))                                                                         \
  X(cuDeviceGet, (DeviceHandle*, int ordinal))                                                              \
  X(cuDeviceGetUuid_v2, (Uuid*, DeviceHandle))                                                              \
  X(cuDeviceGetAttribute, (int* value, int attribute, DeviceHandle))                                        \
  X(cuDevicePrimaryCtxRetain, (Context*, DeviceHandle))                                                     \
  X(cuDevicePrimaryCtxRelease_v2, (DeviceHandle))                                                           \
  X(cuDeviceCanAccessPeer, (int* can, DeviceHandle, DeviceHandle peer))                                     \
  X(cuDeviceGetP2PAttribute, (int* value, int attribute, DeviceHandle, DeviceHandle peer))                  \
  X(cuCtxPushCurrent_v2, (Context))                                                                         \
  X(cuCtxPopCurrent_v2, (Context*))                                                                         \
  X(cuCtxGetDevice, (DeviceHandle*))                                                                        \
  X(cuCtxEnablePeerAccess, (Context peer, unsigned flags))                                                  \
  X(cuMemAlloc_v2, (DeviceAddress*, size_t bytes))                                                          \
  X(cuMemFree_v2, (DeviceAddress))                                                                          \
  X(cuMemHostAlloc, (void**, size_t bytes, unsigned flags))                                                 \
  X(cuMemFreeHost, (void*))                                                                                 \
  X(cuMemHostGetDevicePointer_v2, (DeviceAddress*, void* host, unsigned flags))                             \
  X(cuMemcpyDtoHAsync_v2, (void* to, DeviceAddress, size_t bytes, Stream))                                  \
  X(cuMemcpyHtoDAsync_v2, (DeviceAddress, const void* from, size_t bytes, Stream))                          \
  X(cuMemcpyDtoDAsync_v2, (DeviceAddress to, DeviceAddress from, size_t bytes, Stream))                     \
  X(cuMemsetD32Async, (DeviceAddress, unsigned value, size_t words, Stream))                                \
  X(cuPointerGetAttributes, (unsigned count, PointerAttribute*, void** values, DeviceAddress))              \
  X(cuIpcGetMemHandle, (IpcMemoryHandle*, DeviceAddress))                                                   \
  X(cuIpcOpenMemHandle_v2, (DeviceAddress*, IpcMemoryHandle, unsigned flags))                               \
  X(cuIpcCloseMemHandle, (DeviceAddress))                                                                   \
  X(cuModuleLoadData, (Module*, const void* image))                                                         \
  X(cuModuleUnload, (Module))                                                                               \
  X(cuModuleGetFunction, (Function*, Module, const char* name))                                             \
  X(cuFuncGetAttribute, (int* value, int attribute, Function))                                              \
  X(cuFuncSetAttribute, (Function, int attribute, int value))                                               \
  X(cuOccupancyMaxActiveClusters, (int* clusters, Function, const LaunchConfig*))                           \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* blocks, Function, int threads, size_t shared_bytes)) \
  X(cuLaunchKernelEx, (const LaunchConfig*, Function, void** arguments, void** extra))                      \
  X(cuStreamCreate, (Stream*, unsigned flags))                                                              \
  X(cuStreamDestroy_v2, (Stream))                                                                           \
  X(cuStreamSynchronize, (Stream))                                                                          \
  X(cuStreamGetCtx, (Stream, Context*))                                                                     \
  X(cuStreamIsCapturing, (Stream, int* status))                                                             \
  X(cuThreadExchangeStreamCaptureMode, (int* mode))
// Only tests and the benchmark call these: they are null where the driver lacks them.
#define NVRAR_CUDA_TEST_FUNCTIONS(X)                                            \
  X(cuDeviceGetName, (char* name, int bytes, DeviceHandle))                     \
  X(cuCtxGetCurrent, (Context*))                                                \
  X(cuCtxSynchronize, (void))                                                   \
  X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))               \
  X(cuMemsetD8_v2, (DeviceAddress, unsigned char value, size_t bytes))          \
  X(cuStreamQuery, (Stream))                                                    \
  X(cuStreamBeginCapture_v2, (Stream, int mode))                                \
  X(cuStreamEndCapture, (Stream, Graph*))                                       \
  X(cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long flags)) \
  X(cuGraphUpload, (GraphExec, Stream))                                         \
  X(cuGraphLaunch, (GraphExec, Stream))                                         \
  X(cuGraphExecDestroy, (GraphExec))                                            \
  X(cuGraphDestroy, (Graph))                                                    \
  X(cuEventCreate, (Event*, unsigned flags))                                    \
  X(cuEventRecord, (Event, Stream))                                             \
  X(cuEventSynchronize, (Event))                                                \
  X(cuEventElapsedTime, (float* milliseconds, Event start, Event end))          \
  X(cuEventDestroy_v2, (Event))

struct Driver {
#define NVRAR_CUDA_MEMBER(name, arguments) Result(*name) arguments;
  NVRAR_CUDA_FUNCTIONS(NVRAR_CUDA_MEMBER)
  NVRAR_CUDA_TEST_FUNCTIONS(NVRAR_CUDA_MEMBER)
#undef NVRAR_CUDA_MEMBER
};

// The driver, opened and initialised once per process. Throws Error(NVRAR_UNAVAILABLE) at each call if something is
// missing, with a message that says what: libcuda.so.1, a function of it, CUDA 12.0 or newer, or a device.
const Driver& driver();

// "CUDA_ERROR_... (text)".
std::string text_of(Result result);

// Throws Error(NVRAR_SYSTEM): "<doing>: CUDA_ERROR_... (text)".
void check(Result result, const char* doing);

// Copy in the current context, and have completed when they return. They use a stream of their own, because the legacy
// stream would break captures on the streams that synchronize with it.
Result copy_to_gpu(DeviceAddress to, const void* from, size_t bytes) noexcept;
Result copy_from_gpu(void* to, DeviceAddress from, size_t bytes) noexcept;

// Exempts the calling thread, for a scope, from captures that other threads make in CUDA's global mode. Under these the
// driver refuses to allocate or free anything, and an attempt breaks them.
class OutsideCaptures {
 public:
  explicit OutsideCaptures(bool on_gpu = true) : on_gpu_(on_gpu) { exchange(); }
  ~OutsideCaptures() { exchange(); }
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  void exchange() noexcept {
    if (on_gpu_) (void)driver().cuThreadExchangeStreamCaptureMode(&mode_);
  }

  const bool on_gpu_;
  int mode_ = kCaptureRelaxed;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_DRIVER_DRIVER_H
