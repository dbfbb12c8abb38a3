#include "cuda/driver/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "common/error.h"
#include "protocol/test_build.h"

namespace nvrar::cuda {
namespace {

constexpr int kMinDriverVersion = 12000;  // for cuLaunchKernelEx, and kernels with more than 4 KiB of arguments

constexpr Result kErrorNoDevice = 100;

[[noreturn]] void unavailable(const std::string& sentence) {
  throw Error(NVRAR_UNAVAILABLE, "the CUDA backend cannot run here: " + sentence);
}

// CUDA_VISIBLE_DEVICES is the usual reason why a GPU is not visible.
std::string visible_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : "; CUDA_VISIBLE_DEVICES is \"" + std::string(visible) + "\"";
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string error_text(const Driver& driver, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  (void)driver.cuGetErrorName(result, &name);
  (void)driver.cuGetErrorString(result, &text);
  return (name != nullptr ? std::string(name) : "CUDA error " + std::to_string(result)) +
         (text != nullptr ? " (" + std::string(text) + ")" : "");
}

Driver open_driver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    unavailable("the library of NVIDIA's driver cannot be loaded (" +
                std::string(reason != nullptr ? reason : "libcuda.so.1") +
                "); install the driver, or start the container with its GPUs (docker run --gpus)");
  }
  Driver driver{};
  std::string missing;
  const auto find = [&](auto* member, const char* name) {
    void* const symbol = ::dlsym(library, name);
    *member = reinterpret_cast<std::remove_reference_t<decltype(*member)>>(symbol);
    return symbol != nullptr;
  };
#define NVRAR_CUDA_FIND(name, arguments) \
  if (!find(&driver.name, #name)) missing += (missing.empty() ? "" : ", ") + std::string(#name);
  NVRAR_CUDA_FUNCTIONS(NVRAR_CUDA_FIND)
#undef NVRAR_CUDA_FIND
#define NVRAR_CUDA_FIND(name, arguments) (void)find(&driver.name, #name);
  NVRAR_CUDA_TEST_FUNCTIONS(NVRAR_CUDA_FIND)
#undef NVRAR_CUDA_FIND
  int version = 0;
  if (driver.cuDriverGetVersion != nullptr && driver.cuDriverGetVersion(&version) == kSuccess &&
      version < kMinDriverVersion) {
    unavailable("NVIDIA's driver is too old, it supports CUDA " + version_text(version) + " and " +
                version_text(kMinDriverVersion) + " is needed; update the driver");
  }
  if (!missing.empty()) unavailable("NVIDIA's driver library libcuda.so.1 lacks " + missing + "; update the driver");
  const Result started = driver.cuInit(0);
  int devices = 0;
  const Result counted = started == kSuccess ? driver.cuDeviceGetCount(&devices) : started;
  if (counted == kErrorNoDevice || (counted == kSuccess && devices == 0)) {
    unavailable("NVIDIA's driver is installed, but this process sees no GPU" + visible_devices());
  }
  if (counted != kSuccess) {
    unavailable((started != kSuccess ? "cuInit" : "cuDeviceGetCount") + std::string(" failed with ") +
                error_text(driver, counted));
  }
  protocol::pass_driver(&driver);
  return driver;
}

template <class Work>
Result on_own_stream(const Work& work) noexcept {
  const Driver& cuda = driver();
  Stream stream = nullptr;
  Result result = cuda.cuStreamCreate(&stream, kStreamNonBlocking);
  if (result != kSuccess) return result;
  result = work(stream);
  const Result ended = cuda.cuStreamSynchronize(stream);
  (void)cuda.cuStreamDestroy_v2(stream);
  return result != kSuccess ? result : ended;
}

}  // namespace

const Driver& driver() {
  static const Driver opened = open_driver();  // if open_driver throws, the next call tries again
  return opened;
}

std::string text_of(Result result) { return error_text(driver(), result); }

void check(Result result, const char* doing) {
  if (result == kSuccess) [[likely]]
    return;
  throw Error(NVRAR_SYSTEM, std::string(doing) + ": " + text_of(result));
}

Result copy_to_gpu(DeviceAddress to, const void* from, size_t bytes) noexcept {
  return on_own_stream([&](Stream stream) { return driver().cuMemcpyHtoDAsync_v2(to, from, bytes, stream); });
}

Result copy_from_gpu(void* to, DeviceAddress from, size_t bytes) noexcept {
  return on_own_stream([&](Stream stream) { return driver().cuMemcpyDtoHAsync_v2(to, from, bytes, stream); });
}

}  // namespace nvrar::cuda
