#include "gpu/yardstick_norm.h"

#include <nvrar.h>

#include "gpu/images.h"

namespace nvrar::bench {
namespace {

using yardstick::kGroupVectors;
using yardstick::kVectorBytes;

constexpr uint32_t kRowsMost = 32;
constexpr uint32_t kHidden = 4096;
constexpr uint32_t kLongHidden = 8192;
constexpr unsigned kPortableCluster = 8;

}  // namespace

YardstickNorm::YardstickNorm(Team* team, bool has_clusters, bool programmatic_launch)
    : peers_(team), has_clusters_(has_clusters), programmatic_launch_(programmatic_launch) {}

bool YardstickNorm::takes(const Problem& problem) const {
  const int ranks = peers_.ranks();
  return has_clusters_ && (ranks == 2 || ranks == 4 || ranks == 8) && problem.form == NVRAR_FUSION_RMS_NORM &&
         problem.data_type == NVRAR_BFLOAT16 && problem.rows() <= kRowsMost &&
         (problem.hidden == kHidden || problem.hidden == kLongHidden);
}

YardstickNorm::Shape YardstickNorm::shape_of(const Problem& problem) const {
  const uint32_t rows = problem.rows();
  const bool is_long = problem.hidden == kLongHidden;
  switch (peers_.ranks()) {
    case 2:
      return {false, rows <= 8 ? 16u : 8u};
    case 4:
      if (is_long) return rows <= 8 ? Shape{false, 16} : Shape{true, rows <= 16 ? 8u : 4u};
      return rows <= 2 ? Shape{false, 16} : rows <= 16 ? Shape{false, 8} : Shape{true, 1};
    default:
      if (is_long) return rows <= 2 ? Shape{false, 16} : Shape{true, 4};
      return rows <= 4 ? Shape{false, 16} : Shape{true, 1};
  }
}

CudaFunction YardstickNorm::kernel_of(const std::string& name) {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  const CudaFunction kernel = Kernels(yardstick_norm_image()).of(name.c_str());
  cuda::check(cuda::driver().cuFuncSetAttribute(kernel, cuda::kMayHaveLargeClusters, 1),
              "allowing clusters of 16 blocks");
  return kernels_.emplace(name, kernel).first->second;
}

void YardstickNorm::enqueue(const Problem& problem, const Buffers& at, CudaStream stream) {
  const auto ranks = static_cast<unsigned>(peers_.ranks());
  const Shape shape = shape_of(problem);
  // A team of a warp for each rank has 32 vectors of the row, or 32 of each slice of it.
  const unsigned vectors = problem.hidden * type_bytes(problem.data_type) / kVectorBytes;
  const unsigned slices = shape.two_shot ? ranks : 1;
  const unsigned teams = vectors / slices / shape.cluster / kGroupVectors;
  const unsigned blocks = problem.rows() * shape.cluster;
  const bool big = uint64_t{blocks} * teams * ranks * kGroupVectors * kVectorBytes > yardstick::kSmallArea;
  yardstick::NormArguments arguments{};
  arguments.in = at.send;
  arguments.residual = at.residual;
  arguments.weight = at.weight;
  arguments.out = at.recv;
  arguments.residual_out = at.residual_out;
  arguments.peers = peers_.arguments();
  arguments.base = big ? 4 * yardstick::kSmallArea / kVectorBytes : 0;
  arguments.eps = problem.eps();
  void* pointers[] = {&arguments};
  const CudaFunction kernel =
      kernel_of(std::string("nvrar_bench_") + (shape.two_shot ? "two" : "one") + "_shot_norm_" + std::to_string(ranks) +
                "_" + std::to_string(shape.cluster) + (big ? "_big" : "_small"));
  launch(kernel, {blocks, teams * ranks * 32, shape.cluster}, programmatic_launch_, stream, pointers);
}

void YardstickNorm::check(CudaStream) { peers_.check(); }

}  // namespace nvrar::bench
