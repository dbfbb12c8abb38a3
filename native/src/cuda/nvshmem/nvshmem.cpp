#include "cuda/nvshmem/nvshmem.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/error.h"
#include "common/handle.h"
#include "cuda/driver/driver.h"

namespace nvrar::cuda {
namespace {

constexpr int kMinMajor = 3;
constexpr int kMinMinor = 3;
constexpr int kMinPatch = 20;
constexpr char kNeeded[] = "NVSHMEM 3.3.20 or newer";

std::string dl_error() {
  const char* const reason = ::dlerror();
  return reason != nullptr ? reason : "cannot be opened";
}

// The major version of the CUDA toolkit that an NVIDIA library was built with; 0 if it is not found. The file contains
// it only as part of its source paths.
int toolkit_of(const std::string& file) {
  constexpr std::string_view kMark = "/toolkit/r";
  const FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0 || status.st_size <= 0) return 0;
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const base = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, opened.get(), 0);
  if (base == MAP_FAILED) return 0;
  const Mapping mapping(base, bytes);
  const std::string_view contents(static_cast<const char*>(base), bytes);
  for (size_t at = contents.find(kMark); at != std::string_view::npos; at = contents.find(kMark, at + 1)) {
    int major = 0;
    const char* const digits = contents.data() + at + kMark.size();
    const auto [end, failed] = std::from_chars(digits, contents.data() + contents.size(), major);
    if (failed == std::errc() && end != contents.data() + contents.size() && *end == '.') return major;
  }
  return 0;
}

// If the driver is older than the CUDA runtime inside NVSHMEM, initialising NVSHMEM ends the process.
std::optional<std::string> too_new_for_driver(const void* symbol) {
  Dl_info info{};
  if (::dladdr(symbol, &info) == 0) return std::nullopt;
  int version = 0;
  try {
    check(driver().cuDriverGetVersion(&version), "reading the driver's version");
  } catch (const Error&) {  // without a driver NVSHMEM is never initialised
    return std::nullopt;
  }
  const int toolkit = toolkit_of(info.dli_fname);
  if (toolkit <= version / 1000) return std::nullopt;
  return "is built for CUDA " + std::to_string(toolkit) + ", the driver here is for CUDA " +
         std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + " (there is nvidia-nvshmem-cu" +
         std::to_string(version / 1000) + ")";
}

// Returns why the library at `path` cannot be used, or nothing, and then `out` is filled.
std::optional<std::string> try_open(const std::string& path, Nvshmem& out) {
  if (std::error_code ignored; path.find('/') != std::string::npos && !std::filesystem::exists(path, ignored))
    return "not there";
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dl_error();
  Nvshmem found{};
  found.path = path;
  std::string missing;
  const auto find = [&](auto* member, const char* name) {
    void* const symbol = ::dlsym(library, name);
    if (symbol == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    *member = reinterpret_cast<std::remove_pointer_t<decltype(member)>>(symbol);
  };
#define NVRAR_NVSHMEM_FIND(result, name, arguments) find(&found.name, #name);
  NVRAR_NVSHMEM_FUNCTIONS(NVRAR_NVSHMEM_FIND)
#undef NVRAR_NVSHMEM_FIND
  std::optional<std::string> wrong;
  if (found.nvshmemx_vendor_get_version_info != nullptr) {
    NvshmemVersion& version = found.version;
    found.nvshmemx_vendor_get_version_info(&version.major, &version.minor, &version.patch);
    if (version.major != kMinMajor || !version.at_least(kMinMajor, kMinMinor, kMinPatch)) {
      wrong = "is NVSHMEM " + version.text();
    }
  }
  if (!wrong && !missing.empty()) wrong = "lacks " + missing;
  if (!wrong) wrong = too_new_for_driver(reinterpret_cast<const void*>(found.nvshmemx_init_status));
  if (wrong) {
    ::dlclose(library);
    return wrong;
  }
  out = std::move(found);
  return std::nullopt;
}

Nvshmem open_nvshmem(const NvshmemConfig& config) {
  std::string tried;
  Nvshmem found;
  for (const std::string& path : nvshmem_candidates(config)) {
    const std::optional<std::string> wrong = try_open(path, found);
    if (!wrong) return found;
    // dlopen's message begins with the path, or with a dependency of it.
    tried += (tried.empty() ? "" : "; ") + (wrong->rfind(path, 0) == 0 ? *wrong : path + ": " + *wrong);
  }
  throw Error(NVRAR_UNAVAILABLE, std::string(kNeeded) + " is not here (pip install nvidia-nvshmem-cu13, or set " +
                                     "NVSHMEM_HOME). Tried: " + tried);
}

}  // namespace

bool NvshmemVersion::at_least(int a, int b, int c) const noexcept {
  if (major != a) return major > a;
  if (minor != b) return minor > b;
  return patch >= c;
}

std::string NvshmemVersion::text() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

const Nvshmem& nvshmem(const NvshmemConfig& config) {
  static std::mutex mutex;
  static std::atomic<const Nvshmem*> opened{nullptr};  // never closed: NVSHMEM's threads may run in it
  const Nvshmem* library = opened.load(std::memory_order_acquire);
  if (library != nullptr) return *library;
  const std::lock_guard guard(mutex);
  library = opened.load(std::memory_order_acquire);
  if (library == nullptr) {
    library = new Nvshmem(open_nvshmem(config));
    opened.store(library, std::memory_order_release);
  }
  return *library;
}

const Nvshmem& find_nvshmem(const std::string& place) {
  NvshmemConfig config;
  config.library = place;
  const Nvshmem& found = nvshmem(config);
  const std::string wanted = nvshmem_candidates(config).front();
  std::error_code ignored;
  if (!place.empty() && found.path != wanted && !std::filesystem::equivalent(found.path, wanted, ignored)) {
    throw Error(NVRAR_UNAVAILABLE, "this process has opened the NVSHMEM of " + found.path + " already, and " + wanted +
                                       " cannot take its place: name it before the first group is made");
  }
  return found;
}

}  // namespace nvrar::cuda
