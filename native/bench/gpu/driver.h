// NVIDIA's driver, opened at run time, because the benchmark is also built and run without it. This header declares the
// part of the CUDA driver API's ABI that the benchmark uses.
#ifndef NVRAR_BENCH_GPU_DRIVER_H
#define NVRAR_BENCH_GPU_DRIVER_H

#include <cstddef>
#include <cstdint>

namespace nvrar::bench {

using CudaStream = struct CudaStreamOpaque*;
using CudaEvent = struct CudaEventOpaque*;
using CudaGraph = struct CudaGraphOpaque*;
using CudaGraphExec = struct CudaGraphExecOpaque*;
using CudaFunction = struct CudaFunctionOpaque*;
using CudaModule = struct CudaModuleOpaque*;
using CudaContext = struct CudaContextOpaque*;
struct CudaIpcHandle {
  char bytes[64];
};

constexpr int kCudaClockRateKhz = 13;          // CU_DEVICE_ATTRIBUTE_CLOCK_RATE
constexpr int kCudaMultiprocessors = 16;       // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kCudaL2Bytes = 38;               // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
constexpr int kCudaMajor = 75;                 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCudaMinor = 76;                 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr int kCudaMayHaveLargeClusters = 14;  // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
constexpr unsigned kCudaStreamNonBlocking = 1;
constexpr unsigned kCudaIpcLazyPeerAccess = 1;
constexpr int kCudaCaptureRelaxed = 2;

constexpr int kCudaClusterDimension = 4;                 // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
constexpr int kCudaProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
// CUlaunchAttribute, CUlaunchConfig
struct CudaLaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int value;
    unsigned cluster[3];
  };
};
static_assert(sizeof(CudaLaunchAttribute) == 72);
struct CudaLaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CudaStream stream;
  CudaLaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(CudaLaunchConfig) == 56);

#define NVRAR_BENCH_CUDA_FUNCTIONS(X)                                                          \
  X(cuInit, (unsigned flags))                                                                  \
  X(cuGetErrorName, (int result, const char** name))                                           \
  X(cuDeviceGetCount, (int* count))                                                            \
  X(cuDeviceGet, (int* device, int ordinal))                                                   \
  X(cuDeviceGetName, (char* name, int bytes, int device))                                      \
  X(cuDeviceGetAttribute, (int* value, int attribute, int device))                             \
  X(cuDevicePrimaryCtxRetain, (CudaContext*, int device))                                      \
  X(cuCtxSetCurrent, (CudaContext))                                                            \
  X(cuCtxSynchronize, (void))                                                                  \
  X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                              \
  X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                         \
  X(cuMemFree_v2, (uint64_t address))                                                          \
  X(cuMemcpyHtoD_v2, (uint64_t to, const void* from, size_t bytes))                            \
  X(cuMemcpyDtoH_v2, (void* to, uint64_t from, size_t bytes))                                  \
  X(cuMemsetD8_v2, (uint64_t address, unsigned char value, size_t bytes))                      \
  X(cuIpcGetMemHandle, (CudaIpcHandle*, uint64_t address))                                     \
  X(cuIpcOpenMemHandle_v2, (uint64_t * address, CudaIpcHandle, unsigned flags))                \
  X(cuIpcCloseMemHandle, (uint64_t address))                                                   \
  X(cuModuleLoadData, (CudaModule*, const void* image))                                        \
  X(cuModuleGetFunction, (CudaFunction*, CudaModule, const char* name))                        \
  X(cuFuncSetAttribute, (CudaFunction, int attribute, int value))                              \
  X(cuLaunchKernelEx, (const CudaLaunchConfig*, CudaFunction, void** arguments, void** extra)) \
  X(cuStreamCreate, (CudaStream*, unsigned flags))                                             \
  X(cuStreamDestroy_v2, (CudaStream))                                                          \
  X(cuStreamSynchronize, (CudaStream))                                                         \
  X(cuStreamBeginCapture_v2, (CudaStream, int mode))                                           \
  X(cuStreamEndCapture, (CudaStream, CudaGraph*))                                              \
  X(cuGraphInstantiateWithFlags, (CudaGraphExec*, CudaGraph, unsigned long long flags))        \
  X(cuGraphUpload, (CudaGraphExec, CudaStream))                                                \
  X(cuGraphLaunch, (CudaGraphExec, CudaStream))                                                \
  X(cuGraphExecDestroy, (CudaGraphExec))                                                       \
  X(cuGraphDestroy, (CudaGraph))                                                               \
  X(cuEventCreate, (CudaEvent*, unsigned flags))                                               \
  X(cuEventRecord, (CudaEvent, CudaStream))                                                    \
  X(cuEventSynchronize, (CudaEvent))                                                           \
  X(cuEventElapsedTime, (float* milliseconds, CudaEvent start, CudaEvent end))                 \
  X(cuEventDestroy_v2, (CudaEvent))

struct CudaDriver {
#define NVRAR_BENCH_CUDA_MEMBER(name, arguments) int(*name) arguments;
  NVRAR_BENCH_CUDA_FUNCTIONS(NVRAR_BENCH_CUDA_MEMBER)
#undef NVRAR_BENCH_CUDA_MEMBER
};

// The driver, opened and initialised once per process; throws an error that says what is missing.
const CudaDriver& cuda();

// The number of GPUs visible to this process; throws if there is no driver.
int visible_gpus();

// Throws "<doing>: CUDA_ERROR_...".
void check_cuda(int result, const char* doing);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_DRIVER_H
