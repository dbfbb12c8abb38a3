// Tests where NVSHMEM's library is searched, and the message about each place, with a stub of NVSHMEM (stub_nvshmem).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cuda/memory/symmetric_memory.h"
#include "cuda/nvshmem/nvshmem.h"
#include "support/forked.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

namespace fs = std::filesystem;
using cuda::NvshmemConfig;

constexpr char kInWheel[] = "nvidia/nvshmem/lib/libnvshmem_host.so.3";

// A folder that is gone afterwards, and an environment in which NVSHMEM is nowhere.
class Bare {
 public:
  Bare() : root_(fs::temp_directory_path() / ("nvrar-nvshmem-" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "home");
    for (const char* name : {"NVSHMEM_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"}) {
      ::unsetenv(name);
    }
    set("HOME", root_ / "home");
    set("PATH", root_ / "bin");
  }
  ~Bare() { fs::remove_all(root_); }
  fs::path operator/(const std::string& below) const { return root_ / below; }
  void set(const char* name, const fs::path& value) { ::setenv(name, value.c_str(), 1); }
  // The stub at that place below the root.
  fs::path put(const std::string& below, const char* library = NVRAR_STUB_NVSHMEM) {
    fs::create_directories((root_ / below).parent_path());
    fs::create_symlink(library, root_ / below);
    return root_ / below;
  }

 private:
  fs::path root_;
};

std::string opened(const NvshmemConfig& config = {}) { return cuda::nvshmem(config).path; }

std::string refusal(const NvshmemConfig& config = {}) {
  return error_of([&] { (void)cuda::nvshmem(config); });
}

// Then no folder of a test is one in which it is nowhere.
bool is_installed_for_all() {
  const std::vector<std::string> candidates = cuda::nvshmem_candidates({});
  void* const found = ::dlopen(cuda::kNvshmemLibrary, RTLD_LAZY | RTLD_LOCAL);
  return found != nullptr || std::any_of(candidates.begin(), candidates.end(), [](const std::string& path) {
           return path.rfind("/usr/", 0) == 0 && fs::exists(path);
         });
}

void in_a_process(const std::function<void(Bare&)>& body) {
  EXPECT_TRUE(run_forked(1, [&](Process&) {
    Bare bare;
    body(bare);
  }));
}

TEST(NvshmemLibrary, EveryPlaceThatWasTriedIsNamedWithWhatWasWrongThere) {
  if (is_installed_for_all()) GTEST_SKIP() << "NVSHMEM is installed for all on this machine";
  in_a_process([](Bare& bare) {
    bare.set("NVSHMEM_HOME", bare / "nowhere");
    const std::string broken = std::string("venv/lib/python3.11/site-packages/") + kInWheel;
    fs::create_directories((bare / broken).parent_path());
    std::ofstream(bare / broken) << "no library at all";
    bare.set("VIRTUAL_ENV", bare / "venv");
    bare.put(std::string("home/.local/lib/python3.12/site-packages/") + kInWheel, NVRAR_STUB_NVSHMEM_INCOMPLETE);
    const std::string error = refusal();
    for (const std::string& part :
         {std::string("4 NVSHMEM 3.3.20 or newer is not here (pip install nvidia-nvshmem-cu13, or set NVSHMEM_HOME). "
                      "Tried: "),
          (bare / "nowhere/lib/libnvshmem_host.so.3").string() + ": not there; ", (bare / broken).string() + ": ",
          std::string("/python3.12/site-packages/") + kInWheel + ": lacks nvshmem_ptr",
          std::string("libnvshmem_host.so.3: cannot open shared object file")}) {
      EXPECT_TRUE(contains(error, part)) << part << " is not in " << error;
    }
  });
}

TEST(NvshmemLibrary, IsFoundInEveryPlaceInTheOrderThatIsDocumented) {
  in_a_process([](Bare& bare) {
    // From the last place to the first: each must win over all that were put before.
    const auto expect_first = [](const fs::path& file) {
      const std::vector<std::string> candidates = cuda::nvshmem_candidates({});
      const auto exists = [](const std::string& path) { return fs::exists(path); };
      const auto first = std::find_if(candidates.begin(), candidates.end(), exists);
      ASSERT_NE(first, candidates.end());
      EXPECT_EQ(*first, file.string());
    };
    expect_first(bare.put(std::string("home/.local/lib/python3.11/site-packages/") + kInWheel));
    fs::create_directories(bare / "prefix/bin");
    std::ofstream(bare / "prefix/bin/python3") << "#!/bin/sh\n";
    bare.set("PATH", (bare / "bin").string() + ":" + (bare / "prefix/bin").string());
    expect_first(bare.put(std::string("prefix/lib/python3.9/site-packages/") + kInWheel));
    bare.set("PYTHONPATH", (bare / "other").string() + ":" + (bare / "packages").string());
    expect_first(bare.put(std::string("packages/") + kInWheel));
    bare.set("CONDA_PREFIX", bare / "conda");
    expect_first(bare.put(std::string("conda/lib/python3.10/site-packages/") + kInWheel));
    bare.set("VIRTUAL_ENV", bare / "venv");
    expect_first(bare.put(std::string("venv/lib/python3.13/site-packages/") + kInWheel));
    bare.set("NVSHMEM_HOME", bare / "nvshmem");
    const fs::path home = bare.put("nvshmem/lib/libnvshmem_host.so.3");
    expect_first(home);
    EXPECT_EQ(opened(), home.string());
  });
}

// A Ray worker is started with Ray's jars on its class path, whose virtual environment need not be activated.
TEST(NvshmemLibrary, IsLookedForBesideTheRayThatStartedTheProcess) {
  std::string worker;
  for (const char* argument :
       {"java", "-Dray.raylet.startup-token=3", "-cp",
        "/opt/ray/lib/python3.11/site-packages/ray/jars/*:/home/x/app.jar:/home/x/.venv/lib/python3.12/site-packages/a",
        "-Dx=/opt/ray/lib/python3.11/site-packages/y", "/site-packages", "io.ray.Worker"}) {
    worker += argument;
    worker += '\0';
  }
  EXPECT_EQ(cuda::site_packages_in(worker), (std::vector<std::string>{"/opt/ray/lib/python3.11/site-packages",
                                                                      "/home/x/.venv/lib/python3.12/site-packages"}));
  EXPECT_TRUE(cuda::site_packages_in("java\0-cp\0app.jar").empty());
}

TEST(NvshmemLibrary, APlaceThatTheConfigNamesIsTheOnlyOne) {
  in_a_process([](Bare& bare) {
    bare.put("nvshmem/lib/libnvshmem_host.so.3");
    bare.set("NVSHMEM_HOME", bare / "nvshmem");
    NvshmemConfig config;
    config.library = (bare / "elsewhere.so").string();
    const std::string error = refusal(config);
    EXPECT_TRUE(contains(error, "Tried: " + config.library + ": not there")) << error;
    EXPECT_FALSE(contains(error, "; ")) << error;
    config.library = (bare / "nvshmem/lib").string();  // a directory
    EXPECT_EQ(opened(config), config.library + "/libnvshmem_host.so.3");
  });
}

TEST(NvshmemLibrary, APlaceThatTheUserNamesIsOpenedForAllGroupsAndNoOtherAfterIt) {
  in_a_process([](Bare& bare) {
    bare.set("NVSHMEM_HOME", bare / "nowhere");
    const std::string named = bare.put("named/lib/libnvshmem_host.so.3").string();
    const std::string second = bare.put("second/lib/libnvshmem_host.so.3", NVRAR_STUB_NVSHMEM_NEWER).string();
    EXPECT_TRUE(contains(error_of([&] { (void)cuda::find_nvshmem((bare / "none").string()); }), "none: not there"));
    EXPECT_EQ(cuda::find_nvshmem((bare / "named").string()).path, named);
    EXPECT_EQ(opened(), named);
    EXPECT_EQ(cuda::find_nvshmem("").path, named);
    EXPECT_EQ(cuda::find_nvshmem((bare / "named/lib").string()).path, named);
    EXPECT_EQ(error_of([&] { (void)cuda::find_nvshmem((bare / "second").string()); }),
              "4 this process has opened the NVSHMEM of " + named + " already, and " + second +
                  " cannot take its place: name it before the first group is made");
  });
}

TEST(NvshmemLibrary, VersionsBefore3_3_20AndOfAnotherMajorAreRefused) {
  for (const char* version : {"2.11.0", "3.2.5", "3.3.9", "3.3.19", "4.0.0"}) {
    in_a_process([&](Bare&) {
      ::setenv("STUB_NVSHMEM_VERSION", version, 1);
      NvshmemConfig config;
      config.library = NVRAR_STUB_NVSHMEM;
      EXPECT_TRUE(contains(refusal(config), std::string("whole/libnvshmem_host.so.3: is NVSHMEM ") + version))
          << refusal(config);
    });
  }
  for (const char* version : {"3.3.20", "3.4.5", "3.5.0", "3.8.0"}) {
    in_a_process([&](Bare&) {
      ::setenv("STUB_NVSHMEM_VERSION", version, 1);
      NvshmemConfig config;
      config.library = NVRAR_STUB_NVSHMEM;
      EXPECT_EQ(cuda::nvshmem(config).version.text(), version);
    });
  }
}

// Its CUDA runtime would find the driver insufficient and end the process.
TEST(NvshmemLibrary, IsPassedOverWhereItIsTooNewForTheDriver) {
  in_a_process([](Bare& bare) {
    ::setenv("STUB_CUDA_DRIVER_VERSION", "12080", 1);
    NvshmemConfig config;
    config.library = NVRAR_STUB_NVSHMEM_NEWER;
    const std::string error = refusal(config);
    EXPECT_TRUE(contains(error,
                         "newer/libnvshmem_host.so.3: is built for CUDA 99, the driver here is for CUDA 12.8 "
                         "(there is nvidia-nvshmem-cu12)"))
        << error;
    bare.put(std::string("venv/lib/python3.11/site-packages/") + kInWheel, NVRAR_STUB_NVSHMEM_NEWER);
    bare.set("VIRTUAL_ENV", bare / "venv");
    const fs::path other = bare.put(std::string("home/.local/lib/python3.11/site-packages/") + kInWheel);
    EXPECT_EQ(opened(), other.string());
  });
}

TEST(NvshmemLibrary, IsLookedForAgainAfterAFailure) {
  if (is_installed_for_all()) GTEST_SKIP() << "NVSHMEM is installed for all on this machine";
  in_a_process([](Bare& bare) {
    EXPECT_NE(refusal(), "");
    bare.set("NVSHMEM_HOME", bare / "nvshmem");
    const fs::path installed = bare.put("nvshmem/lib/libnvshmem_host.so.3");
    EXPECT_EQ(opened(), installed.string());
  });
}

}  // namespace
}  // namespace nvrar::test
