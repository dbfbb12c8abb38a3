// Modules, which are loaded whatever their image is. No kernel of them is ever run: a launch is refused, or runs what a
// test has given.
#include "stub.h"

typedef struct Module {
  Object object;
  int is_bench;         // its functions are the benchmark's, beside which no other group waits
  int parameter_count;  // -1: not to be told
  int parameter_bytes[4];
} Module;

enum { kSharedOfABlock = 57344, kOwnShared = 6152, kReservedShared = 1024 };

enum { kSharedBytes = 1, kLocalBytes = 3, kRegisters = 4, kMostDynamicSharedBytes = 8, kMayHaveLargeClusters = 14 };

CUresult cuModuleLoadData(Module** module, const void* image) {
  ENTER(1);
  REQUIRE(image != NULL, kInvalidValue);
  *module = calloc(1, sizeof **module);
  add_object(&(*module)->object, kModule);
  return leave(kSuccess);
}

CUresult cuModuleUnload(Module* module) {
  ENTER(1);
  REQUIRE(lives(module, kModule), kInvalidHandle);
  remove_object(&module->object);
  return leave(kSuccess);
}

// Every function of a module is the module itself.
CUresult cuModuleGetFunction(Module** function, Module* module, const char* name) {
  ENTER(1);
  REQUIRE(lives(module, kModule) && name[0] != '\0', kInvalidHandle);
  REQUIRE(setting("STUB_CUDA_OLD_PTX", 0) == 0 || strstr(name, "_programmatic") == NULL, kNotFound);
  module->is_bench = strncmp(name, "nvrar_bench_", strlen("nvrar_bench_")) == 0;
  const char* params = strstr(name, "_params_");
  module->parameter_count =
      params == NULL ? -1
                     : sscanf(params, "_params_%d_%d_%d_%d", &module->parameter_bytes[0], &module->parameter_bytes[1],
                              &module->parameter_bytes[2], &module->parameter_bytes[3]);
  *function = module;
  return leave(kSuccess);
}

// Of a kernel whose name has them: nvrar_bench_params_8_4 has two.
CUresult cuFuncGetParamInfo(Module* function, size_t index, size_t* offset, size_t* size) {
  ENTER(1);
  REQUIRE(lives(function, kModule), kInvalidHandle);
  REQUIRE(function->parameter_count >= 0, kNotSupported);
  REQUIRE(index < (size_t)function->parameter_count, kInvalidValue);
  *offset = 8 * index;
  *size = (size_t)function->parameter_bytes[index];
  return leave(kSuccess);
}

CUresult cuFuncGetAttribute(int* value, int attribute, Module* function) {
  ENTER(1);
  REQUIRE(lives(function, kModule), kInvalidHandle);
  REQUIRE(attribute == kSharedBytes || attribute == kLocalBytes || attribute == kRegisters, kNotSupported);
  *value = attribute == kRegisters ? 40 : attribute == kLocalBytes ? 0 : kOwnShared;
  return leave(kSuccess);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Module* function, int threads, size_t shared_bytes) {
  ENTER(1);
  REQUIRE(lives(function, kModule), kInvalidHandle);
  REQUIRE(threads > 0 && threads <= 1024, kInvalidValue);
  const int by_threads = 2048 / threads;
  const int by_shared = (228 << 10) / (int)(shared_bytes + kOwnShared + kReservedShared);
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  return leave(kSuccess);
}

CUresult cuFuncSetAttribute(Module* function, int attribute, int value) {
  ENTER(1);
  REQUIRE(lives(function, kModule), kInvalidHandle);
  REQUIRE((attribute == kMayHaveLargeClusters && value == 1) ||
              (attribute == kMostDynamicSharedBytes && value == kSharedOfABlock - kOwnShared),
          kNotSupported);
  return leave(kSuccess);
}

// Those of 8 blocks are the largest.
CUresult cuOccupancyMaxActiveClusters(int* clusters, Module* function, const void* config) {
  ENTER(1);
  REQUIRE(lives(function, kModule), kInvalidHandle);
  const unsigned blocks = *(const unsigned*)config;
  *clusters = blocks <= 8 ? 16 : 0;
  return leave(kSuccess);
}

typedef struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream* stream;
} LaunchConfig;

CUresult cuLaunchKernelEx(const LaunchConfig* config, Module* function, void** arguments, void** extra) {
  ENTER(1);
  (void)extra;
  REQUIRE(stub_cuda_kernel != NULL, kNotSupported);
  const Stream* stream = stream_of(config->stream);
  REQUIRE(lives(function, kModule) && stream != NULL, kInvalidHandle);
  // On a GPU it would wait beside blocks of other kernels that divide a multiprocessor's memory in another way.
  REQUIRE(function->is_bench || config->shared_bytes == kSharedOfABlock - kOwnShared, kNotSupported);
  if (stream->capture != NULL) return leave(kSuccess);
  leave(kSuccess);
  return stub_cuda_kernel(config, arguments);
}
