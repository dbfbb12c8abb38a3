#include "support/gpu.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "cuda/driver.h"

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

int32_t test_backend() { return on_gpu() ? NVRAR_BACKEND_CUDA : NVRAR_BACKEND_CPU; }

int32_t gpu_of(int rank) {
  static const char* const gpus = std::getenv("NVRAR_TEST_GPUS");
  return gpus == nullptr ? 0 : rank % std::stoi(gpus);
}

uint64_t stream_of(int rank) { return on_gpu() ? reinterpret_cast<uint64_t>(rank_of(rank).stream) : 0; }

nvrar_status settled(int rank, nvrar_comm* comm, nvrar_status enqueued) {
  if (!on_gpu() || enqueued != NVRAR_OK) return enqueued;
  const cuda::CurrentContext current(rank_of(rank).context);
  cuda::check(cuda::driver().cuStreamSynchronize(rank_of(rank).stream), "waiting for a call");
  return nvrar_async_error(comm);
}

Image::Image(int rank, uint64_t at, GuardedBuffer* buffer) : rank_(rank), at_(at), buffer_(buffer) {
  if (!on_gpu()) return;
  const auto storage = buffer->storage();
  const uint64_t distance = reinterpret_cast<uint64_t>(storage.data()) % 64;
  EXPECT_LE(at + storage.size() + distance, kImageRoomBytes);
  copy_ = rank_of(rank).images + at + distance;
  const cuda::CurrentContext current(rank_of(rank).context);
  cuda::check(cuda::driver().cuMemcpyHtoDAsync_v2(copy_, storage.data(), storage.size(), rank_of(rank).stream),
              "copying to the GPU");
}

uint64_t Image::end() const { return at_ + (buffer_->storage().size() + 127) / 64 * 64; }

uint64_t Image::address(const uint8_t* place) const {
  if (!on_gpu()) return reinterpret_cast<uint64_t>(place);
  return copy_ + static_cast<uint64_t>(place - buffer_->storage().data());
}

void Image::fetch() {
  if (!on_gpu()) return;
  const auto storage = buffer_->storage();
  const cuda::CurrentContext current(rank_of(rank_).context);
  cuda::check(cuda::driver().cuMemcpyDtoHAsync_v2(storage.data(), copy_, storage.size(), rank_of(rank_).stream),
              "copying from the GPU");
  cuda::check(cuda::driver().cuStreamSynchronize(rank_of(rank_).stream), "copying from the GPU");
}

}  // namespace nvrar::test
