#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "common/read_file.h"
#include "cuda/nvshmem/nvshmem.h"

namespace nvrar::cuda {
namespace {

namespace fs = std::filesystem;

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
  // The wheels nvidia-nvshmem-cu12 and -cu13 install it under site-packages (dist-packages on Debian) of a prefix.
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
  void add_site_packages(const fs::path& packages) { add(packages / "nvidia/nvshmem/lib" / kNvshmemLibrary); }
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
    while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
    if (!directory.empty() && fs::exists(fs::path(directory) / "python3", ignored)) {
      return fs::path(directory).parent_path();
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> nvshmem_candidates(const NvshmemConfig& config) {
  Candidates candidates;
  std::error_code ignored;
  if (!config.library.empty()) {  // a named library is the only candidate
    const fs::path named(config.library);
    const fs::path below = named / "lib" / kNvshmemLibrary;
    candidates.add(!fs::is_directory(named, ignored) ? named
                   : fs::exists(below, ignored)      ? below
                                                     : named / kNvshmemLibrary);
    return candidates.take();
  }
  if (const std::string home = environment("NVSHMEM_HOME"); !home.empty()) {
    candidates.add(fs::path(home) / "lib" / kNvshmemLibrary);
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = environment(variable); !prefix.empty()) candidates.add_python_prefix(prefix);
  }
  for (const std::string& packages : site_packages_in(read_file("/proc/self/cmdline")))
    candidates.add_site_packages(packages);
  std::istringstream python_path(environment("PYTHONPATH"));
  for (std::string directory; std::getline(python_path, directory, ':');) {
    if (fs::is_directory(fs::path(directory) / "nvidia/nvshmem", ignored)) candidates.add_site_packages(directory);
  }
  if (const std::optional<fs::path> prefix = prefix_of_path_python()) candidates.add_python_prefix(*prefix);
  if (const std::string home = environment("HOME"); !home.empty()) {
    candidates.add_python_prefix(fs::path(home) / ".local");
  }
  for (const char* prefix : {"/usr/local", "/usr"}) candidates.add_python_prefix(prefix);
  for (const char* packaged : {"13", "12"}) {  // NVIDIA's packages for Debian and Ubuntu
    const fs::path folder = fs::path("/usr/lib/x86_64-linux-gnu/nvshmem") / packaged;
    if (fs::is_directory(folder, ignored)) candidates.add(folder / kNvshmemLibrary);
  }
  candidates.add(kNvshmemLibrary);
  return candidates.take();
}

std::vector<std::string> site_packages_in(const std::string& command_line) {
  constexpr char kFolder[] = "/site-packages/";
  constexpr char kDelimiters[] = ":=;,\"\0";
  const std::string delimiters(kDelimiters, sizeof kDelimiters - 1);
  std::vector<std::string> found;
  for (size_t at = command_line.find(kFolder); at != std::string::npos; at = command_line.find(kFolder, at + 1)) {
    const size_t before = command_line.find_last_of(delimiters, at);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    std::string packages = command_line.substr(begin, at + sizeof kFolder - 2 - begin);
    if (std::find(found.begin(), found.end(), packages) == found.end()) found.push_back(std::move(packages));
  }
  return found;
}

}  // namespace nvrar::cuda
