#include "support/gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

namespace nvrar::test {
namespace {

constexpr int kRanks = 8;

// Taken once and kept: memory that is given back in the middle of a test would wait for all kernels of the device.
struct Rank {
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  cuda::DeviceAddress images = 0;
};

std::array<Rank, kRanks> take_ranks() {
  using cuda::check;
  const cuda::Driver& driver = cuda::driver();
  std::array<Rank, kRanks> ranks;
  for (int r = 0; r < kRanks; ++r) {
    Rank& rank = ranks[static_cast<size_t>(r)];
    cuda::DeviceHandle device = 0;
    check(driver.cuDeviceGet(&device, gpu_of(r)), "finding a GPU");
    check(driver.cuDevicePrimaryCtxRetain(&rank.context, device), "taking its context");
    const cuda::CurrentContext current(rank.context);
    check(driver.cuStreamCreate(&rank.stream, cuda::kStreamNonBlocking), "creating a stream");
    check(driver.cuMemAlloc_v2(&rank.images, kImageRoomBytes), "allocating");
  }
  return ranks;
}

const Rank& rank_of(int rank) {
  static const std::array<Rank, kRanks> ranks = take_ranks();
  return ranks[static_cast<size_t>(rank)];
}

}  // namespace

bool on_gpu() {
  static const char* const backend = std::getenv("NVRAR_TEST_BACKEND");
  static const bool gpu = backend != nullptr && std::string(backend) == "cuda";
  return gpu;
}

bool has_gpu() {
  const auto is_gpu = [](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename();
    return name.rfind("nvidia", 0) == 0 && name.find_first_not_of("0123456789", 6) == std::string::npos &&
           name.size() > 6;
  };
  const std::filesystem::directory_iterator devices("/dev");
  return std::any_of(begin(devices), end(devices), is_gpu);
}

int32_t test_backend() { return on_gpu() ? NVRAR_BACKEND_CUDA : NVRAR_BACKEND_CPU; }

int32_t gpu_of(int rank) {
  static const char* const gpus = std::getenv("NVRAR_TEST_GPUS");
  return gpus == nullptr ? 0 : rank % std::stoi(gpus);
}

cuda::Context context_of(int rank) { return rank_of(rank).context; }

uint64_t stream_of(int rank) { return on_gpu() ? reinterpret_cast<uint64_t>(rank_of(rank).stream) : 0; }

nvrar_status settled(int rank, nvrar_comm* comm, nvrar_status enqueued) {
  if (!on_gpu() || enqueued != NVRAR_OK) return enqueued;
  const cuda::CurrentContext current(rank_of(rank).context);
  cuda::check(cuda::driver().cuStreamSynchronize(rank_of(rank).stream), "waiting for a call");
  return nvrar_async_error(comm);
}

Image::Image(int rank, uint64_t at, std::span<uint8_t> memory) : rank_(rank), at_(at), memory_(memory) {
  if (!on_gpu()) return;
  const uint64_t distance = reinterpret_cast<uint64_t>(memory.data()) % 64;
  EXPECT_LE(at + memory.size() + distance, kImageRoomBytes);
  copy_ = rank_of(rank).images + at + distance;
  give();
}

void Image::give() {
  if (!on_gpu()) return;
  const cuda::CurrentContext current(rank_of(rank_).context);
  cuda::check(cuda::driver().cuMemcpyHtoDAsync_v2(copy_, memory_.data(), memory_.size(), rank_of(rank_).stream),
              "copying to the GPU");
}

uint64_t Image::end() const { return at_ + (memory_.size() + 127) / 64 * 64; }

uint64_t Image::address(const uint8_t* place) const {
  if (!on_gpu()) return reinterpret_cast<uint64_t>(place);
  return copy_ + static_cast<uint64_t>(place - memory_.data());
}

void Image::fetch() {
  if (!on_gpu()) return;
  const cuda::CurrentContext current(rank_of(rank_).context);
  cuda::check(cuda::driver().cuMemcpyDtoHAsync_v2(memory_.data(), copy_, memory_.size(), rank_of(rank_).stream),
              "copying from the GPU");
  cuda::check(cuda::driver().cuStreamSynchronize(rank_of(rank_).stream), "copying from the GPU");
}

}  // namespace nvrar::test
