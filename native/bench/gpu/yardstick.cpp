#include "gpu/yardstick.h"

#include <nvrar.h>

#include <string>

#include "gpu/images.h"

namespace nvrar::bench {
namespace {

using yardstick::kGroupVectors;
using yardstick::kVectorBytes;

constexpr uint64_t kMostBytes = 8 << 20;
constexpr uint64_t kKiB = 1 << 10;
constexpr int kPairRanks = 2;

uint64_t div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Yardstick::Yardstick(Team* team, bool programmatic_launch) : peers_(team), programmatic_launch_(programmatic_launch) {
  if (!has_kernels()) return;
  const Kernels kernels(yardstick_image());
  const auto find = [&](Kernel* kernel, const std::string& name) {
    kernel->small = kernels.of((name + "_small").c_str());
    kernel->big = kernels.of((name + "_big").c_str());
  };
  if (peers_.ranks() == kPairRanks) {
    find(&pair_, "nvrar_bench_pair");
  } else {
    find(&one_shot_, "nvrar_bench_one_shot_" + std::to_string(peers_.ranks()));
    find(&two_shot_, "nvrar_bench_two_shot_" + std::to_string(peers_.ranks()));
  }
}

bool Yardstick::has_kernels() const { return peers_.ranks() == 2 || peers_.ranks() == 4 || peers_.ranks() == 8; }

bool Yardstick::takes(const Problem& problem) const {
  return has_kernels() && problem.collective == Collective::kAllReduce && problem.data_type == NVRAR_BFLOAT16 &&
         problem.op == NVRAR_SUM && problem.bytes() <= kMostBytes && problem.bytes() % kVectorBytes == 0;
}

// The best kernel and number of threads per block for each size, as measured by the study on 8 H200 GPUs.
Yardstick::Shape Yardstick::shape_of(uint64_t bytes) const {
  const auto ranks = static_cast<unsigned>(peers_.ranks());
  if (peers_.ranks() == kPairRanks) {
    const unsigned threads = bytes <= 4 * kKiB ? 32 : bytes <= 64 * kKiB ? 64 : bytes <= 512 * kKiB ? 128 : 256;
    return {&pair_, 1, threads, 0};
  }
  const bool one = bytes <= (ranks == 4 ? 96 : 40) * kKiB;
  const unsigned threads = ranks == 4 && bytes <= 1024 * kKiB ? 128 : 256;
  return {one ? &one_shot_ : &two_shot_, one ? 1u : ranks, threads, threads / (32 * ranks)};
}

void Yardstick::enqueue(const Problem& problem, const Buffers& at, CudaStream stream) {
  const uint64_t vectors = problem.bytes() / kVectorBytes;
  const Shape shape = shape_of(problem.bytes());
  const uint64_t groups = div_up(div_up(vectors, shape.slices), kGroupVectors);
  const uint64_t blocks = shape.teams == 0 ? div_up(vectors, shape.threads) : div_up(groups, shape.teams);
  const bool big =
      groups * static_cast<uint64_t>(peers_.ranks()) * kGroupVectors * kVectorBytes > yardstick::kSmallArea;
  yardstick::Arguments arguments{};
  arguments.in = at.send;
  arguments.out = at.recv;
  arguments.peers = peers_.arguments();
  arguments.vectors = static_cast<uint32_t>(vectors);
  arguments.base = big ? 4 * yardstick::kSmallArea / kVectorBytes : 0;
  void* pointers[] = {&arguments};
  launch(big ? shape.kernel->big : shape.kernel->small, {static_cast<unsigned>(blocks), shape.threads},
         programmatic_launch_, stream, pointers);
}

void Yardstick::check(CudaStream) { peers_.check(); }

}  // namespace nvrar::bench
