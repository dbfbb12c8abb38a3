#include "cuda/nvshmem.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "error.h"

namespace nvrar::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrary[] = "libnvshmem_host.so.3";
constexpr int kMinMajor = 3;
constexpr int kMinMinor = 3;
constexpr int kMinPatch = 20;
constexpr char kNeeded[] = "NVSHMEM 3.3.20 or newer";

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

class Candidates {
 public:
  void add(const fs::path& file) {
    std::string text = file.string();
    if (std::find(files_.begin(), files_.end(), text) == files_.end()) files_.push_back(std::move(text));
  }
  // The wheels nvidia-nvshmem-cu12 and -cu13 put it under site-packages (dist-packages on Debian) of a prefix.
  void add_python_prefix(const fs::path& prefix) {
    std::error_code ignored;
    std::vector<fs::path> versions;
    for (fs::directory_iterator entry(prefix / "lib", ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
      if (entry->path().filename().string().rfind("python3", 0) == 0) versions.push_back(entry->path());
    }
    std::sort(versions.begin(), versions.end());
    for (const fs::path& version : versions) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        if (fs::is_directory(version / packages, ignored)) add_site_packages(version / packages);
      }
    }
  }
  void add_site_packages(const fs::path& packages) { add(packages / "nvidia/nvshmem/lib" / kLibrary); }
  std::vector<std::string> take() { return std::move(files_); }

 private:
  std::vector<std::string> files_;
};

// The prefix of the python3 that this process would run: a virtual environment need not be activated to be used.
std::optional<fs::path> prefix_of_path_python() {
  std::istringstream path(environment("PATH"));
  std::string directory;
  std::error_code ignored;
  while (std::getline(path, directory, ':')) {
    if (!directory.empty() && fs::exists(fs::path(directory) / "python3", ignored)) {
      return fs::path(directory).parent_path();
    }
  }
  return std::nullopt;
}

std::string dl_error() {
  const char* const reason = ::dlerror();
  return reason != nullptr ? reason : "cannot be opened";
}

// Why the library at `path` is no good, or nothing and `out` is whole.
std::optional<std::string> try_open(const std::string& path, Nvshmem& out) {
  if (std::error_code ignored; path.find('/') != std::string::npos && !fs::exists(path, ignored)) return "not there";
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
    // dlopen's text begins with the path, or with what the path needs.
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

std::vector<std::string> nvshmem_candidates(const NvshmemConfig& config) {
  Candidates candidates;
  std::error_code ignored;
  if (!config.library.empty()) {  // who names one wants no other
    const fs::path named(config.library);
    candidates.add(fs::is_directory(named, ignored) ? named / kLibrary : named);
    return candidates.take();
  }
  if (const std::string home = environment("NVSHMEM_HOME"); !home.empty()) {
    candidates.add(fs::path(home) / "lib" / kLibrary);
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = environment(variable); !prefix.empty()) candidates.add_python_prefix(prefix);
  }
  std::istringstream python_path(environment("PYTHONPATH"));
  for (std::string directory; std::getline(python_path, directory, ':');) {
    if (fs::is_directory(fs::path(directory) / "nvidia/nvshmem", ignored)) candidates.add_site_packages(directory);
  }
  if (const std::optional<fs::path> prefix = prefix_of_path_python()) candidates.add_python_prefix(*prefix);
  if (const std::string home = environment("HOME"); !home.empty()) {
    candidates.add_python_prefix(fs::path(home) / ".local");
  }
  for (const char* prefix : {"/usr/local", "/usr"}) candidates.add_python_prefix(prefix);
  candidates.add_site_packages("/usr/lib/python3/dist-packages");
  candidates.add(kLibrary);
  return candidates.take();
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

}  // namespace nvrar::cuda
