#include "gpu/driver.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <type_traits>

namespace nvrar::bench {
namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

CudaDriver open_driver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error("there is no NVIDIA driver here: " + std::string(::dlerror()));
  CudaDriver driver{};
  const auto find = [&](auto* member, const char* name) {
    void* const symbol = ::dlsym(library, name);
    if (symbol == nullptr) throw std::runtime_error("the NVIDIA driver's libcuda.so.1 lacks " + std::string(name));
    *member = reinterpret_cast<std::remove_reference_t<decltype(*member)>>(symbol);
  };
#define NVRAR_BENCH_CUDA_FIND(name, arguments) find(&driver.name, #name);
  NVRAR_BENCH_CUDA_FUNCTIONS(NVRAR_BENCH_CUDA_FIND)
#undef NVRAR_BENCH_CUDA_FIND
  return driver;
}

}  // namespace

const CudaDriver& cuda() {
  static const CudaDriver driver = open_driver();
  return driver;
}

void check_cuda(int result, const char* doing) {
  if (result == 0) [[likely]]
    return;
  const char* name = nullptr;
  (void)cuda().cuGetErrorName(result, &name);
  throw std::runtime_error(std::string(doing) + ": " +
                           (name != nullptr ? std::string(name) : "CUDA error " + std::to_string(result)));
}

int visible_gpus() {
  const int started = cuda().cuInit(0);
  if (started == kNoDevice) return 0;
  check_cuda(started, "starting the NVIDIA driver");
  int count = 0;
  check_cuda(cuda().cuDeviceGetCount(&count), "counting the GPUs");
  return count;
}

}  // namespace nvrar::bench
