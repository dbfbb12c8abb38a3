#include "cuda/driver.h"

#include <dlfcn.h>

#include <memory>
#include <string>

#include "error.h"

namespace nvrar::cuda {
namespace {

constexpr int kMinDriverVersion = 12000;  // cuLaunchKernelEx, and kernels of more than 4 KiB of arguments

[[noreturn]] void unavailable(const std::string& sentence) { throw Error(NVRAR_UNAVAILABLE, sentence); }

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
    unavailable("there is no NVIDIA driver here: " + std::string(reason != nullptr ? reason : "libcuda.so.1"));
  }
  Driver driver{};
  std::string missing;
  const auto find = [&](auto* member, const char* name) {
    void* const symbol = ::dlsym(library, name);
    if (symbol == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    *member = reinterpret_cast<std::remove_reference_t<decltype(*member)>>(symbol);
  };
#define NVRAR_CUDA_FIND(name, arguments) find(&driver.name, #name);
  NVRAR_CUDA_FUNCTIONS(NVRAR_CUDA_FIND)
#undef NVRAR_CUDA_FIND
  int version = 0;
  if (driver.cuDriverGetVersion != nullptr && driver.cuDriverGetVersion(&version) == kSuccess &&
      version < kMinDriverVersion) {
    unavailable("the NVIDIA driver is too old: it is for CUDA " + version_text(version) + ", needed is " +
                version_text(kMinDriverVersion) + " or newer");
  }
  if (!missing.empty()) unavailable("the NVIDIA driver's libcuda.so.1 lacks " + missing);
  if (const Result result = driver.cuInit(0); result != kSuccess) {
    unavailable("the NVIDIA driver does not start: cuInit gave " + error_text(driver, result));
  }
  int devices = 0;
  if (const Result result = driver.cuDeviceGetCount(&devices); result != kSuccess) {
    unavailable("the NVIDIA driver does not count its devices: " + error_text(driver, result));
  }
  if (devices == 0) unavailable("the NVIDIA driver sees no GPU (is CUDA_VISIBLE_DEVICES empty?)");
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver opened = open_driver();  // one that throws is tried again
  return opened;
}

void check(Result result, const char* doing) {
  if (result == kSuccess) [[likely]]
    return;
  throw Error(NVRAR_SYSTEM, std::string(doing) + ": " + error_text(driver(), result));
}

}  // namespace nvrar::cuda
