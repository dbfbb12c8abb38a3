#include "cuda/launch/device.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "common/error.h"
#include "cuda/kernels/move/transfer_args.h"
#include "cuda/launch/fatbin.h"
#include "plan/gpu_limits.h"

namespace nvrar::cuda {
namespace {

constexpr uint32_t kMinComputeCapability = 80;

int attribute(DeviceHandle device, DeviceAttribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "asking for a device's attribute");
  return value;
}

uint32_t compute_capability_of(DeviceHandle device) {
  return static_cast<uint32_t>(10 * attribute(device, kComputeCapabilityMajor) +
                               attribute(device, kComputeCapabilityMinor));
}

// Checks the GPU before it acquires the context, because a context takes memory of the GPU.
std::shared_ptr<const PrimaryContext> take_context(int32_t ordinal) {
  const DeviceHandle device = find_device(ordinal);
  const uint32_t capability = compute_capability_of(device);
  if (capability < kMinComputeCapability) {
    throw Error(NVRAR_UNAVAILABLE, "GPU " + std::to_string(ordinal) + " has compute capability " +
                                       capability_text(capability) + ", needed is " +
                                       capability_text(kMinComputeCapability) + " or newer");
  }
  return std::make_shared<PrimaryContext>(ordinal);
}

// CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED.
constexpr bool fits_no_kernel(Result result) {
  return result == 200 || result == 209 || result == 218 || result == 222 || result == 223;
}

// Whether blocks of these kernels may get fewer tiles.
constexpr bool is_divisible(KernelFamily family) {
  return family == KernelFamily::kSum || family == KernelFamily::kNodeSum || family == KernelFamily::kCrossingSum ||
         family == KernelFamily::kCrossingMove;
}

}  // namespace

std::shared_ptr<Device> Device::open(int32_t ordinal) {
  struct Opened {
    std::mutex mutex;
    std::map<int32_t, std::weak_ptr<Device>> devices;  // guarded by mutex
  };
  static auto* const opened = new Opened;  // never destroyed: other threads may create groups while the process exits
  const std::lock_guard lock(opened->mutex);
  std::weak_ptr<Device>& known = opened->devices[ordinal];
  std::shared_ptr<Device> device = known.lock();
  if (device == nullptr) {
    device.reset(new Device(ordinal));
    known = device;
  }
  return device;
}

Device::Device(int32_t ordinal)
    : primary_(take_context(ordinal)),
      facts_{.compute_capability = compute_capability_of(handle())},
      multiprocessors_(static_cast<uint32_t>(attribute(handle(), kMultiprocessorCount))),
      multiprocessor_{static_cast<uint32_t>(attribute(handle(), kRegistersOfAMultiprocessor)),
                      static_cast<uint32_t>(attribute(handle(), kSharedBytesOfAMultiprocessor)),
                      static_cast<uint32_t>(attribute(handle(), kReservedSharedBytes))} {
  try {
    const CurrentContext current(context());
    load_modules();
    load_kernels();
  } catch (...) {
    unload_kernels();
    throw;
  }
}

Device::~Device() { unload_kernels(); }

void Device::unload_kernels() noexcept {
  const ContextScope scope(context());
  if (!scope) return;
  for (const auto& [source, module] : modules_) (void)driver().cuModuleUnload(module);
}

void Device::load_modules() {
  for (const Fatbin& fatbin : kernels()) {
    const Result loaded = driver().cuModuleLoadData(&modules_[fatbin.source], fatbin.image);
    if (fits_no_kernel(loaded)) {
      throw Error(NVRAR_UNAVAILABLE, "GPU " + std::to_string(ordinal()) + " (compute capability " +
                                         capability_text(compute_capability()) +
                                         ") cannot run the kernels of this build of libnvrar: " + text_of(loaded));
    }
    check(loaded, "loading the GPU kernels");
  }
}

void Device::load_kernels() {
  kernels_.resize(kKernelPlaces);
  // The kernels in `whole` must be fast and keep their block size; the blocks of the others must fit into the places
  // that these leave.
  std::vector<Kernel*> whole;
  std::vector<Kernel*> divisible;
  const std::vector<KernelImage> images = kernel_images();
  for (const KernelImage& image : images) {
    Kernel& kernel = kernels_[index_of(image.id)];
    kernel = find(image);
    if (image.in_teams) has_programmatic_ = has_programmatic_ && kernel.programmatic.any != nullptr;
    (is_divisible(image.id.family) ? divisible : whole).push_back(&kernel);
  }
  share_out_places(whole, divisible);
  facts_.most_in_cluster = kMostInCluster;
  for (const KernelImage& image : images) {
    const Kernel& kernel = this->kernel(image.id);
    const uint8_t type = image.id.data_type;
    const auto tiles = static_cast<uint8_t>(kernel.max_tiles);
    switch (image.id.family) {
      case KernelFamily::kSum:
        facts_.tiles_of_sums[type] = tiles;
        break;
      case KernelFamily::kNodeSum:
        facts_.tiles_of_node_sums[type] = tiles;
        break;
      case KernelFamily::kCrossingSum:
        facts_.tiles_of_crossing_sums[type] = tiles;
        break;
      case KernelFamily::kCrossingMove:
        facts_.tiles_of_crossing_moves = tiles;
        break;
      case KernelFamily::kFusedNormOneShot:
      case KernelFamily::kFusedNormTwoShot:
        facts_.most_in_cluster = std::min(facts_.most_in_cluster, find_most_in_cluster(kernel));
        break;
      default:
        break;
    }
  }
}

void Device::share_out_places(const std::vector<Kernel*>& whole, const std::vector<Kernel*>& divisible) {
  const auto fit = [this](const Kernel& kernel) { return blocks_that_fit(kernel); };
  places_ = share_out(whole, divisible, multiprocessor_, fit);
  for (const std::vector<Kernel*>* const kernels : {&whole, &divisible}) {
    for (const Kernel* const kernel : *kernels) {
      kernel->each_form([&](Function function) {
        check(driver().cuFuncSetAttribute(function, kMostDynamicSharedBytes,
                                          static_cast<int>(kernel->added_shared_bytes)),
              "allowing a kernel its shared memory");
      });
      places_ = std::min(places_, fit(*kernel));  // as many as before, unless the driver reckons in another way
    }
  }
}

// Of all forms of a kernel.
uint32_t Device::blocks_that_fit(const Kernel& kernel) const {
  uint32_t least = ~0u;
  kernel.each_form([&](Function function) {
    int blocks = 0;
    check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
              &blocks, function, static_cast<int>(kernel.max_threads()), kernel.added_shared_bytes),
          "asking how many blocks of a kernel a GPU holds");
    least = std::min(least, static_cast<uint32_t>(blocks));
  });
  return least;
}

// With all of a kernel's forms.
uint32_t Device::find_most_in_cluster(const Kernel& kernel) const {
  // Where the driver compiles PTX for an older GPU, blocks have no means to meet, as launches have none to start early.
  if (kernel.programmatic.any == nullptr) return 1;
  if (compute_capability() < kMinClusterCapability || attribute(handle(), kClusterLaunch) == 0) return 1;
  uint32_t most = kMostInCluster;
  kernel.each_form([&](Function function) {
    check(driver().cuFuncSetAttribute(function, kMayHaveLargeClusters, 1), "allowing large clusters");
    LaunchAttribute cluster{};
    cluster.id = kClusterDimension;
    LaunchConfig config{};
    config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
    config.block[0] = kernel.max_threads();
    config.shared_bytes = kernel.added_shared_bytes;
    config.attributes = &cluster;
    config.attribute_count = 1;
    for (; most > 1; most /= 2) {
      config.grid[0] = cluster.cluster[0] = most;
      cluster.cluster[1] = cluster.cluster[2] = 1;
      int clusters = 0;
      // An error says that there are no clusters of this size, too.
      if (driver().cuOccupancyMaxActiveClusters(&clusters, function, &config) == kSuccess && clusters > 0) break;
    }
  });
  return most;
}

Kernel Device::find(const KernelImage& image) const {
  Kernel kernel;
  static_cast<KernelShape&>(kernel) = image.shape;
  const auto module = modules_.find(image.source);
  if (module == modules_.end()) throw Error(NVRAR_INTERNAL, "libnvrar holds no kernels of " + image.source);
  // Returns whether the kernel is there.
  const auto find_function = [&](Function* function, const std::string& of_name, bool may_lack) {
    const Result found = driver().cuModuleGetFunction(function, module->second, of_name.c_str());
    if (may_lack && found == kErrorNotFound) return false;
    check(found, "finding a GPU kernel");
    const auto attribute_of = [&](FunctionAttribute attribute) {
      int value = 0;
      check(driver().cuFuncGetAttribute(&value, attribute, *function), "asking what a kernel takes");
      return static_cast<uint32_t>(value);
    };
    kernel.registers = std::max(kernel.registers, attribute_of(kRegisters));
    kernel.own_shared_bytes = std::max(kernel.own_shared_bytes, attribute_of(kSharedBytes));
    return true;
  };
  const auto find_forms = [&](Kernel::Forms* forms, const std::string& suffix, bool may_lack) {
    return find_function(&forms->any, image.name + suffix, may_lack) &&
           (!image.has_single || find_function(&forms->single, image.name + "_single" + suffix, may_lack));
  };
  (void)find_forms(&kernel.forms, "", false);
  // A build without images for this GPU may run PTX for an older one here, which has no such forms.
  if (image.in_teams && !find_forms(&kernel.programmatic, "_programmatic", true)) kernel.programmatic = {};
  if (kernel.own_shared_bytes >
      shared_bytes_of_a_block(multiprocessor_.shared_bytes, multiprocessor_.reserved_shared_bytes, kPlaces)) {
    throw Error(NVRAR_INTERNAL, image.name + " has more shared memory than a block may");
  }
  return kernel;
}

void Device::require_programmatic_launch() const {
  const std::string gpu = "GPU " + std::to_string(ordinal());
  if (compute_capability() < kMinProgrammaticCapability) {
    throw Error(NVRAR_INVALID_ARGUMENT, "programmatic_launch needs compute capability " +
                                            capability_text(kMinProgrammaticCapability) + " or newer, " + gpu +
                                            " has " + capability_text(compute_capability()));
  }
  if (has_programmatic_) return;
  throw Error(NVRAR_INVALID_ARGUMENT, "this build of libnvrar has no kernels with programmatic_launch for " + gpu +
                                          " (compute capability " + capability_text(compute_capability()) + ")");
}

}  // namespace nvrar::cuda
