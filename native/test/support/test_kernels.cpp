#include "support/test_kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "cuda/driver/driver.h"
#include "protocol/test_build.h"

namespace nvrar::test {
namespace {

using cuda::DeviceAddress;
using cuda::Driver;
using cuda::Function;
using cuda::FusedArgs;
using cuda::KernelArgs;
using cuda::kSuccess;
using cuda::LaunchConfig;
using cuda::Result;
using cuda::TransferArgs;

constexpr Result kErrorLaunchTimeout = 702;
constexpr auto kMeetLimit = std::chrono::seconds(30);

Driver real{};

std::mutex mutex;
std::map<Function, std::string> names;
Stall stall{};
volatile uint32_t* stalled = nullptr;  // in memory that the device writes
DeviceAddress stalled_on_device = 0;
std::atomic<bool> in_one_launch{false};
std::atomic<uint64_t> one_launches{0};

Result get_function(Function* function, cuda::Module module, const char* name) {
  const Result result = real.cuModuleGetFunction(function, module, name);
  const std::lock_guard lock(mutex);
  if (result == kSuccess) names[*function] = name;
  return result;
}

std::string name_of(Function function) {
  const std::lock_guard lock(mutex);
  const auto found = names.find(function);
  return found == names.end() ? "" : found->second;
}

// In a context that is current.
Result fill_switches(Switches* switches) {
  const std::lock_guard lock(mutex);
  if (stalled == nullptr) {
    void* host = nullptr;
    const Result taken = real.cuMemHostAlloc(&host, sizeof *stalled, cuda::kHostPortable | cuda::kHostMapped);
    if (taken != kSuccess) return taken;
    const Result mapped = real.cuMemHostGetDevicePointer_v2(&stalled_on_device, host, 0);
    if (mapped != kSuccess) return mapped;
    stalled = static_cast<uint32_t*>(host);
    *stalled = 0;
  }
  *switches = {stall, stalled_on_device, protocol::test_build.planted, 0};
  return kSuccess;
}

template <class Args>
Result launch_one(const LaunchConfig* config, Function function, const Args& args) {
  Launch<Args> launch{};
  if (const Result result = fill_switches(&launch.switches); result != kSuccess) return result;
  launch.own = args;
  void* arguments[] = {&launch};
  return real.cuLaunchKernelEx(config, function, arguments, nullptr);
}

// Where the ranks of a call meet.
template <class Args>
class Meeting {
 public:
  Result join(const LaunchConfig& config, Function function, const Args& args) {
    const protocol::Launch& launch = launch_of(args);
    const uint32_t world = launch.layout.topology.world;
    // What the kernel reads is there before it is launched on another rank's stream.
    if (const Result result = real.cuStreamSynchronize(config.stream); result != kSuccess) return result;
    std::unique_lock lock(mutex_);
    comers_[launch.rank] = {config, function, args};
    const uint64_t number = number_;
    if (++count_ == world) {
      result_ = launch_all(world);
      count_ = 0;
      ++number_;
      lock.unlock();
      met_.notify_all();
      return result_;
    }
    if (met_.wait_for(lock, kMeetLimit, [&] { return number_ != number; })) return result_;
    --count_;
    return kErrorLaunchTimeout;
  }

 private:
  struct Comer {
    LaunchConfig config;
    Function function;
    Args args;
  };

  static const protocol::Launch& launch_of(const KernelArgs& args) { return args.launch; }
  static const protocol::Launch& launch_of(const TransferArgs& args) { return args.member.launch; }

  // Where ranks differ in what their addresses allow, all take the kernel that takes every address.
  const Comer& chosen(uint32_t world) const {
    for (uint32_t rank = 0; rank < world; ++rank) {
      const std::string name = name_of(comers_[rank].function);
      if (name == "nvrar_move" || name.rfind("nvrar_sum_", 0) == 0) return comers_[rank];
    }
    return comers_[0];
  }

  Result launch_all(uint32_t world) {
    const Comer& all = chosen(world);
    Launch<Args> launch{};
    if (const Result result = fill_switches(&launch.switches); result != kSuccess) return result;
    std::array<Args, protocol::kMaxRanks> args;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Comer& comer = comers_[rank];
      args[rank] = comer.args;
      launch.blocks[rank] = comer.function == all.function ? comer.config.grid[0] : all.config.grid[0];
      launch.blocks_per_rank = std::max(launch.blocks_per_rank, launch.blocks[rank]);
    }
    if (room_ == 0) {
      if (const Result result = real.cuMemAlloc_v2(&room_, sizeof args); result != kSuccess) return result;
    }
    LaunchConfig config = all.config;
    const Result copied = real.cuMemcpyHtoDAsync_v2(room_, args.data(), sizeof args, config.stream);
    if (copied != kSuccess) return copied;
    launch.of_ranks = reinterpret_cast<const Args*>(room_);
    config.grid[0] = launch.blocks_per_rank * world;
    void* arguments[] = {&launch};
    ++one_launches;
    const Result result = real.cuLaunchKernelEx(&config, all.function, arguments, nullptr);
    return result != kSuccess ? result : real.cuStreamSynchronize(config.stream);
  }

  std::mutex mutex_;
  std::condition_variable met_;
  std::array<Comer, protocol::kMaxRanks> comers_{};
  uint32_t count_ = 0;
  uint64_t number_ = 0;
  Result result_ = kSuccess;
  DeviceAddress room_ = 0;  // for the arguments of all ranks; kept, for giving it back would wait for all kernels
};

template <class Args>
Result launch(const LaunchConfig* config, Function function, void* given) {
  static Meeting<Args> meeting;
  const Args& args = *static_cast<const Args*>(given);
  return in_one_launch ? meeting.join(*config, function, args) : launch_one(config, function, args);
}

Result launch_kernel(const LaunchConfig* config, Function function, void** arguments, void** extra) {
  const std::string name = name_of(function);
  if (name.rfind("nvrar_", 0) != 0) return real.cuLaunchKernelEx(config, function, arguments, extra);
  if (name.rfind("nvrar_fused_", 0) == 0) return launch<FusedArgs>(config, function, arguments[0]);
  return name == "nvrar_transfer" ? launch<TransferArgs>(config, function, arguments[0])
                                  : launch<KernelArgs>(config, function, arguments[0]);
}

}  // namespace

void launch_test_kernels(void* functions) {
  auto* const driver = static_cast<Driver*>(functions);
  real = *driver;
  driver->cuModuleGetFunction = get_function;
  driver->cuLaunchKernelEx = launch_kernel;
}

void stall_kernels(const Stall& place) {
  const std::lock_guard lock(mutex);
  stall = place;
  if (stalled != nullptr) *stalled = 0;
}

bool kernels_stalled() {
  const std::lock_guard lock(mutex);
  return stalled != nullptr && *stalled != 0;
}

OneLaunch::OneLaunch() { in_one_launch = true; }
OneLaunch::~OneLaunch() { in_one_launch = false; }
uint64_t OneLaunch::launches() { return one_launches; }

}  // namespace nvrar::test
