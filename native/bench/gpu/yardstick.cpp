#include "gpu/yardstick.h"

#include <nvrar.h>

#include <algorithm>
#include <stdexcept>

#include "gpu/images.h"

namespace nvrar::bench {
namespace {

using yardstick::kGroupVectors;
using yardstick::kVectorBytes;

constexpr uint64_t kMostBytes = 8 << 20;
constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kPairRanks = 2;

uint64_t div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Yardstick::Yardstick(Team* team, bool programmatic_launch)
    : team_(team),
      programmatic_launch_(programmatic_launch),
      ring_(yardstick::kRingBytes),
      epochs_(yardstick::kMaxBlocks * sizeof(uint32_t)),
      control_(yardstick::kControlBytes) {
  if (has_kernels()) {
    const Kernels kernels(yardstick_image());
    const auto find = [&](Kernel* kernel, const std::string& name) {
      kernel->small = kernels.of((name + "_small").c_str());
      kernel->big = kernels.of((name + "_big").c_str());
    };
    if (team_->size() == kPairRanks) {
      find(&pair_, "nvrar_bench_pair");
    } else {
      find(&one_shot_, "nvrar_bench_one_shot_" + std::to_string(team_->size()));
      find(&two_shot_, "nvrar_bench_two_shot_" + std::to_string(team_->size()));
    }
  }
  ring_.fill(0xFF);
  epochs_.fill(0);
  control_.fill(0);
  CudaIpcHandle mine{};
  check_cuda(cuda().cuIpcGetMemHandle(&mine, ring_.address()), "sharing the study's ring");
  const std::vector<CudaIpcHandle> all = team_->exchange(mine);
  arguments_.rings[0] = ring_.address();
  for (int k = 1; k < team_->size(); ++k) {
    uint64_t address = 0;
    check_cuda(cuda().cuIpcOpenMemHandle_v2(&address, all[static_cast<size_t>((team_->rank() + k) % team_->size())],
                                            kCudaIpcLazyPeerAccess),
               "mapping another rank's ring of the study");
    peers_.push_back(address);
    arguments_.rings[k] = address;
  }
  arguments_.epoch = epochs_.address();
  arguments_.control = control_.address();
  arguments_.rank = static_cast<uint32_t>(team_->rank());
  team_->meet();
}

Yardstick::~Yardstick() {
  for (uint64_t peer : peers_) (void)cuda().cuIpcCloseMemHandle(peer);
  try {
    team_->meet();  // before a ring is freed that other ranks have mapped
  } catch (const std::exception&) {
    // Another rank has failed and reports it.
  }
}

bool Yardstick::has_kernels() const { return team_->size() == 2 || team_->size() == 4 || team_->size() == 8; }

bool Yardstick::takes(const Problem& problem) const {
  return has_kernels() && problem.collective == Collective::kAllReduce && problem.data_type == NVRAR_BFLOAT16 &&
         problem.op == NVRAR_SUM && problem.bytes() <= kMostBytes && problem.bytes() % kVectorBytes == 0;
}

// The best kernel and number of threads per block for each size, as measured by the study on 8 H200 GPUs.
Yardstick::Shape Yardstick::shape_of(uint64_t bytes) const {
  const auto ranks = static_cast<unsigned>(team_->size());
  if (ranks == kPairRanks) {
    const unsigned threads = bytes <= 4 * kKiB ? 32 : bytes <= 64 * kKiB ? 64 : bytes <= 512 * kKiB ? 128 : 256;
    return {&pair_, 1, threads, 0};
  }
  const bool one = bytes <= (ranks == 4 ? 96 : 40) * kKiB;
  const unsigned threads = ranks == 4 && bytes <= 1024 * kKiB ? 128 : 256;
  return {one ? &one_shot_ : &two_shot_, one ? 1u : ranks, threads, threads / (32 * ranks)};
}

void Yardstick::enqueue(const Problem& problem, uint64_t send, uint64_t recv, CudaStream stream) {
  const uint64_t vectors = problem.bytes() / kVectorBytes;
  const Shape shape = shape_of(problem.bytes());
  const uint64_t groups = div_up(div_up(vectors, shape.slices), kGroupVectors);
  const uint64_t blocks = shape.teams == 0 ? div_up(vectors, shape.threads) : div_up(groups, shape.teams);
  const bool big = groups * static_cast<uint64_t>(team_->size()) * kGroupVectors * kVectorBytes > yardstick::kSmallArea;
  yardstick::Arguments arguments = arguments_;
  arguments.in = send;
  arguments.out = recv;
  arguments.vectors = static_cast<uint32_t>(vectors);
  arguments.base = big ? 4 * yardstick::kSmallArea / kVectorBytes : 0;
  void* pointers[] = {&arguments};
  launch(big ? shape.kernel->big : shape.kernel->small, static_cast<unsigned>(blocks), shape.threads,
         programmatic_launch_, stream, pointers);
}

void Yardstick::check(CudaStream) {
  std::vector<uint8_t> control(sizeof(uint32_t));
  control_.read(&control);
  if (std::any_of(control.begin(), control.end(), [](uint8_t byte) { return byte != 0; })) {
    throw std::runtime_error("a kernel of the study has waited in vain for another rank");
  }
}

}  // namespace nvrar::bench
