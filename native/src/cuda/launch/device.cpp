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

// The world sizes that kernels in teams have forms of their own for.
constexpr bool is_frequent(uint32_t world) { return world == 2 || world == 4 || world == 8; }

constexpr KernelShape team_shape(uint32_t world) {
  return {world * kWarpThreads, kTeamWarps / world, kHeaderBlocks, kTilesOfSmallTeamBlocks};
}

// Of float sums in one node, whose messages are whole packets.
struct TeamForm {
  Algorithm algorithm;
  const char* prefix;
};
constexpr TeamForm kTeamForms[] = {{Algorithm::kOneShot, "nvrar_one_shot_"},
                                   {Algorithm::kTwoShot, "nvrar_two_shot_"},
                                   {Algorithm::kReduceScatter, "nvrar_reduce_scatter_"}};

}  // namespace

std::string capability_text(uint32_t compute_capability) {
  return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

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
      compute_capability_(compute_capability_of(handle())),
      multiprocessors_(static_cast<uint32_t>(attribute(handle(), kMultiprocessorCount))),
      multiprocessor_{static_cast<uint32_t>(attribute(handle(), kRegistersOfAMultiprocessor)),
                      static_cast<uint32_t>(attribute(handle(), kSharedBytesOfAMultiprocessor)),
                      static_cast<uint32_t>(attribute(handle(), kReservedSharedBytes))} {
  try {
    const CurrentContext current(context());
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

void Device::load_kernels() {
  for (const Fatbin& fatbin : kernels()) {
    const Result loaded = driver().cuModuleLoadData(&modules_[fatbin.source], fatbin.image);
    if (fits_no_kernel(loaded)) {
      throw Error(NVRAR_UNAVAILABLE, "GPU " + std::to_string(ordinal()) + " (compute capability " +
                                         capability_text(compute_capability()) +
                                         ") cannot run the kernels of this build of libnvrar: " + text_of(loaded));
    }
    check(loaded, "loading the GPU kernels");
  }
  const KernelShape steps_shape = {kWarpThreads, kWorkerWarps, 0, kTilesOfSmallBlocks};
  move_ = find("move", "nvrar_move", steps_shape);
  transfer_ = find("transfer", "nvrar_transfer", {kTransferThreads});
  // The kernels in `whole` must be fast and keep their block size; the blocks of the others must fit into the places
  // that these leave.
  std::vector<Kernel*> whole = {&move_, &transfer_};
  std::vector<Kernel*> divisible;
  for (uint32_t world = 2; world <= protocol::kMaxRanks; ++world) {
    const bool often = is_frequent(world);
    Kernel& kernel = team_moves_[world];
    kernel = find("team_move", "nvrar_team_move_" + std::to_string(often ? world : 0), team_shape(world), true, often);
    has_programmatic_ = has_programmatic_ && kernel.programmatic.any != nullptr;
    whole.push_back(&kernel);
  }
  for (size_t code = 0; code < kElementTypes.size(); ++code) {
    const ElementType& type = kElementTypes[code];
    if (type.name == nullptr) continue;
    Kernel& steps = sums_[code];
    steps = find(type.sum_source, std::string("nvrar_sum_") + type.name, steps_shape);
    Kernel& node_steps = node_sums_[code];
    node_steps = find(type.sum_source, std::string("nvrar_sum_nodes_") + type.name, steps_shape);
    divisible.insert(divisible.end(), {&steps, &node_steps});
    if (type.in_teams) load_fused(type, code, &whole);
    for (uint32_t world = 2; type.in_teams && world <= protocol::kMaxRanks; ++world) {
      const bool often = is_frequent(world);
      for (uint32_t form = 0; form < std::size(kTeamForms); ++form) {
        const bool pair = world == 2 && kTeamForms[form].algorithm != Algorithm::kTwoShot;
        const std::string source = std::string("team_") + type.name;
        const std::string name =
            kTeamForms[form].prefix + std::string(type.name) + "_" + std::to_string(often ? world : 0);
        const KernelShape shape =
            pair ? KernelShape{kWarpThreads, kPairWarps, kHeaderBlocks, kTilesOfSmallPairBlocks} : team_shape(world);
        Kernel& kernel = teams_[code][form][world];
        kernel = find(source, name, shape, true, often);
        has_programmatic_ = has_programmatic_ && kernel.programmatic.any != nullptr;
        whole.push_back(&kernel);
      }
    }
  }
  share_out_places(whole, divisible);
  constexpr size_t kNorm = 1;
  for (const auto& of_type : fused_) {
    for (const auto& of_way : of_type[kNorm]) {
      for (const Kernel& kernel : of_way) {
        if (kernel.forms.any != nullptr) most_in_cluster_ = std::min(most_in_cluster_, find_most_in_cluster(kernel));
      }
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

void Device::load_fused(const ElementType& type, size_t code, std::vector<Kernel*>* loaded) {
  const std::string source = std::string("fused_") + type.name;
  for (const bool norm : {false, true}) {
    for (const bool two_shot : {false, true}) {
      for (uint32_t world = 1; world <= protocol::kMaxRanks; ++world) {
        const bool pair = world == 2 && !two_shot;
        const bool often = is_frequent(world) && (world != 2 || pair);
        const std::string name = std::string("nvrar_fused_") + (norm ? "norm_" : "") +
                                 (two_shot ? "two_shot_" : "one_shot_") + type.name + "_" +
                                 std::to_string(often ? world : 0);
        const KernelShape shape = pair ? KernelShape{kWarpThreads, kTeamWarps, kHeaderBlocks, {}} : team_shape(world);
        Kernel& kernel = fused_[code][norm ? 1 : 0][two_shot ? 1 : 0][world];
        kernel = find(source, name, shape, true, often);
        has_programmatic_ = has_programmatic_ && kernel.programmatic.any != nullptr;
        loaded->push_back(&kernel);
      }
    }
  }
}

// With all of a kernel's forms.
uint32_t Device::find_most_in_cluster(const Kernel& kernel) const {
  // Where the driver compiles PTX for an older GPU, blocks have no means to meet, as launches have none to start early.
  if (kernel.programmatic.any == nullptr) return 1;
  if (compute_capability_ < kMinClusterCapability || attribute(handle(), kClusterLaunch) == 0) return 1;
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

Kernel Device::find(const std::string& source, const std::string& name, const KernelShape& shape, bool in_teams,
                    bool has_single) const {
  Kernel kernel;
  static_cast<KernelShape&>(kernel) = shape;
  kernel.in_order = in_teams;
  const auto module = modules_.find(source);
  if (module == modules_.end()) throw Error(NVRAR_INTERNAL, "libnvrar holds no kernels of " + source);
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
    return find_function(&forms->any, name + suffix, may_lack) &&
           (!has_single || find_function(&forms->single, name + "_single" + suffix, may_lack));
  };
  (void)find_forms(&kernel.forms, "", false);
  // A build without images for this GPU may run PTX for an older one here, which has no such forms.
  if (in_teams && !find_forms(&kernel.programmatic, "_programmatic", true)) kernel.programmatic = {};
  if (kernel.own_shared_bytes >
      shared_bytes_of_a_block(multiprocessor_.shared_bytes, multiprocessor_.reserved_shared_bytes, kPlaces)) {
    throw Error(NVRAR_INTERNAL, name + " has more shared memory than a block may");
  }
  return kernel;
}

void Device::require_programmatic_launch() const {
  const std::string gpu = "GPU " + std::to_string(ordinal());
  if (compute_capability_ < kMinProgrammaticCapability) {
    throw Error(NVRAR_INVALID_ARGUMENT, "programmatic_launch needs compute capability " +
                                            capability_text(kMinProgrammaticCapability) + " or newer, " + gpu +
                                            " has " + capability_text(compute_capability_));
  }
  if (has_programmatic_) return;
  throw Error(NVRAR_INVALID_ARGUMENT, "this build of libnvrar has no kernels with programmatic_launch for " + gpu +
                                          " (compute capability " + capability_text(compute_capability_) + ")");
}

const Kernel& Device::kernel(const KernelChoice& choice) const {
  const bool nodes = choice.topology.nodes() > 1;
  if (choice.fusion != 0) {
    const bool two_shot = choice.algorithm == Algorithm::kTwoShot;
    const bool norm = choice.fusion == NVRAR_FUSION_RMS_NORM;
    return fused_[choice.data_type][norm ? 1 : 0][two_shot ? 1 : 0][choice.topology.world];
  }
  // Only of a type: a barrier has none.
  const auto steps = [&]() -> const Kernel& { return nodes ? node_sums_[choice.data_type] : sums_[choice.data_type]; };
  switch (choice.algorithm) {
    case Algorithm::kOneShot:
    case Algorithm::kTwoShot:
    case Algorithm::kReduceScatter:
      if (choice.op != NVRAR_SUM || nodes || !choice.aligned) return steps();
      for (uint32_t form = 0; form < std::size(kTeamForms); ++form) {
        const Kernel& kernel = teams_[choice.data_type][form][choice.topology.world];
        if (kTeamForms[form].algorithm == choice.algorithm && kernel.forms.any != nullptr) return kernel;
      }
      return steps();
    case Algorithm::kHierarchical:
      if (!nodes) throw Error(NVRAR_INTERNAL, "a hierarchical all-reduce has no kernel for a group in one node");
      return steps();
    case Algorithm::kReduce:
      return steps();
    case Algorithm::kAllGather:
    case Algorithm::kAllToAll:
    case Algorithm::kBroadcast:
    case Algorithm::kBarrier:
      return choice.aligned ? team_moves_[choice.topology.world] : move_;
    default:
      return move_;
  }
}

}  // namespace nvrar::cuda
